"""Texts of others in every command, for people and as a table: shown as text, on the line where they belong."""

from __future__ import annotations

import contextlib
import io
import json
import unicodedata
from collections.abc import Callable, Iterator

import pytest

from corral.faces.cli.app import run
from corral.faces.cli.terminal.context import Common
from tests.support.coordinated import Coordinated

FORGED = "FORGED line of Corral"
EVIL = f"[bold]x[/bold] \x1b[2J\x1b]0;owned\x07\u202egnp.exe\u2066\u200b\x9b31m\r\n{FORGED}\n\x1b[31m{FORGED}"
"""Markup, escape codes (also of one byte), bidi and invisible characters, and a second line."""


@pytest.fixture
def planted(coordinate: Callable[..., Coordinated]) -> tuple[Coordinated, dict[str, str]]:
    """A repository in which everything that takes a text has got the hostile one."""
    house = coordinate(config="tasks: {max_retries: 0}", verify=("cat out*.txt; ! ls out*.txt",))
    output = f"printf %s {json.dumps(EVIL)!r} > output.txt; cat output.txt"
    task = house.ask("POST", "/tasks", {"title": EVIL, "command": output, "thread_id": "t-1", "metadata": {EVIL: EVIL}})
    dead = house.ask("POST", "/tasks", {"title": EVIL, "command": f"{output}; exit 3"})
    held = house.ask("POST", "/tasks", {"title": EVIL, "description": EVIL, "task_type": "review"})
    house.ask("POST", "/sessions", {"session_id": "s-1", "agent_name": "Ada", "current_task": EVIL, "program": EVIL})
    house.ask("POST", "/sessions", {"session_id": "s-2", "agent_name": "Ben"})
    house.ask("POST", "/locks/acquire", {"paths": ["src/a.py"], "session_id": "s-1", "reason": EVIL})
    sent = house.ask("POST", "/messages", {"session_id": "s-1", "to": ["Ben"], "subject": EVIL, "body": EVIL})
    left = {"session_id": "s-1", "summary": EVIL, "next_steps": [EVIL], "completed_work": [EVIL]}
    handoff = house.ask("POST", "/handoffs", left)
    house.ask("POST", "/memory", {"session_id": "s-1", "summary": EVIL, "lessons": [EVIL], "tags": ["x"]})
    house.ask("POST", "/features", {"feature_id": "F-1", "resource_claims": ["src/**"], "title": EVIL})
    house.ask("POST", f"/tasks/{held['task_id']}/state", {"key": "k", "value": {"said": EVIL}})
    house.ask("POST", "/pause", {"reason": EVIL}) if False else None
    house.run("wait", task["task_id"], dead["task_id"], "--timeout", "60", check=False)

    return house, {
        "task": task["task_id"],
        "dead": dead["task_id"],
        "held": held["task_id"],
        "message": str(sent["id"]),
        "handoff": handoff["handoff_id"],
    }


def looks(ids: dict[str, str]) -> Iterator[str]:
    yield from (
        "status", "task list", "task list --compact", "task dlq list", "merge list", "session list", "session show Ada",
        "lock list", "lock check src/a.py", "worktree list", "worktree recover", "worktree pool", "feature list",
        "feature show F-1", "feature analyze --claim src/a.py", "handoff list", "memory list", "memory search owned",
        "message inbox --agent Ben", "message contacts", "message search owned", "message thread {message}",
        "message show {message}", "handoff show {handoff}", "swarm status", "metrics --by agent", "supervisor status",
        "agent list", "team list", "trust", "config show", "config explain landing.verify", "alias list",
        "config profiles", "wait {task} {dead} --timeout 0", "state list {held}", "state get {held} k", "task claim",
    )  # fmt: skip
    for task in ("task", "dead", "held"):
        yield from (f"task detail {{{task}}}", f"task logs {{{task}}}")
    yield from ("task dlq show {dead}", "merge detail {task}", "merge log {task}", "task nothing")


@pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # the commands end with their process
@pytest.mark.req("NFR-SEC-003", "FR-CLI-004")
def test_no_command_obeys_a_text_or_lets_it_forge_a_line(
    planted: tuple[Coordinated, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    house, ids = planted
    monkeypatch.chdir(house.root)
    shown_by = {
        f"{command} {form}": seen(command.format(**ids).split(), form)
        for command in looks(ids)
        for form in ("human", "table")
    }
    bad = {
        command: sorted(
            {
                f"U+{ord(character):04X}"
                for character in shown
                if unicodedata.category(character) in ("Cc", "Cf") and character != "\n"
            }
        )
        for command, shown in shown_by.items()
    }
    assert {command: marks for command, marks in bad.items() if marks} == {}
    forged = {
        command: [line for line in shown.splitlines() if line.startswith(FORGED)] for command, shown in shown_by.items()
    }
    logs = ("task logs", "merge log")  # a program's output is what these show
    assert {command for command, lines in forged.items() if lines and not command.startswith(logs)} == set()
    assert sum("owned" in shown for shown in shown_by.values()) > 30, "the texts are shown"


def seen(words: list[str], form: str) -> str:
    """Everything that a command writes."""
    for name, value in (("output", None), ("quiet", False), ("verbose", False), ("debug", False)):
        setattr(Common, name, value)
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        run([*words, *(["--output", form] if form != "human" else [])])
    return out.getvalue()
