"""Six sessions of the real client in one checkout, some of which are killed between their edits, with bridges and the daemon."""

from __future__ import annotations

import os
import random
import signal
import threading
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.stage import text, tool
from tests.e2e.team import Member, Team, plugin

pytestmark = [pytest.mark.e2e, pytest.mark.faults, pytest.mark.timeout(900)]
STEPS = 12


def file_of(number: int) -> str:
    return f"of-{number}.txt"


class Watch(threading.Thread):
    """Looks all the time whether a file still has what its holder wrote."""

    def __init__(self, folder: Path) -> None:
        super().__init__(daemon=True)
        self.over = threading.Event()
        self.held = set[int]()
        self.overwritten: list[str] = []
        self._folder = folder

    def run(self) -> None:
        while not self.over.wait(0.01):
            for number in sorted(self.held):
                content = (self._folder / file_of(number)).read_text()
                if content.startswith("by ") and number in self.held:
                    self.overwritten.append(f"{file_of(number)}: {content}")


def writes(number: int, content: str) -> dict[str, Any]:
    return tool("Write", file_path=f"$CWD/{file_of(number)}", content=content)


def busy(number: int, chance: random.Random) -> list[dict[str, Any]]:
    """Edits of a session's own file among attempts at everybody else's."""
    others = [other for other in range(6) if other != number]
    tried = [writes(chance.choice(others), f"by {number}") for _ in range(STEPS)]
    return [
        step for turn, attempt in enumerate(tried) for step in (attempt, writes(number, f"of {number}, turn {turn}"))
    ]


@pytest.mark.slow("six clients that edit while two of them, two bridges and the daemon are killed")
def test_deaths_among_six_sessions_overwrite_nothing_and_stop_nobody(team: Team, tmp_path: Path) -> None:
    seed = int(os.environ.get("STORM_SEED", random.randrange(10**6)))
    print(f"STORM_SEED={seed}")
    chance, whole, hooks = random.Random(seed), team.plugin, plugin(tmp_path / "hooks alone", mod=False)
    members: list[Member] = []
    for number in range(6):
        team.plugin = hooks if number % 2 else whole
        members.append(team.member())
        members[-1].begin(writes(number, f"of {number}"), text("Done."))
    for member in members:
        member.conversation.wait(member.has_done, timeout_s=120)
    watch = Watch(team.repo)
    watch.held = set(range(6))
    watch.start()

    def in_the_midst(number: int) -> None:
        """Wait until a session has made some of its edits."""
        asked = len(members[number].requests)
        team.until(lambda: len(members[number].requests) > asked + 2 or members[number].has_done())

    def die(number: int) -> None:
        watch.held.discard(number)
        os.kill(members[number].pid, signal.SIGKILL)

    order = chance.sample(range(6), 6)
    living = set(order)
    for victim, bridgeless, is_daemon_first in ((order[0], order[1], False), (order[2], order[3], True)):
        for number in living:
            members[number].begin(*busy(number, chance), text("Done."))
        in_the_midst(victim)
        if is_daemon_first:
            team.house.kill_daemon()
        die(victim)
        living.discard(victim)
        members[bridgeless].bridge.kill()
        in_the_midst(order[5])
        if not is_daemon_first:
            team.house.kill_daemon()
        for number in living:
            members[number].conversation.wait(members[number].has_done, timeout_s=240)
            assert "is held by" in members[number].told, f"{number} was refused nothing"
            assert (team.repo / file_of(number)).read_text() == f"of {number}, turn {STEPS - 1}"
    team.house.run("daemon", "start")
    ids = {members[number].session_id for number in living}
    team.until(lambda: set(team.locks().values()) <= ids)
    heir = members[min(living)]
    transcript = heir.do(*(writes(number, "by an heir") for number in order if number not in living))
    holders = team.locks()
    for number in set(order) - living:
        assert holders[file_of(number)] in ids, transcript
        assert "by " in (team.repo / file_of(number)).read_text(), "what a dead session held is no longer anybody's"
    watch.over.set()
    watch.join()
    assert watch.overwritten == []
