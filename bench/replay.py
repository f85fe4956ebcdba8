"""A repository's own merges, made again: each is held against plain ``git merge``, and trains of them land through the queue.

    python -m bench replay REPOSITORY [--merges N] [--trains N]

The repository is only read: everything happens in a temporary clone with a copy of its objects, since git touches the times
of such as are linked or borrowed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from tests.integration.landing_world import World as LandingWorld
from tests.support.merging import Class, Merged, PlainGit, agree, corrals

from bench.world import QUICK, world
from corral.config.sections.sharing import Landing
from corral.git.process.command import Git
from corral.work.merges.store import runs

MERGES = 1000
TRAINS = 20
LENGTH = 5
"""Merges of one train."""
LANDED_WITHIN_S = 600.0

T = TypeVar("T")


@dataclass(frozen=True)
class Recorded:
    """A merge as it stands in the history."""

    sha: str
    ours: str
    theirs: str
    tree: str


@dataclass
class Replay:
    """What was found in one repository.

    Attributes:
        found: Its two-parent merges; ``octopuses``: those with more parents, which are not checked.
        checked: Of each merge that was, what both say, by the merge's name.
        criss_cross: Merges of which the sides have several best common ancestors.
        wrong: What is not as plain git has it.
    """

    found: int
    octopuses: int
    checked: dict[str, tuple[Merged, Merged]] = field(default_factory=dict)
    as_recorded: int = 0
    criss_cross: int = 0
    trains: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class Replayed:
    """The clone of a repository, with a worktree for plain git."""

    def __init__(self, source: Path, folder: Path) -> None:
        self.clone = folder / "clone.git"
        clone = ["git", "clone", "-q", "--no-hardlinks", "--bare", "--config=gc.auto=0", str(source), str(self.clone)]
        subprocess.run(clone, check=True, stdin=subprocess.DEVNULL)
        self.repo = Git(self.clone)
        self.plain = PlainGit(self.clone, folder / "plain", "HEAD")

    def merges(self, *which: str) -> list[Recorded]:
        """The two-parent merges of these refs, oldest first."""
        only = ("--min-parents=2", "--max-parents=2", "--topo-order", "--reverse", "--format=%H %P %T")
        lines = self.repo.check("log", *only, *which, "--").text.splitlines()
        return [Recorded(*line.split()) for line in lines]

    def compare(self, merge: Recorded, replay: Replay) -> Merged:
        """Merge once more, in both ways; answers plain git's."""
        if merge.sha in replay.checked:
            return replay.checked[merge.sha][0]
        plain, corral = self.plain.merge(merge.ours, merge.theirs), corrals(self.repo, merge.ours, merge.theirs)
        replay.checked[merge.sha] = plain, corral
        replay.as_recorded += plain.tree == merge.tree
        if plain.what is not Class.FAILED and not agree(plain, corral):
            replay.wrong.append(f"{merge.sha}: plain git {plain}; Corral {corral}")
        if plain.what in (Class.CLEAN, Class.CONFLICT):
            replay.criss_cross += len(self.repo.must("merge-base", "--all", merge.ours, merge.theirs).split()) > 1
        return plain

    def trains(self) -> list[list[Recorded]]:
        """Merges that follow each other on the first-parent line of HEAD with nothing between, as many as make a train."""
        trains: list[list[Recorded]] = []
        train: list[Recorded] = []
        for merge in self.merges("HEAD", "--first-parent"):
            train = [*train, merge] if train and merge.ours == train[-1].sha else [merge]
            if len(train) == LENGTH:
                trains.append(train)
                train = []
        return trains

    def land(self, trains: Sequence[list[Recorded]], replay: Replay) -> None:
        """Let the heads of each train land one behind the other, each verified by the queue's own rules."""
        if not trains:
            return
        queue = LandingWorld(self.clone, common_dir=self.clone, landing=Landing(verify=["git rev-parse HEAD^{tree}"]))
        queue.slots = 2
        try:
            for number, train in enumerate(trains):
                if any(self.compare(merge, replay) != Merged(Class.CLEAN, merge.tree) for merge in train):
                    replay.trains["with a merge that is recorded otherwise"] += 1
                    continue
                target = f"replayed/{number}"
                self.repo.must("branch", target, train[0].ours)
                queue.db.write(lambda conn, target=target: runs.set_batch(conn, target, LENGTH))  # type: ignore[misc]
                ids = []
                for place, merge in enumerate(train):
                    self.repo.must("branch", f"{target}-{place}", merge.theirs)
                    ids.append(queue.submit(f"{target}-{place}", target))
                queue.run(deadline_s=LANDED_WITHIN_S)
                states = [queue.merge(merge_id)["state"] for merge_id in ids]
                tree = self.repo.must("rev-parse", f"{target}^{{tree}}")
                if tree == train[-1].tree and set(states) == {"landed"}:
                    replay.trains["landed with the recorded tree"] += 1
                else:
                    replay.wrong.append(f"train to {train[-1].sha}: {states}, tree {tree} instead of {train[-1].tree}")
        finally:
            queue.close()


def spread(items: Sequence[T], number: int) -> list[T]:
    """So many of them at most, evenly from all; 0: all."""
    if not number or len(items) <= number:
        return list(items)
    return [items[place * len(items) // number] for place in range(number)]


def replay(source: Path, folder: Path, merges: int = MERGES, trains: int = TRAINS) -> Replay:
    """Replay a repository.

    Args:
        source: A repository, which is only read.
        folder: Where the clone comes; empty.
        merges: How many of its merges to check, at most; 0: all.
        trains: How many trains to land, at most; 0: all.
    """
    replayed = Replayed(source, folder)
    merge_commits = replayed.merges("--branches", "--tags")
    octopuses = replayed.repo.must("rev-list", "--count", "--min-parents=3", "--branches", "--tags")
    made = Replay(len(merge_commits), int(octopuses))
    for number, merge in enumerate(spread(merge_commits, merges), 1):
        replayed.compare(merge, made)
        if number % 100 == 0:
            print(f"{number} merges …", file=sys.stderr, flush=True)
    replayed.land(spread(replayed.trains(), trains), made)
    return made


COLUMNS = (
    "merges", "octopuses, not checked", "checked", *(what.value for what in Class), "criss-cross", "recorded with git's tree",
    "trains landed with the recorded tree", "other trains", "different from git",
)  # fmt: skip


def row(name: str, replayed: Replay) -> str:
    """A line of the table."""
    classes = Counter(plain.what for plain, _corral in replayed.checked.values())
    landed = replayed.trains["landed with the recorded tree"]
    figures = [
        replayed.found, replayed.octopuses, len(replayed.checked), *(classes[what] for what in Class), replayed.criss_cross,
        replayed.as_recorded, landed, replayed.trains.total() - landed, len(replayed.wrong),
    ]  # fmt: skip
    return f"| {name} | " + " | ".join(map(str, figures)) + " |"


def main(arguments: list[str]) -> int:
    """Replay the named repository; 1 if anything is not as plain git has it."""
    parser = argparse.ArgumentParser(prog="python -m bench replay", description=__doc__)
    parser.add_argument("repository", type=Path, help="any git repository; it is only read")
    parser.add_argument("--merges", type=int, default=MERGES, metavar="N", help="at most, spread evenly; 0: all")
    parser.add_argument("--trains", type=int, default=TRAINS, metavar="N", help="at most, spread evenly; 0: all")
    options = parser.parse_args(arguments)
    source, began = options.repository.resolve(), time.perf_counter()
    with world(QUICK) as here:
        replayed = replay(source, here.folder, options.merges, options.trains)
    print("| repository | " + " | ".join(COLUMNS) + " |\n|" + "---|" * (len(COLUMNS) + 1))
    print(row(options.repository.name, replayed))
    print(f"{time.perf_counter() - began:.0f} s", file=sys.stderr)
    for sha, (plain, _corral) in replayed.checked.items():
        if plain.what is Class.FAILED:
            reason = plain.text.partition("\n")[0]
            print(f"NOT TRIED, since plain git cannot: {sha}: {reason}")
    for wrong in replayed.wrong:
        print(f"DIFFERENT: {wrong}")
    return 1 if replayed.wrong else 0
