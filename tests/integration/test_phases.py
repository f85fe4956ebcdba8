"""The phases of a roadmap task that an agent does: asked for in its prompt, kept as evidence, missed where they are missing."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.core.states import PHASES
from tests.conftest import git
from tests.integration.planned import Plan
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable, put

PROGRAM = """\
#!/bin/sh
# Writes of all phases that its prompt asks for but those that its task names behind "without".
cat > prompt.txt
without=$(sed -n 's/^without //p' prompt.txt)
for file in $(sed -n 's/^- [A-Z]*: \\(.*[.]md\\): .*/\\1/p' prompt.txt); do
    case "$without" in *$(basename "$file" .md)*) continue;; esac
    mkdir -p "$(dirname "$file")"; echo "What I did." > "$file"
done
"""


@pytest.fixture
def worked(coordinate: Callable[..., Coordinated], tmp_path: Path) -> Coordinated:
    """A repository with an agent that has a program."""
    program = executable(tmp_path / "worker", PROGRAM)
    house = coordinate(config="tasks: {max_retries: 0}\nsupervisor: {max_agents: 1}\n")
    put(
        house.root / ".claude" / "agents" / "worker.md",
        f"---\nname: worker\ndescription: d\nrunner: worker\ncommand: [{program}]\n---\nDo it.\n",
    )
    house.trust()
    return house


def evidence(house: Coordinated, name: str) -> dict[str, Any]:
    folder = house.root / ".corral" / "state" / "evidence" / name
    eventually(lambda: (folder / "summary.md").exists())
    written = json.loads((folder / "lifecycle.json").read_text())
    return {
        **written["process"],
        "summary": (folder / "summary.md").read_text(),
        "files": {file.name for file in folder.iterdir()},
    }


@pytest.mark.req("SUP-AC2", "SUP-FR4", "SUP-AC6")
def test_a_roadmap_task_is_asked_for_its_phases_and_what_is_missing_is_said_or_is_a_failure(
    worked: Coordinated,
) -> None:
    required = "process: [verify, PLAN], process_required: true"
    plan = Plan(
        worked,
        f"""\
- {{id: all, agent: worker, prompt: "Do it.\\nwithout SPEC MONITOR"}}
- {{id: own, agent: worker, prompt: Do it., {required}, dependencies: [all]}}
- {{id: strict, agent: worker, prompt: "Do it.\\nwithout VERIFY", {required}, dependencies: [own]}}
- {{id: none, agent: worker, prompt: Do it., process: [], dependencies: [own]}}
- {{id: plain, command: 'true', process_required: true, dependencies: [own]}}
""",
    )
    worked.run("supervisor", "start")
    plan.until(all="done", own="done", strict="blocked", none="done", plain="done")

    kept = evidence(worked, "all")
    assert (kept["asked"], kept["missing"]) == (list(PHASES), ["SPEC", "MONITOR"])
    assert "| phases | 6 of 8; missing: SPEC, MONITOR |" in kept["summary"]
    assert {f"{phase}.md" for phase in PHASES} & kept["files"] == {f"{phase}.md" for phase in PHASES} - {
        "SPEC.md",
        "MONITOR.md",
    }
    assert git(worked.root, "show", "main:.corral-evidence/own/PLAN.md") == "What I did."

    own = evidence(worked, "own")
    assert (own["asked"], own["missing"]) == (["PLAN", "VERIFY"], []) and "| phases | 2 of 2 |" in own["summary"]
    strict = evidence(worked, "strict")
    assert (
        strict["missing"] == ["VERIFY"] and "It left no file of VERIFY in .corral-evidence/strict" in strict["summary"]
    )
    tasks = {row["title"]: row for row in worked.json("task", "list")}
    detail = worked.json("task", "detail", tasks["strict"]["task_id"])
    assert detail["error_code"] == "process_incomplete" and detail["merge"] is None
    for name in ("none", "plain"):
        assert evidence(worked, name)["asked"] == [] and "| phases |" not in evidence(worked, name)["summary"]


@pytest.mark.req("SUP-AC2")
def test_the_settings_choose_the_phases_and_unknown_ones_are_named(worked: Coordinated) -> None:
    worked.configure("supervisor: {process: [PLAN], process_required: true}\n")
    assert worked.json("config", "get", "supervisor.process")["value"] == ["PLAN"]
    plan = Plan(
        worked,
        "- {id: a, agent: worker, prompt: Do it.}\n- {id: b, agent: worker, prompt: x, process: [DREAM]}\n"
        "- {id: c, prompt: x, capabilities: [cobol]}\n",
    )
    worked.run("supervisor", "start")
    plan.until(a="done")
    assert evidence(worked, "a")["asked"] == ["PLAN"]

    def problems() -> dict[str, str]:
        return {problem["id"]: problem["message"] for problem in worked.json("supervisor", "status")["problems"]}

    texts = eventually(lambda: (named := problems()).keys() >= {"b", "c"} and named)
    assert "process: unknown phase 'DREAM'" in texts["b"]
    assert "Nobody here is capable of cobol. There are: " in texts["c"]
    prompt = git(worked.root, "show", "main:prompt.txt")
    assert "- PLAN: .corral-evidence/a/PLAN.md: " in prompt and prompt.endswith("The task:\n\nDo it.")
