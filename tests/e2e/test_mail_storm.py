"""A thousand messages to the real client, through kills, compaction, rest and restarts: receipts say what the API was told."""

from __future__ import annotations

import json
import os
import re
import signal
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.client import Terminal, trust
from tests.e2e.stage import Step, bash, text
from tests.e2e.team import PLUGIN, Member, Team, plugin, session_of

pytestmark = [pytest.mark.e2e, pytest.mark.faults]

LETTERS, ROUNDS, SENDERS = 1000, 10, 5
LETTER = re.compile(r"\| letter (\d{4})\.")
WORK: tuple[Step, ...] = (*(bash("sleep 0.3") for _ in range(6)), text("Done."))


class Storm:
    """Three sessions that read, each under one id whatever is killed, and those who write to them.

    Attributes:
        busy: A session at work, with its mod.
        plain: One at work whose client knows no mods.
        idle: One that rests in a terminal.
    """

    def __init__(self, team: Team, claude: Path, plain_plugin: tuple[str, str], stack: ExitStack) -> None:
        self.team, self._claude, self._stack = team, claude, stack
        self._plugins = {"busy": PLUGIN, "plain": plain_plugin}
        self.busy, self.plain = self._member("busy"), self._member("plain")
        self.idle_id = str(uuid.uuid4())
        self.terminal = self._terminal("--session-id", self.idle_id)
        self.sent: dict[int, str] = {}
        self.told: dict[str, Counter[int]] = defaultdict(Counter)
        self._read = 0
        self.work()
        self.until(lambda: {*self.readers} <= {row["session_id"] for row in team.sessions()}, "all are there")
        self._names = {reader: team.session(reader)["agent_name"] for reader in self.readers}
        for number in range(SENDERS):
            body = {"session_id": f"sender-{number}", "agent_name": f"Sender{number}", "cwd": str(team.repo)}
            team.house.ask("POST", "/sessions", body)

    def _member(self, name: str, *flags: str) -> Member:
        self.team.plugin = self._plugins[name]
        return self.team.member(*flags, new=not flags)

    def _terminal(self, *flags: str) -> Terminal:
        argv = (*PLUGIN, "--permission-mode", "acceptEdits", *flags)
        terminal = Terminal(self._claude, self.team.repo, self.team.env, *argv)
        self._stack.enter_context(terminal)
        terminal.wait("accept edits on")
        return terminal

    @property
    def readers(self) -> tuple[str, str, str]:
        return self.busy.session_id, self.plain.session_id, self.idle_id

    def until(self, condition: Callable[[], Any], why: str) -> None:
        """Wait; what the terminal draws is read meanwhile, or its client would wait for that."""
        try:
            self.terminal.wait(condition, timeout_s=120)
        except AssertionError as error:
            raise AssertionError(f"{why}: {error}") from error

    def send(self, numbers: Iterator[int], many: int) -> None:
        """Send letters to each reader in turn; whoever kills the daemon, one that was answered is stored."""
        for number, _ in zip(numbers, range(many)):  # noqa: B905
            reader = self.readers[number % 3]
            letter = {
                "session_id": f"sender-{number % SENDERS}",
                "to": [self._names[reader]],
                "subject": f"Number {number}",
                "body": f"letter {number:04}.",
                "idempotency_key": f"letter-{number}",
            }
            self.team.house.ask("POST", "/messages", letter)
            self.sent[number] = reader

    def receipts(self, reader: str) -> list[dict[str, Any]]:
        query = {"session_id": reader, "limit": 1000}
        return [row for row in self.team.house.ask("GET", "/messages", query=query) if LETTER.match(f"| {row['body']}")]

    def listen(self) -> None:
        """Read what the API was told meanwhile, and answered."""
        requests = self.team.stage.requests
        for request in requests[self._read :]:
            if request.step is not None:
                texts = json.dumps(request.body["messages"])
                self.told[session_of(request)].update({int(number) for number in LETTER.findall(texts)})
        self._read = len(requests)

    def unheard(self, reader: str) -> set[int]:
        """What is said to be delivered to a reader, and the API was not told."""
        claimed = {number_of(row) for row in self.receipts(reader) if row["state"] == "injected"}
        self.listen()
        return claimed - self.told[reader].keys()

    def check(self, *readers: str) -> None:
        """No receipt of a reader at rest, or of one that is gone, says more than the API was told."""
        for reader in readers:
            assert not (unheard := self.unheard(reader)), f"said to be delivered: {unheard}"

    def work(self) -> None:
        for member in (self.busy, self.plain):
            member.begin(*WORK)

    def rest(self) -> None:
        """Wait until every turn has ended, and nothing waits for the session that can be woken.

        Who is said to be idle does not count: the daemon may have been dead when a turn ended.
        """
        self.until(lambda: self.busy.has_done() and self.plain.has_done(), "the turns end")
        self.until(lambda: not self.queued(self.idle_id), "it is woken")
        # A hook that wakes a session, as before its mod has found a new daemon, hands over before the turn begins.
        self.until(lambda: not self.unheard(self.idle_id), "it hears what it was woken with")

    def queued(self, reader: str) -> list[dict[str, Any]]:
        return [row for row in self.receipts(reader) if row["state"] == "queued"]

    def kill(self, name: str, *, at_once: bool = False) -> None:
        """Kill the client of a member, and go on in another one; at once: before the daemon has seen that it died."""
        member: Member = getattr(self, name)
        os.kill(member.pid, signal.SIGKILL)
        member.conversation.process.wait()
        if not at_once:
            self.until(lambda: member.row["status"] == "disconnected", "its death is seen")
            self.check(member.session_id)
        again = self._member(name, "--resume", member.session_id)
        again.session_id = member.session_id
        setattr(self, name, again)
        again.begin(*WORK)

    def kill_terminal(self) -> None:
        os.kill(self.terminal.process.pid, signal.SIGKILL)
        self.terminal.process.wait()
        self.until(lambda: self.team.session(self.idle_id)["status"] == "disconnected", "its death is seen")
        self.check(self.idle_id)
        self.terminal = self._terminal("--resume", self.idle_id)

    def compact(self) -> None:
        """Compact the conversations, while mail for them comes."""
        for member in (self.busy, self.plain):
            self.until(member.has_done, "a turn ends")
            member.say("/compact")
        self.terminal.send("/compact")

    def kill_daemon(self) -> None:
        self.team.house.kill_daemon()

    def restart_daemon(self) -> None:
        self.team.house.run("daemon", "restart")


def number_of(row: dict[str, Any]) -> int:
    return int(str(row["body"])[7:11])


CHAOS: tuple[tuple[Callable[[Storm], None], ...], ...] = (
    (),
    (Storm.kill_daemon,),
    (lambda storm: storm.kill("busy"),),
    (Storm.compact,),
    (Storm.kill_daemon, lambda storm: storm.kill("plain")),
    (Storm.restart_daemon,),
    (lambda storm: storm.kill("busy", at_once=True),),
    (Storm.kill_terminal,),
    (Storm.compact, Storm.kill_daemon),
    (lambda storm: storm.kill("plain", at_once=True),),
)


@pytest.mark.slow("Three sessions of the real client get a thousand messages while all is killed and compacted.")
@pytest.mark.timeout(900)
def test_of_a_thousand_messages_none_is_lost_and_none_said_to_be_delivered_that_was_not(
    team: Team, sealed: Path, claude: Path, tmp_path: Path
) -> None:
    trust(sealed, team.repo)
    with ExitStack() as stack:
        storm = Storm(team, claude, plugin(tmp_path / "hooks alone", mod=False), stack)
        numbers = iter(range(LETTERS))
        for deeds in CHAOS:
            storm.send(numbers, LETTERS // ROUNDS // 2)
            for deed in deeds:
                deed(storm)
            storm.send(numbers, LETTERS // ROUNDS // 2)
            storm.rest()
            storm.check(*storm.readers)
            storm.work()
        for _ in range(60):
            storm.rest()
            if not any(map(storm.queued, storm.readers)):
                break
            storm.work()
        storm.check(*storm.readers)
        for reader in storm.readers:
            letters = {number for number, whose in storm.sent.items() if whose == reader}
            assert letters and storm.told[reader].keys() == letters, "none is lost, and none goes astray"
            assert {row["state"] for row in storm.receipts(reader)} == {"injected"}
        ways = {reader: {row["way"] for row in storm.receipts(reader)} for reader in storm.readers}
        assert "turn" in ways[storm.busy.session_id] and ways[storm.plain.session_id] == {"hook"}
        assert "prompt" in ways[storm.idle_id]
        print(ways, psutil.Process().num_fds())
