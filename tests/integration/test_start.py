"""What a daemon's start costs: what few requests need is loaded when one of them comes."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.support.coordinated import Coordinated

NOT_AT_START = {"alembic", "fastmcp", "mcp", "opentelemetry", "pathspec"}


def loaded(house: Coordinated) -> set[str]:
    """The packages that the daemon has imported; it was started to tell."""
    lines = (house.root / ".corral/logs/daemon-start.log").read_text().splitlines()
    return {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in lines if line.startswith("import time:")}


def test_a_daemon_with_a_new_database_serves_what_sessions_ask_all_the_time_without_the_rest(
    house: Coordinated,
) -> None:
    house.run("daemon", "stop", check=False)
    for file in (house.root / ".corral").glob("corral.db*"):
        file.unlink()
    house.run("daemon", "start", PYTHONPROFILEIMPORTTIME="1")
    assert house.daemon_pid()
    house.hook("SessionStart", "s-1", source="startup")
    house.edit("s-1", "src/a.py")
    house.ask("POST", "/locks/acquire", {"paths": ["src/b.py"], "session_id": "s-1"})
    house.ask("POST", "/messages", {"session_id": "s-2", "to": ["all"], "subject": "Hello", "body": "there"})
    assert len(house.ask("GET", "/messages?session_id=s-1")) == 1
    assert loaded(house) & {"sqlalchemy", *NOT_AT_START} == {"sqlalchemy"}

    def ask(number: int) -> Any:
        if number % 2:
            return house.hook("UserPromptSubmit", f"t-{number}", prompt="Go on.")
        return house.ask("GET", "/worktrees")

    with ThreadPoolExecutor(8) as clients:  # all of them wait for the same import
        answers = [*clients.map(ask, range(8))]
    assert answers[::2] == [[]] * 4 and all(isinstance(answer, dict) for answer in answers[1::2])
    assert "fastmcp" not in loaded(house)
