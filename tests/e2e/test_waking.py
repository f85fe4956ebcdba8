"""Mail reaches a session of the real client that nobody asks anything: in a terminal it is woken, a worker is told."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
import yaml

from corral.coordination.sessions.waking import PATIENCE_S
from tests.e2e.client import Terminal, trust
from tests.e2e.stage import Request, script, text
from tests.e2e.team import Team, argv, plugin, session_of, words_since_script

pytestmark = pytest.mark.e2e


class Screen:
    """The one session of a terminal, whichever that is after ``/clear``, and what waits beside it."""

    def __init__(self, terminal: Terminal, team: Team) -> None:
        self.terminal = terminal
        self._team = team
        self.pid = terminal.process.pid

    @property
    def alive(self) -> list[dict[str, str]]:
        sessions = [row for row in self._team.sessions() if row["agent_type"] == "claude"]
        return [row for row in sessions if row["status"] != "disconnected"]

    @property
    def row(self) -> dict[str, str]:
        (row,) = self.alive
        return row

    @property
    def waiters(self) -> list[psutil.Process]:
        """The hooks that wait for mail."""
        return [
            child for child in psutil.Process(self.pid).children() if any("import wait" in word for word in argv(child))
        ]

    def ask(self, words: str) -> None:
        self.terminal.send(script(text(words)))
        self.terminal.wait(lambda: any(request.step == text(words) for request in self._team.stage.requests))

    def rest(self) -> psutil.Process:
        """Wait until it rests; returns the one hook that waits beside it."""
        self.terminal.wait(lambda: self.row["status"] == "idle" and len(self.waiters) == 1)
        return self.waiters[0]

    def woken_by(self, body: str, *flags: str) -> Request:
        """Write to it, and wait until its model was told."""
        self._team.house.run("message", "send", self.row["agent_name"], "A question", body, *flags)
        self.terminal.wait(lambda: self.told(body))
        return self.told(body)[0]

    def told(self, body: str) -> list[Request]:
        return [request for request in self._team.stage.requests if f"| {body}" in str(request.body["messages"])]


@pytest.mark.slow("a day of a session in a terminal: five letters, /clear, a daemon that goes")
def test_a_session_at_rest_in_a_terminal_is_woken_by_mail_once(
    team: Team, sealed: Path, claude: Path, tmp_path: Path
) -> None:
    trust(sealed, team.repo)
    team.plugin = plugin(tmp_path / "hooks alone", mod=False)
    with Terminal(claude, team.repo, team.env, *team.plugin, "--permission-mode", "acceptEdits") as terminal:
        screen = Screen(terminal, team)
        terminal.wait("accept edits on")
        terminal.wait(team.sessions)
        screen.ask("One.")
        first = screen.rest()
        terminal.wait(f"Corral: this session is {screen.row['agent_name']}.")

        woken = screen.woken_by("Which file?")
        assert "Mail for this session" in str(woken.body["messages"][-1])
        second = screen.rest()
        assert second != first
        assert len(screen.told("Which file?")) == 1

        # Two prompts, one at the heels of the other: the waiters do not pile up, and one letter wakes once.
        aside = ("A word aside", "Nothing urgent.", "--importance", "low")
        team.house.run("message", "send", screen.row["agent_name"], *aside)
        screen.ask("Two.")
        terminal.wait("A word aside")
        screen.ask("Three.")
        screen.rest()
        woken = screen.woken_by("Which branch?")
        screen.rest()
        assert str(woken.body["messages"]).count("| Which branch?") == 1
        assert len(screen.told("Which branch?")) == 1

        # The session after /clear has never stopped: the hook of the one before it is its own now.
        waiting, before = screen.rest(), screen.row["session_id"]
        terminal.send("/clear")
        terminal.wait(lambda: [row for row in screen.alive if row["session_id"] != before])
        assert screen.rest() == waiting
        woken = screen.woken_by("Which module?")
        assert "| Which file?" not in str(woken.body["messages"])
        waiting = screen.rest()

        # Where the daemon goes, the hook waits for the next one; what is low wakes nobody.
        team.house.stop()
        name = screen.row["agent_name"]
        team.house.run("message", "send", name, "By the way", "Nothing.", "--importance", "low")
        screen.woken_by("Which line?")
        screen.rest()

        waiting = screen.rest()
        terminal.send("/exit")
        terminal.wait(lambda: terminal.process.poll() is not None)
        terminal.wait(lambda: not argv(waiting))


def test_a_session_whose_turn_broke_off_with_an_error_of_the_api_rests_and_is_woken_by_mail(
    team: Team, sealed: Path, claude: Path, tmp_path: Path
) -> None:
    trust(sealed, team.repo)
    team.plugin = plugin(tmp_path / "hooks alone", mod=False)
    team.stage.fail(400, times=None, containing="Break off.")
    with Terminal(claude, team.repo, team.env, *team.plugin, "--permission-mode", "acceptEdits") as terminal:
        screen = Screen(terminal, team)
        terminal.wait("accept edits on")
        terminal.wait(team.sessions)
        terminal.send(script(text("One."), say="Break off."))
        terminal.wait("API Error")
        screen.rest()
        asked = time.monotonic()
        screen.woken_by("Which file?")
        assert time.monotonic() - asked < PATIENCE_S / 2
        screen.rest()  # its turn fails again; of the mail it was told once
        counts = {str(request.body["messages"]).count("| Which file?") for request in screen.told("Which file?")}
        assert counts == {1}


def test_a_worker_that_only_thinks_is_told_its_mail_once(start_team: Callable[..., Team], claude: Path) -> None:
    team = start_team(config=yaml.safe_dump({"runners": {"claude": {"command": str(claude)}}}))
    prompt = script({"sleep": 8}, text("Thought."))
    asked = ("--title", "Think", "--prompt", prompt, "--agent", "implementer")
    task_id = str(team.house.json("task", "submit", *asked)["task_id"])
    (thinking,) = team.until(lambda: [request for request in team.stage.requests if request.step == text("Thought.")])
    worker = team.session(session_of(thinking))
    team.house.run("message", "send", "implementer", "A question", "Which file?")
    assert team.house.json("wait", task_id, "--timeout", "60", timeout_s=90)["done"]
    texts = [
        words_since_script(request) for request in team.stage.requests if "| Which file?" in words_since_script(request)
    ]
    assert texts and {words.count("| Which file?") for words in texts} == {1}
    (mail,) = team.house.ask("GET", "/messages", query={"session_id": worker["session_id"]})
    assert (mail["state"], mail["to"]) == ("injected", "implementer")
    assert team.house.json("task", "detail", task_id)["status"] == "completed"
