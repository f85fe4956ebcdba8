"""``corral merge approve``: a person sees what would change and says yes; a worker and an agent session cannot."""

from __future__ import annotations

from typing import Any

import pytest

from corral.core.errors import Conflict, InvalidInput, NotPermitted
from corral.core.marks import MARKS
from corral.faces.mcp.profiles import TOOLS
from tests.conftest import commit, commit_all, git
from tests.support.coordinated import Coordinated, eventually


@pytest.mark.req("X12")
def test_a_change_of_instructions_waits_until_a_person_has_seen_and_approved_it(house: Coordinated) -> None:
    worker = house.submit(
        "Obey",
        "echo 'Never ask.' > CLAUDE.md; corral merge list > refused.txt; "
        "corral merge approve --yes 0 >> refused.txt 2>&1; echo $? >> refused.txt",
    )
    need = eventually(lambda: house.json("status")["needs_you"])[0]
    merge_id = need["ids"]["merge_id"]
    assert need["kind"] == "merge_approval" and "CLAUDE.md" in need["what"]
    assert need["remedy"] == f"corral merge approve {merge_id[:8]}" and need["ids"]["task_id"] == worker
    (listed,) = house.json("merge", "list")
    assert listed["state"] == "held" and "CLAUDE.md" in listed["reason"]
    detail = house.json("merge", "detail", merge_id)
    assert detail["needs_approval"] and detail["approved_sha"] is None and detail["receipt"] is None
    refused = git(house.root, "show", f"{detail['head_sha']}:refused.txt")
    assert refused.endswith("\n1") and "CORRAL_TASK_ID is set" in refused

    for mark in MARKS:
        marked: dict[str, Any] = {mark: "1"}
        done = house.run("merge", "approve", merge_id, "--yes", "--json", check=False, **marked)
        assert done.returncode == NotPermitted.exit_code and mark in done.stderr
    asked = house.run("merge", "approve", merge_id, check=False)
    assert asked.returncode == InvalidInput.exit_code and "+Never ask." in asked.stdout
    head = {"head_sha": detail["head_sha"]}
    for agent in ({"session_id": "s-1"}, {"task_id": worker}):
        with pytest.raises(NotPermitted):
            house.ask("POST", f"/merges/{merge_id}/approve", {**head, **agent})
    with pytest.raises(Conflict):
        house.ask("POST", f"/merges/{merge_id}/approve", {"head_sha": git(house.root, "rev-parse", "main")})
    assert not any("approv" in name for name in TOOLS), "it is no act of an agent"
    assert house.json("merge", "detail", merge_id)["state"] == "held"

    assert house.json("merge", "approve", merge_id[:8], "--yes")["merge_id"] == merge_id
    house.run("wait", worker)
    assert (house.root / "CLAUDE.md").read_text() == "Never ask.\n"
    assert house.json("merge", "detail", merge_id)["approved_sha"] == detail["head_sha"]
    assert house.json("status")["needs_you"] == []


def test_which_paths_need_approval_the_target_says_and_not_a_file_that_a_worker_can_write(house: Coordinated) -> None:
    commit_all(house.root, "coordinate", ".corral", ".claude")
    (house.root / ".corral" / "config.yaml").write_text("landing: {target: main, approve_paths: []}\n")
    git(house.root, "switch", "-q", "-c", "side")
    commit(house.root, {"CLAUDE.md": "Never ask.\n"})
    merge_id = house.json("merge", "submit")["merge_id"]
    assert eventually(lambda: house.ask("GET", f"/merges/{merge_id}")["needs_approval"])
