"""Keys of known shapes, planted wherever text comes in, stay only where a person put them as content."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable


def anthropic(mark: str) -> str:
    return f"sk-ant-api03-{mark}-0123456789abcdef"


PLANTED = {
    "title": anthropic("title0"),
    "description": "ghp_description0000000000000000000000000",
    "prompt": anthropic("prompt0"),
    "command": anthropic("command0"),
    "environment": "an-opaque-value-of-the-environment-0",
    "output": "xoxb-output0-1234567890-abcdef",
    "failure": "AKIAFAILURE000000000",
    "hook_command": "glpat-hookcommand0000000000",
    "hook_prompt": anthropic("hookprompt0"),
    "hook_words": "hf_hookwords0000000000000000000000",
    "hook_error": "npm_hookerror0000000000000000000000",
    "subject": anthropic("subject0"),
    "body": "https://person:body0password@example.org/x",
    "handoff": "github_pat_handoff000000000000000000",
    "cancel": anthropic("cancel0"),
    "config": anthropic("config0"),
    "refused": anthropic("refused0"),
}
"""A key for each place in which it is planted."""
SECRETS = {name: key.removeprefix("https://person:").split("@")[0] for name, key in PLANTED.items()}
CONTENT = {
    ("tasks", "title"), ("tasks", "description"), ("tasks", "prompt"), ("tasks", "command"),
    ("messages", "subject"), ("messages", "body"), ("messages_fts", "subject"), ("messages_fts", "body"),
    ("merge_requests", "title"), ("handoffs", "summary"),
}  # fmt: skip
"""Columns that are what a person or an agent wrote for somebody to read or to run: docs/security.md lists them."""


def found_in_database(path: Path) -> set[tuple[str, str, str]]:
    """Table, column and plant of each key in the database."""
    places = set()
    with closing(sqlite3.connect(path)) as raw:
        tables = [row[0] for row in raw.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [row[1] for row in raw.execute(f"PRAGMA table_info('{table}')")]
            for row in raw.execute(f'SELECT * FROM "{table}"'):
                for column, value in zip(columns, row, strict=True):
                    text = value.decode("latin-1") if isinstance(value, bytes) else str(value)
                    places |= {(table, column, name) for name, key in SECRETS.items() if key in text}
    return places


def found_in_files(home: Path) -> Iterator[tuple[str, str]]:
    """File and plant of each key below ``.corral``, but for the database, the worktrees and what the person wrote there."""
    for file in home.rglob("*"):
        parts = file.relative_to(home).parts
        if file.is_file() and parts[0] not in ("worktrees", "verify", "local.yaml") and "corral.db" not in parts[0]:
            text = file.read_text(encoding="latin-1")
            yield from ((str(file.relative_to(home)), name) for name, key in SECRETS.items() if key in text)


def found_in_processes(house: Coordinated, but: set[str]) -> Iterator[tuple[str, str]]:
    """Command line and plant of each key in the arguments of the daemon and all that it started."""
    pid = house.running_pid()
    lines = [psutil.Process(pid).cmdline()]
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            lines.append(child.cmdline())
    for words in map(" ".join, lines):
        yield from ((words[:80], name) for name, key in SECRETS.items() if key in words and name not in but)


@pytest.mark.req("NFR-SEC-002")
def test_a_planted_key_is_only_where_a_person_put_it_as_content(
    coordinate: Callable[..., Coordinated], monkeypatch: pytest.MonkeyPatch
) -> None:
    key = SECRETS
    monkeypatch.setenv("PLANTED_API_KEY", key["environment"])
    monkeypatch.setenv("ANTHROPIC_API_KEY", anthropic("daemonskey0"))
    house = coordinate(config="tasks: {max_retries: 0}")
    client = executable(house.root.parent / "claude", "#!/bin/sh\nsleep 2; exit 1\n")
    local = house.root / ".corral" / "local.yaml"
    house.configure(f"runners: {{claude: {{command: {client}}}}}\n")
    house.run("daemon", "start")
    environment = house.root.parent / "environment"
    says = f"env > {environment}; echo {key['output']} {key['environment']}; sleep 1; echo {key['failure']} >&2; exit 3"
    task = house.submit(f"title {key['title']}", f"# {key['command']}\n{says}", "--description", key["description"])
    prompt = house.json("task", "submit", "--title", "prompt", "--prompt", f"use {key['prompt']}")["task_id"]
    eventually(environment.exists)
    assert not list(found_in_processes(house, but={"command", "output", "failure", "environment"}))
    house.run("wait", task, prompt, "--timeout", "60", check=False)

    bash: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_input": {"command": f"echo {key['hook_command']}"},
        "tool_use_id": "u",
    }
    house.hook("SessionStart", "s", source="startup")
    house.hook("UserPromptSubmit", "s", prompt=f"please use {key['hook_prompt']}")
    house.hook("PreToolUse", "s", **bash)
    house.hook("PostToolUseFailure", "s", error=f"curl: {key['hook_error']}", **bash)
    house.hook("Stop", "s", last_assistant_message=f"I used {key['hook_words']}")
    letter = {"session_id": "s", "to": ["s"], "subject": key["subject"], "body": f"see {PLANTED['body']}"}
    house.ask("POST", "/messages", letter)
    house.run("handoff", "write", "--summary", f"it needs {key['handoff']}", check=False)
    later = house.submit("later", "sleep 60")
    house.run("task", "cancel", later, "--reason", f"leaked {key['cancel']}")
    house.run("lock", "acquire", f"../{key['refused']}", check=False)
    local.write_text(f"runners: {{claude: {{command: {client}, model: '{key['config']}'}}}}\n")
    eventually(lambda: house.json("audit", "--action", "config.change"))
    shown = house.run("task", "logs", task).stdout
    house.stop()

    assert key["environment"] not in environment.read_text() and anthropic("daemonskey0") not in environment.read_text()
    assert not [name for name in ("output", "failure", "environment") if key[name] in shown]
    rows = found_in_database(house.root / ".corral" / "corral.db")
    assert sorted(row for row in rows if row[:2] not in CONTENT) == []
    # The last valid settings are a copy of local.yaml, for its owner alone, and end with what is written there next.
    assert (house.root / ".corral/run/settings.json").stat().st_mode & 0o077 == 0
    files = set(found_in_files(house.root / ".corral")) - {("run/settings.json", "config")}
    assert sorted(files) == []
    assert {("tasks", "prompt", "prompt"), ("messages", "body", "body")} <= rows, "the test sees what it looks for"
