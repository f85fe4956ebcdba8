"""Landings beside a person who works in the same checkout: nothing of either is undone."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path

import psutil
import pytest

from corral.git import refs
from corral.git.land import candidates, landing
from corral.git.land.candidates import Candidate
from corral.git.land.landing import InTheWay, Landed
from corral.git.process.command import Identity, open_repository
from tests.conftest import commit, git

pytestmark = [pytest.mark.faults, pytest.mark.timeout(120)]

LANDINGS, MERGES = 50, 20
ME = Identity("C", "c@example.test")


def quietly(repo: Path, *args: str) -> bool:
    """Run git as a user would; whether it succeeded."""
    try:
        git(repo, *args)
    except AssertionError:
        return False
    return True


class Person(threading.Thread):
    """Adds, commits and merges in the checkout, one after the other, and looks after each whether it was kept."""

    def __init__(self, repo: Path) -> None:
        super().__init__()
        self.repo = repo
        self.over = threading.Event()
        self.commits: list[str] = []
        self.adds = self.merges = 0
        self.wrong: list[str] = []

    def run(self) -> None:
        turn, staged = 0, set[str]()
        while not self.over.is_set() and not self.wrong:
            turn += 1
            name = f"mine-{turn}.txt"
            (self.repo / name).write_text(f"{turn}\n")
            if quietly(self.repo, "add", name):
                staged.add(name)
                self.adds += 1
            if turn % 4 == 0 and quietly(self.repo, "commit", "-q", "-m", f"mine {turn}"):
                self.commits.append(git(self.repo, "rev-parse", "HEAD"))
                staged.clear()
            if turn % 9 == 0 and self.merges < MERGES and quietly(
                self.repo, "merge", "-q", "--no-edit", f"side-{self.merges}"
            ):  # fmt: skip
                self.commits.append(git(self.repo, "rev-parse", f"side-{self.merges}"))
                self.merges += 1
            if turn % 3 == 0 or self.over.is_set():
                self._look(staged)

    def _look(self, staged: set[str]) -> None:
        # In the middle of a landing HEAD is ahead of the index: what lasts is wrong, not what is there for a moment.
        for _ in range(50):
            status = set(git(self.repo, "status", "--porcelain", "--untracked-files=no").splitlines())
            if status == (expected := {f"A  {name}" for name in staged}):
                return
            self.over.wait(0.02)
        self.wrong += sorted(status ^ expected)


@pytest.mark.slow("A race shows itself in many rounds of landings beside a person's commands.")
def test_nothing_is_undone_on_either_side(repo: Path) -> None:
    """The person never rests, so every landing comes in the middle of their work."""
    me, base = open_repository(repo / ".git"), git(repo, "rev-parse", "HEAD")
    script = "".join(
        f"commit refs/heads/{name}\ncommitter A <a@b.test> 1700000000 +0000\ndata 1\nx\nfrom {base}\n"
        f"M 100644 inline {name}.txt\ndata 2\nx\n\n"
        for name in [*(f"land-{n}" for n in range(LANDINGS)), *(f"side-{n}" for n in range(MERGES))]
    )
    subprocess.run(["git", "fast-import", "--quiet"], cwd=repo, input=script, text=True, check=True)
    person = Person(repo)
    person.start()
    landed: list[str] = []
    held = 0
    try:
        while len(landed) < LANDINGS and person.is_alive():
            tip, head = (refs.read(me, f"refs/heads/{name}") or "" for name in ("main", f"land-{len(landed)}"))
            built = candidates.build(me, tip, head, "landed\n", ME, datetime.now(timezone.utc))
            assert isinstance(built, Candidate)
            outcome = landing.land(me, "refs/heads/main", built.sha, tip)
            held += isinstance(outcome, InTheWay)
            if isinstance(outcome, Landed):
                landed.append(built.sha)
    finally:
        person.over.set()
        person.join(30)
    print(
        f"{len(landed)} landings ({held} held), {person.adds} adds, {len(person.commits)} commits, {person.merges} merges"
    )
    assert not person.wrong, person.wrong
    assert person.adds > LANDINGS and person.merges
    quietly(repo, "commit", "-q", "-m", "the rest")
    commit(repo, {"last.txt": "x\n"})
    for sha in [*landed, *person.commits]:
        git(repo, "merge-base", "--is-ancestor", sha, "main")
    assert git(repo, "diff", "HEAD") == git(repo, "diff", "--cached") == ""
    assert {f"land-{n}.txt" for n in range(LANDINGS)} <= set(git(repo, "ls-files").splitlines())
    assert git(repo, "fsck", "--connectivity-only", "--no-dangling") == ""


LAND = """
import sys
from pathlib import Path
from corral.git.land import landing
from corral.git.process.command import open_repository
me = open_repository(Path(sys.argv[1], ".git"))
me.run("version")
print("ready", flush=True)
landing.land(me, "refs/heads/main", *sys.argv[2:])
"""


@pytest.mark.req("G7", "G8")
def test_a_landing_that_is_killed_at_any_moment_leaves_nothing_behind(repo: Path) -> None:
    """The daemon, its git, or both; the next landing finishes or gives back, and no lock stays."""
    seed = random.randrange(1 << 30)
    chance, me = random.Random(seed), open_repository(repo / ".git")
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "daemon")}
    commit(repo, {f"d{n % 10}/f{n}": f"{n}\n" for n in range(300)})
    (repo / "README.md").write_text("mine\n")
    git(repo, "add", "README.md")
    for turn in range(15):
        tree = git(repo, "rev-parse", "main~1^{tree}")  # to and fro: 300 files come and go
        old = git(repo, "rev-parse", "main")
        new = git(repo, "commit-tree", "-p", old, "-m", f"{turn}", tree)
        argv = [sys.executable, "-c", LAND, str(repo), new, old]
        daemon = subprocess.Popen(argv, env=env, stdout=subprocess.PIPE)
        assert daemon.stdout and daemon.stdout.readline() == b"ready\n"
        time.sleep(chance.uniform(0, 0.09))  # the moment of the kill is what varies; nothing waits for it
        whom = chance.choice(["git", "daemon", "both"])
        there: list[psutil.Process] = []
        with suppress(psutil.NoSuchProcess):  # it may have done all by then
            there = [*psutil.Process(daemon.pid).children(recursive=True), psutil.Process(daemon.pid)]
        for process in there:
            with suppress(psutil.Error):
                if whom == "both" or (whom == "daemon") == (process.pid == daemon.pid):
                    process.kill()
        daemon.wait()
        daemon.stdout.close()
        assert landing.land(me, "refs/heads/main", new, old) == Landed(new), f"seed {seed}, turn {turn}, {whom}"
        assert git(repo, "status", "--porcelain") == "M  README.md", f"seed {seed}, turn {turn}, {whom}"
        assert (repo / "README.md").read_text() == "mine\n"
        left = [*(repo / ".git").glob("corral.landing*"), *(repo / ".git").rglob("*.lock")]
        assert left == [], f"seed {seed}, turn {turn}, {whom}"
