"""Forty branches at once: some broken, tests that fail by chance, a daemon that is killed, and a person at work on the target.

Used by the suite and by ``python -m bench scene``. What the verifications found is written down by themselves, outside of the
repository and of the database, and is what the queue's decisions are held against.
"""

from __future__ import annotations

import os
import random
import re
import statistics
import subprocess
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.conftest import GIT_ENV, commit, commit_all, git
from tests.faults.storm import Caller, processes_of
from tests.support.coordinated import Coordinated, eventually

BRANCHES, KILLS, COMMITS = 40, 10, 3
SECONDS = 4.0
"""Of a verification, where the machine is idle."""
SLOTS = 4
TICKETS = 2000
CHANCE_OF = 20
"""One run of so many is red by chance."""

_TESTS = """
! grep -q broken parts/*.txt || { echo 'FAILED: a broken part'; exit 1; }
! test -e parts/left.txt || ! test -e parts/right.txt || { echo 'FAILED: left and right, together'; exit 1; }
"""
_VERIFY = """
n=1
while ! mkdir "$1/runs/$n" 2>/dev/null; do n=$((n + 1)); done
run="$1/runs/$n"
git rev-parse 'HEAD^{tree}' > "$run/tree"
date +%s.%N > "$run/began"
sleep "$2"
if sh tests.sh; then verdict=green; else verdict=red; fi
test $verdict = red || test ! -e "$1/unlucky/$n" || verdict=chance
date +%s.%N > "$run/ended"
echo $verdict > "$run/verdict"
test $verdict = green && echo '2 passed in 3.00s'
"""


def config(folder: Path) -> str:
    """The settings of a house in which a scene plays: a verification knows its world by ``folder``."""
    return f"landing: {{slots: {SLOTS}, verify: ['sh {folder}/verify.sh {folder} {SECONDS:g}']}}\n"


@dataclass(frozen=True)
class Run:
    """A verification, as it saw itself.

    Attributes:
        tree: What it was of.
        verdict: ``green``, ``red``, ``chance`` (red, and nothing was wrong), or empty: it was ended.
        took_s: Seconds; of one that came to its end.
    """

    tree: str
    verdict: str
    took_s: float | None


class LandingScene:
    """One play of it.

    Args:
        house: Made with :func:`config`, and approved.
        folder: Where the verifications look up their luck, and write what they find.
        seed: Of everything that is drawn.
    """

    def __init__(self, house: Coordinated, folder: Path, seed: int) -> None:
        self.house, self.root, self.folder = house, house.root, folder
        self.seed, self.chance = seed, random.Random(seed)
        self.conflict, self.breaker, self.earlier, self.later = self._cast()
        self.merges: dict[int, str] = {}
        self.own: list[str] = []
        """The commits that the person made while the queue was at work."""
        self.kills = 0
        self.taken_s = 0.0
        self._set_up()

    def __str__(self) -> str:
        runs = Counter(run.verdict or "ended" for run in self.runs())
        return (
            f"{self.kills} kills, {len(self.own)} own commits, runs: {dict(runs)}; {self.taken_s:.0f} s of "
            f"{self.unit_s:.1f} each: {self.units:.1f}; STORM_SEED={self.seed}"
        )

    def _cast(self) -> tuple[int, int, int, int]:
        conflict, breaker, one, other = self.chance.sample(range(BRANCHES), 4)
        return conflict, breaker, min(one, other), max(one, other)

    def _set_up(self) -> None:
        for name in ("runs", "unlucky"):
            (self.folder / name).mkdir()
        for first in range(1, TICKETS, CHANCE_OF):
            (self.folder / "unlucky" / str(first + self.chance.randrange(CHANCE_OF))).touch()
        (self.folder / "verify.sh").write_text(_VERIFY)
        (self.root / "tests.sh").write_text(_TESTS)
        commit(self.root, {"parts/first.txt": "fine\n", "shared.txt": "1\n2\n3\n", "mine.txt": "mine\n"}, "the parts")
        commit_all(self.root, "coordinated")
        for number in range(BRANCHES):
            git(self.root, "switch", "-q", "-c", f"side/{number}", "main")
            commit(self.root, self._part(number), f"part {number}")
        git(self.root, "switch", "-q", "main")
        commit(self.root, {"shared.txt": "1\ntwo\n3\n"}, "another second line")
        (self.root / "mine.txt").write_text("mine\nand more, not committed\n")
        (self.root / "notes.txt").write_text("not tracked\n")
        (self.root / "staged.txt").write_text("staged\n")
        git(self.root, "add", "staged.txt")

    def _part(self, number: int) -> dict[str, str]:
        special = {
            self.conflict: {"shared.txt": "1\nII\n3\n"},
            self.breaker: {f"parts/{number}.txt": "broken\n"},
            self.earlier: {"parts/left.txt": "fine\n"},
            self.later: {"parts/right.txt": "fine\n"},
        }
        return special.get(number, {f"parts/{number}.txt": "fine\n"})

    # -- the play

    def play(self, *, kills: int = KILLS, commits: int = COMMITS) -> None:
        """Submit all, then kill and commit until both are done, and wait until nothing is open any more."""
        caller = Caller(self.root)
        try:
            began = time.monotonic()
            for number in range(BRANCHES):
                self.merges[number] = caller("POST", "/merges", {"branch": f"side/{number}"})["merge_id"]
            before = {max(kills * part // (commits + 1), 1) for part in range(1, commits + 1)}
            for number in range(1, kills + 1):
                self._pass(caller, self.chance.uniform(0.2, 1.2))
                if number in before:
                    self._commit(number)
                    self._pass(caller, 0.3)
                self._kill(caller)
            eventually(lambda: caller("GET", "/wait", query={"all": True, "timeout_s": 5})["settled"], 600)
            self.taken_s = time.monotonic() - began
        finally:
            caller.close()

    def _pass(self, caller: Caller, units: float) -> None:
        """Let so many verification times pass, as a client that waits."""
        caller("GET", "/health")
        time.sleep(units * self.unit_s)

    def _commit(self, number: int) -> None:
        """As a person does: a file of their own; where git says that the index is locked, once more."""
        (self.root / f"own-{number}.txt").write_text("mine\n")
        env = {**os.environ, **GIT_ENV}

        def committed() -> bool:
            add = ["git", "add", f"own-{number}.txt"]
            own = ["git", "commit", "-q", "-m", f"own {number}", "--", f"own-{number}.txt"]
            done = [subprocess.run(words, cwd=self.root, env=env, capture_output=True) for words in (add, own)]
            return not any(process.returncode for process in done)

        eventually(committed)
        self.own.append(git(self.root, "log", "-1", "--format=%H", "main", "--", f"own-{number}.txt"))

    def _kill(self, caller: Caller) -> None:
        pid = caller("GET", "/health")["pid"]
        psutil.Process(pid).kill()
        eventually(lambda: caller("GET", "/health")["pid"] != pid)
        self.kills += 1

    # -- what must be true afterwards

    def runs(self) -> list[Run]:
        """Every verification that began, in order."""

        def text(run: Path, name: str) -> str:
            return (run / name).read_text().strip() if (run / name).exists() else ""

        runs = []
        for run in sorted((self.folder / "runs").iterdir(), key=lambda place: int(place.name)):
            began, ended = text(run, "began"), text(run, "ended")
            runs.append(Run(text(run, "tree"), text(run, "verdict"), float(ended) - float(began) if ended else None))
        return runs

    @property
    def unit_s(self) -> float:
        """Seconds that a verification takes here, with what the machine's load adds."""
        taken = [run.took_s for run in self.runs() if run.took_s is not None]
        return statistics.median(taken) if taken else SECONDS

    @property
    def units(self) -> float:
        """Verification times until nothing was open."""
        return self.taken_s / self.unit_s

    @property
    def allowed_units(self) -> float:
        """So many it may take."""
        return 15 + self.kills + 2 * len(self.own)

    def check(self) -> None:
        """All that is good has landed, what is not is out with evidence, and neither target nor checkout was ever wrong."""
        rows = {number: self.house.ask("GET", f"/merges/{merge_id}") for number, merge_id in self.merges.items()}
        out = {number for number, row in rows.items() if row["state"] != "landed"}
        reasons = {number: rows[number]["reason"] for number in out}
        assert {self.conflict, self.breaker} < out and len(out) == 3, f"{reasons}; {self}"
        (of_pair,) = out - {self.conflict, self.breaker}
        assert of_pair in (self.earlier, self.later), f"{reasons}; {self}"
        assert of_pair == self.later or self._was_passed(rows[self.earlier]), f"{reasons}; {self}"
        assert [conflict["path"] for conflict in rows[self.conflict]["conflicts"]] == ["shared.txt"], rows[
            self.conflict
        ]
        self._check_evidence(rows[self.breaker], "a broken part")
        self._check_evidence(rows[of_pair], "left and right, together")
        self._check_target(rows)
        self._check_checkout()

    def _check_evidence(self, row: dict[str, Any], failure: str) -> None:
        """It was red, and its target without it green, both in logs and by the word of the runs themselves."""
        assert row["state"] == "failed", row
        receipt, reason = row["receipt"], str(row["reason"])
        assert "red" in {run.verdict for run in self.runs() if run.tree == receipt["tree"]}, f"{row} {self}"
        assert failure in (self.root / receipt["log"]).read_text(), row
        control = re.search(r"without it passed, .*: control run .*, log: (\S+)", reason)
        assert control is not None, reason
        assert "2 passed" in (self.root / control[1]).read_text(), reason

    def _was_passed(self, row: dict[str, Any]) -> bool:
        """Whether the later one of the pair may have passed the earlier one, that a death had wait or chance made a suspect."""
        unlucky = [run.tree for run in self.runs() if run.verdict == "chance"]
        return row["tries"] > 0 or any(git(self.root, "ls-tree", tree, "parts/left.txt") for tree in unlucky)

    def _check_target(self, rows: dict[int, dict[str, Any]]) -> None:
        """It only ever stood at commits that are green without any chance; each request landed once."""
        moves = git(self.root, "reflog", "show", "--format=%H", "main").splitlines()
        assert set(self.own) <= set(moves) and moves[0] == git(self.root, "rev-parse", "main")
        place = self.folder / "looked-at"
        git(self.root, "worktree", "add", "-q", "--detach", str(place), "main")
        for sha in dict.fromkeys(moves):
            git(place, "switch", "-q", "--detach", sha)
            if (place / "tests.sh").exists():
                tests = subprocess.run(["sh", "tests.sh"], cwd=place, capture_output=True, text=True)
                assert tests.returncode == 0, f"{sha} is red: {tests.stdout} {self}"
        git(self.root, "worktree", "remove", str(place))
        heads = git(self.root, "log", "--format=%P", "main").splitlines()
        for number, row in rows.items():
            if row["state"] == "landed":
                git(self.root, "merge-base", "--is-ancestor", row["landed_sha"], "main")
                brought = [line for line in heads if row["head_sha"] in line.split()]
                assert len(brought) <= 1, f"{number} landed {len(brought)} times: {self}"
        files = set(git(self.root, "ls-tree", "-r", "--name-only", "main").splitlines())
        assert len([name for name in files if name.startswith("parts/")]) == 1 + BRANCHES - 3, files
        assert len([name for name in files if name.startswith("own-")]) == len(self.own)

    def _check_checkout(self) -> None:
        """The person's files are as they left them, and the checkout is where its branch is."""
        assert git(self.root, "symbolic-ref", "HEAD") == "refs/heads/main"
        changes = git(self.root, "status", "--porcelain").splitlines()
        assert sorted(line.strip() for line in changes) == ["?? notes.txt", "A  staged.txt", "M mine.txt"], changes
        assert (self.root / "mine.txt").read_text() == "mine\nand more, not committed\n"
        assert (self.root / "notes.txt").read_text() == "not tracked\n"
        assert git(self.root, "fsck", "--connectivity-only", "--no-dangling") == ""
        self.house.run("daemon", "stop")
        eventually(lambda: not processes_of(self.root))
        held = git(self.root, "for-each-ref", "refs/corral/mq").splitlines()
        assert len(held) <= 3, held
