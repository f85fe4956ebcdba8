"""How merge queues compare, by simulation: the planner of this one, and the rules of others, on the same requests.

One unit of time is one run of the tests; as many run at once as there are slots. A request is broken by itself, or together with
another one; a run of good work fails by chance now and then. Printed for each way are the units until nothing is left, the runs,
and the innocent requests that were sent back for each thousand. Then the planner plays random schedules with all that a queue
may meet; how often the target was red in them is told, and how many innocents came back.

    python -m bench.queue_simulation
"""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from corral.landing import ladder, order
from corral.landing.ladder import Check, Judgement, Verdict

REQUESTS = 40
SCHEDULES = 1000
CHECK = 0.1
"""Of a unit that a check takes."""
PAIRS = 0.0015
"""How probable it is that two requests break each other."""


@dataclass
class World:
    """The requests of one schedule, and what is known of them.

    Attributes:
        broken: Requests that fail by themselves.
        pairs: Requests of which each is good, and both together are not.
        flake: How often a run of good work fails.
        slots: Runs at once.
        arrives: When each request is submitted; those without one are there from the beginning.
        priority: Of each request; those without one have 5.
        ageing: Units of waiting that are worth a step of priority; 0: none.
        behind: The requests on whose work one was begun.
        ended_at: When each that has landed or is out did.
        verify_each: Nothing lands that was not verified by itself.
        has_check: A cheap check finds what is broken by itself.
        clashes_share: How probable it is that two requests conflict, so that no commit has both.
        moves: How often a person commits to the target while a run ends.
    """

    seed: int
    broken_share: float
    flake: float
    slots: int
    requests: int = REQUESTS
    verify_each: bool = False
    has_check: bool = False
    pairs_share: float = PAIRS
    clashes_share: float = 0.0
    moves: float = 0.0
    arrives: dict[int, float] = field(default_factory=dict)
    priority: dict[int, int] = field(default_factory=dict)
    ageing: float = 0.0
    behind: dict[int, list[int]] = field(default_factory=dict)
    now: float = 0.0
    runs: int = 0
    innocents: int = 0
    red_targets: int = 0
    landed: frozenset[int] = frozenset()
    ended_at: dict[int, float] = field(default_factory=dict)
    returned: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)
        numbers = range(self.requests)
        self.broken = {number for number in numbers if self.chance.random() < self.broken_share}
        both = list(itertools.combinations(numbers, 2))
        self.pairs = {pair for pair in both if self.chance.random() < self.pairs_share}
        self.clashes = {pair for pair in both if self.clashes_share and self.chance.random() < self.clashes_share}

    def is_good(self, work: frozenset[int]) -> bool:
        """Whether the tests of this work pass, but for chance."""
        return not work & self.broken and not any(work.issuperset(pair) for pair in self.pairs)

    def is_clash(self, number: int, work: frozenset[int]) -> bool:
        """Whether a request conflicts with this work."""
        return any(number in pair and not work.isdisjoint(pair) for pair in self.clashes)

    def shot(self, work: frozenset[int]) -> bool:
        """One run of the tests."""
        self.runs += 1
        return self.is_good(work) and self.chance.random() >= self.flake

    def land(self, work: frozenset[int]) -> None:
        """The target moves to this work."""
        self.ended_at |= dict.fromkeys(work - self.landed, self.now)
        self.landed = work
        self.red_targets += not self.is_good(work)

    def submitted(self, waiting: Sequence[int]) -> list[int]:
        """The requests that are there by now, in landing order."""

        def rank(number: int) -> tuple[int, int]:
            waited = self.now - self.arrives.get(number, 0.0)
            return -order.lifted(self.priority.get(number, 5), waited, self.ageing), number

        there = sorted((number for number in waiting if self.arrives.get(number, 0.0) <= self.now), key=rank)
        behind = {str(number): list(map(str, others)) for number, others in self.behind.items()}
        return [int(name) for name in order.in_order(list(map(str, there)), behind)]

    def send_back(self, number: int) -> None:
        """A request is out."""
        self.returned.add(number)
        self.ended_at[number] = self.now
        self.innocents += self.is_good(self.landed | {number}) and not self.is_clash(number, self.landed)


def by_ladder(
    world: World, check: Callable[[Sequence[ladder.Member], list[ladder.Action]], None] | None = None
) -> None:
    """What the planner does; ``check`` is shown each plan."""
    work, tip, names = {"tip": frozenset[int]()}, "tip", itertools.count()
    waiting = list(range(world.requests))
    built: dict[int, ladder.Candidate] = {}
    verdicts: dict[str, Verdict] = {}
    proofs, suspects, clashes_on = set[str](), set[int](), dict[int, str]()
    running: dict[str, tuple[float, bool]] = {}
    checks = dict.fromkeys(waiting, Check.NOT_RUN) if world.has_check else {}
    checking: dict[str, float] = {}
    batch = world.slots
    while waiting:
        members = []
        for number in world.submitted(waiting):
            verdict = verdicts.get(built[number].sha) if number in built else None
            judged = Judgement.AT_FAULT if number in suspects and verdict is Verdict.RED else None
            below = frozenset(str(other) for other in world.behind.get(number, ()) if other in waiting)
            member = ladder.Member(str(number), built.get(number), verdict, number in suspects, judged, behind=below)
            members.append(replace(member, check=checks.get(number), clashes_on=clashes_on.get(number)))
        actions = ladder.plan(
            members, tip, batch=batch, slots=world.slots, running=set(running), checking=set(checking),
            verify_each=world.verify_each,
        ) if members else []  # fmt: skip
        if check is not None:
            check(members, actions)
        action = actions[0] if actions else None
        if isinstance(action, ladder.Build):
            number, sha = int(action.merge_id), f"c{next(names)}"
            if world.is_clash(number, work[action.on_sha]):
                clashes_on[number] = action.on_sha
                if action.on_sha == tip:
                    waiting.remove(number)
                    suspects.discard(number)
                    world.send_back(number)
                continue
            work[sha] = work[action.on_sha] | {number}
            built[number] = ladder.Candidate(sha, action.on_sha)
        elif isinstance(action, ladder.Land):
            numbers = [int(merge_id) for merge_id in action.merge_ids]
            tip = built[numbers[-1]].sha
            world.land(work[tip])
            waiting = [number for number in waiting if number not in numbers]
            suspects.difference_update(numbers)
            batch = min(batch * 2, ladder.LONGEST_BATCH) if action.is_clean else batch
        elif isinstance(action, ladder.Suspect):
            number = int(action.merge_id)
            suspects.add(number)
            batch = max(batch // 2, min(world.slots, batch), 1)
            if built[number].sha not in proofs or built[number].on_sha != tip:
                verdicts.pop(built[number].sha, None)
        elif isinstance(action, ladder.Acquit):
            suspects.remove(int(action.merge_id))
        elif isinstance(action, ladder.Return):
            number = int(action.merge_id)
            suspects.discard(number)
            waiting.remove(number)
            world.send_back(number)
        else:
            runs = [run for run in actions if isinstance(run, ladder.Verify)]
            checking = {run.sha: checking.get(run.sha, world.now + CHECK) for run in runs if run.is_check}
            wanted = {run.sha: run for run in runs if not run.is_check}
            running = {sha: outcome for sha, outcome in running.items() if sha in wanted}
            for sha in [sha for sha in wanted if sha not in running]:
                is_green, took = world.shot(work[sha]), 1
                if not is_green and wanted[sha].is_alone:
                    is_green, took = world.shot(work[sha]), 2
                    proofs.add(sha)
                running[sha] = (world.now + took, is_green)
            ends = {**checking, **{sha: at for sha, (at, _) in running.items()}}
            sha = min(ends, key=lambda sha: ends[sha], default="")
            coming = min((at for at in world.arrives.values() if at > world.now), default=None)
            if coming is not None and (not ends or coming < ends[sha]):
                world.now = coming
                continue
            world.now = ends[sha]
            if world.moves and world.chance.random() < world.moves:
                before, tip = tip, f"c{next(names)}"
                work[tip] = work[before]
            if sha in checking:
                del checking[sha]
                number = next(number for number in waiting if number in built and built[number].sha == sha)
                checks[number] = Check.AT_FAULT
                if number not in world.broken:
                    del checks[number]
                continue
            is_green = running.pop(sha)[1]
            verdicts[sha] = Verdict.GREEN if is_green else Verdict.RED


def serially(world: World) -> None:
    """One after the other; red is run again once."""
    for number in range(world.requests):
        work = world.landed | {number}
        for _ in range(2):
            world.now += 1
            if world.shot(work):
                world.land(work)
                break
        else:
            world.send_back(number)


def by_bisection(world: World) -> None:
    """Five at once; a red batch is run again once, and then halved until single ones are red."""
    waiting = [list(range(start, min(start + 5, world.requests))) for start in range(0, world.requests, 5)]
    while waiting:
        batch = waiting.pop(0)
        work = world.landed.union(batch)
        world.now += 1
        if not (is_green := world.shot(work)):
            world.now += 1
            is_green = world.shot(work)
        if is_green:
            world.land(work)
        elif len(batch) == 1:
            world.send_back(batch[0])
        else:
            middle = len(batch) // 2
            waiting[:0] = [batch[:middle], batch[middle:]]


def by_chain(world: World, retries: int = 0) -> None:
    """Zuul's gate: every request behind those before it, all slots at once; what is red by itself at the head is out."""
    waiting = list(range(world.requests))
    tries = dict.fromkeys(waiting, 0)
    while waiting:
        window = waiting[: world.slots]
        world.now += 1
        verdicts = [world.shot(world.landed.union(window[: place + 1])) for place in range(len(window))]
        for number, is_green in zip(window, verdicts, strict=True):
            if is_green:
                world.land(world.landed | {number})
                waiting.remove(number)
                continue
            tries[number] += 1
            if tries[number] > retries:
                waiting.remove(number)
                world.send_back(number)
            break


def by_train(world: World) -> None:
    """merge-steward's train: as the chain, but what is red is run again once, and is then out wherever it stands.

    What was built upon it begins anew; a green candidate waits for those before it.
    """
    waiting, green = list(range(world.requests)), set[int]()
    tries = dict.fromkeys(waiting, 0)
    while waiting:
        window = waiting[: world.slots]
        world.now += 1
        for place, number in enumerate(window):
            if number in green or world.shot(world.landed.union(window[: place + 1])):
                green.add(number)
                continue
            tries[number] += 1
            if tries[number] > 1:
                waiting.remove(number)
                world.send_back(number)
                behind = window[place + 1 :]
                green.difference_update(behind)
                tries.update(dict.fromkeys(behind, 0))
                break
        while waiting and waiting[0] in green:
            world.land(world.landed | {waiting.pop(0)})


WAYS: dict[str, Callable[[World], None]] = {
    "serial, red twice": serially,
    "five and bisect": by_bisection,
    "chain (Zuul)": by_chain,
    "chain, red twice": lambda world: by_chain(world, 1),
    "train (merge-steward)": by_train,
    "ladder": by_ladder,
}
SETTINGS = [(0.02, 0.0, 1), (0.02, 0.0, 4), (0.10, 0.05, 1), (0.10, 0.05, 2), (0.10, 0.05, 4), (0.25, 0.05, 4)]


def figures(
    way: Callable[[World], None], broken: float, flake: float, slots: int, seeds: int
) -> tuple[float, float, float]:
    """The mean time, the mean runs, and the innocent requests of a thousand."""
    worlds = [World(seed, broken, flake, slots, pairs_share=PAIRS if flake else 0.0) for seed in range(seeds)]
    for world in worlds:
        way(world)
    innocents = sum(world.innocents for world in worlds) * 1000 / sum(world.requests for world in worlds)
    return statistics.mean(w.now for w in worlds), statistics.mean(w.runs for w in worlds), innocents


def schedules(number: int = SCHEDULES) -> Iterator[World]:
    """Random ones, which differ in all that a queue may meet."""
    for seed in range(number):
        yield World(
            seed, [0.02, 0.1, 0.25][seed % 3], 0.05, seed % 4 + 1, requests=20, verify_each=seed % 5 == 0,
            has_check=seed % 7 == 0, clashes_share=[0.0, 0.02][seed % 2], moves=[0.0, 0.0, 0.1][seed // 2 % 3],
            behind={} if seed % 8 else {number: [number - 1] for number in range(1, 20) if number % 3},
        )  # fmt: skip


def main(seeds: int = 100) -> None:
    """Print the table, and what random schedules come to."""
    print(f"{REQUESTS} requests, {seeds} schedules each: units of time / runs / innocents returned of 1,000")
    print(f"{'broken, by chance, slots':28}" + "".join(f"{name:>23}" for name in WAYS))
    for broken, flake, slots in SETTINGS:
        row = f"{broken:.0%}, {flake:.0%}, {slots}"
        cells = ["{:.1f} / {:.0f} / {:.2f}".format(*figures(way, broken, flake, slots, seeds)) for way in WAYS.values()]
        print(f"{row:28}" + "".join(f"{text:>23}" for text in cells))
    played = list(schedules())
    for world in played:
        by_ladder(world)
    red, innocents = sum(world.red_targets for world in played), sum(world.innocents for world in played)
    requests = sum(world.requests for world in played)
    print(
        f"{len(played)} random schedules of the ladder: {red} red targets, {innocents} innocents returned of {requests}"
    )


if __name__ == "__main__":
    main()
