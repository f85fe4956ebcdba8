"""``corral task diff`` and ``corral merge diff``: what a person sees of a change while it is made, before and after it lands."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import NotFound
from tests.conftest import commit, commit_on, git
from tests.support.coordinated import Coordinated, eventually

CONFIG = "tasks: {max_retries: 0}\nworktrees: {pool_min_files: 0}\n"


@pytest.mark.req("FR-CLI-003")
def test_a_change_is_shown_while_it_is_made_as_it_would_land_and_as_it_landed(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    house, go = coordinate(config=CONFIG), tmp_path / "go"
    later = house.submit("Later", "true", "--wait-for", house.submit(
        "Red", f"printf 'hello\\n\\033[31mred\\n' > README.md; echo n > new.txt; until [ -e {go} ]; do sleep 0.05; done"
    ))  # fmt: skip
    (row,) = (row for row in house.json("task", "list") if row["task_id"] != later)
    task = row["task_id"]
    assert house.json("task", "diff", later)["note"] == "It has not started."
    assert "has not started" in house.run("task", "diff", later).stdout

    running = eventually(lambda: diff if len((diff := house.json("task", "diff", task))["files"]) == 2 else None)
    assert running["uncommitted"] and running["head_sha"] is None and "+n" in running["patch"]
    shown = house.run("task", "diff", str(row["number"])).stdout
    assert "+\\x1b[31mred" in shown and "\x1b" not in shown, "no escape code reaches a terminal, and no colour a pipe"
    detail = house.run("task", "detail", task).stdout
    assert "changes   2 files, 2 lines added, 0 removed" in detail and "command   printf" in detail
    stat = house.run("task", "diff", task, "--stat").stdout
    assert "new.txt" in stat and "2 files, 2 lines added, 0 removed" in stat and "+n" not in stat

    go.touch()
    house.run("wait", task)
    landed = house.json("merge", "diff", task)
    assert landed["state"] == "landed" and not landed["uncommitted"]
    assert landed["patch"] == house.json("task", "diff", landed["merge_id"])["patch"] == running["patch"]
    assert house.ask("GET", f"/merges/{task}/diff", query={"patch": "false"})["patch"] is None


def test_of_a_conflict_a_failed_task_and_a_lost_commit_what_there_is_is_shown(house: Coordinated) -> None:
    commit_on(house.root, "side", {"README.md": "side\n"})
    commit(house.root, {"README.md": "main\n", "other.txt": "o\n"})
    merge = house.json("merge", "submit", "side")["merge_id"]
    failed = house.submit("Fail", "echo half > half.txt; printf '\\0' > bin; exit 3", "--retries", "0")
    house.run("wait", "--all", check=False)
    diff = house.json("merge", "diff", merge)
    assert diff["state"] == "conflict" and [file["path"] for file in diff["files"]] == ["README.md"]
    assert "+side" in diff["patch"] and "other.txt" not in diff["patch"], (
        "what the branch did, not what its target did since"
    )

    left = eventually(lambda: answer if (answer := house.json("task", "diff", failed))["head_sha"] else None)
    assert "+half" in left["patch"], "what a failed task left is in its salvage"
    assert "binary files, and of files over 1 MiB, are not shown" in house.run("task", "diff", failed).stdout
    assert "over 1 MiB" not in house.run("merge", "diff", merge).stdout

    head = diff["head_sha"]
    git(house.root, "branch", "-q", "-D", "side")
    for ref in git(house.root, "for-each-ref", "--format=%(refname)", f"--contains={head}").splitlines():
        git(house.root, "update-ref", "-d", ref)
    git(house.root, "reflog", "expire", "--expire=now", "--all")
    git(house.root, "gc", "-q", "--prune=now")
    gone = house.run("merge", "diff", merge, check=False)
    assert gone.returncode == NotFound.exit_code and head[:12] in gone.stderr


def test_of_a_squashed_branch_that_went_on_only_what_is_new_is_shown_and_merged(house: Coordinated) -> None:
    house.configure("landing: {style: squash}\n")
    commit_on(house.root, "side", {"README.md": "side\n"})
    commit(house.root, {"other.txt": "o\n"})
    first = house.json("merge", "submit", "side")["merge_id"]
    house.run("wait", first)
    assert house.json("merge", "detail", first)["style"] == "squash"
    commit(house.root, {"README.md": "main goes on from that\n", "src/a.py": "a = 3\n"})
    git(house.root, "switch", "-q", "side")
    commit(house.root, {"src/a.py": "a = 2\n"})
    git(house.root, "switch", "-q", "main")
    merge = house.json("merge", "submit", "side")["merge_id"]
    house.run("wait", merge, check=False)
    assert [file["path"] for file in house.json("merge", "diff", merge)["files"]] == ["src/a.py"]
    opened = house.json("merge", "open", merge)
    assert opened["conflicts"] == ["src/a.py"], "README.md is no conflict: main has what the branch brought"
    place = Path(opened["path"])
    assert (place / "README.md").read_text() == "main goes on from that\n"
    (place / "src/a.py").write_text("a = 5\n")
    git(place, "commit", "-qam", "resolved")
    again = house.json("merge", "submit", opened["branch"], "--target", "main")["merge_id"]
    house.run("wait", again)
    assert git(house.root, "show", "main:src/a.py") == "a = 5"
    assert git(house.root, "show", "main:README.md") == "main goes on from that"
