"""Worktrees, one landing, and a batch from submit to landed, each next to the same git commands in a shell."""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.measure import Measure, in_turns, p50, spread
from bench.world import World, git

AGENTS = 10
TASKS = 40


def measure(world: World) -> Iterator[Measure]:
    """Measure the allocation of a worktree, warm and fresh, next to a bare ``git worktree add``."""
    yield from _measure_allocation(world, world.sizes.files, max(2, world.sizes.turns // 2), 100)
    yield from _measure_allocation(world, world.sizes.files_of_large, max(2, world.sizes.turns // 5), 500)


def _measure_allocation(world: World, files: int, turns: int, budget_ms: float) -> Iterator[Measure]:
    house = world.coordinated(files, "worktrees: {pool_size: 1, pool_min_files: 0}\n")
    house.run("daemon", "start")
    client, count = house.client(), itertools.count()

    def refill() -> None:
        """Have a task leave a warm worktree, and let the target move on by ten files."""
        task = client.request("POST", "/tasks", {"title": "no-op", "command": "true"})["task_id"]
        answer: dict[str, Any] = {"settled": False}
        while not answer["settled"]:
            answer = client.request("GET", "/wait", query={"task": [task]})
        while not client.request("GET", "/worktrees/pool")["worktrees"]:
            time.sleep(0.01)
        turn = next(count)
        for number in range(min(10, files)):
            (house.root / "d000" / f"f{number:05}.txt").write_text(f"turn {turn}\n" * 20)
        git(house.root, "commit", "-q", "-a", "-m", f"turn {turn}")

    def create() -> None:
        client.request("POST", "/worktrees", {"name": f"ours-{next(count)}"}, timeout_s=120)

    def bare() -> None:
        name = f"bare-{next(count)}"
        git(house.root, "worktree", "add", "-q", "-b", name, str(world.folder / f"{house.root.name}-{name}"))

    _, warm, fresh, floor = in_turns(turns, refill, create, create, bare)
    used = client.request("GET", "/worktrees/pool")["used"]
    client.close()
    if used != turns:
        raise RuntimeError(f"the warm pool was used {used} times, not {turns}")
    what = f"worktree for a task, {files:,} files"
    yield Measure(f"{what}, warm pool", p50(warm), "ms", p50(floor), budget_ms, note=f"{spread(warm)}; 10 files differ")
    yield Measure(f"{what}, fresh", p50(fresh), "ms", p50(floor), note=f"{spread(fresh)}; floor: git worktree add")


def branch(root: Path, number: int, files: int, text: str = "changed") -> str:
    """Create a branch from the first commit that changes one file of its own, to ``text`` and more, without a checkout."""
    name, path = f"side-{number}", f"d{number % files // 100:03}/f{number % files:05}.txt"
    index = root / ".git" / "bench-index"
    command = """
    export GIT_INDEX_FILE="$1"; git read-tree "$2" &&
    blob=$(printf '%s on %s\\n' "$5" "$3" | git hash-object -w --stdin) &&
    git update-index --cacheinfo "100644,$blob,$4" && tree=$(git write-tree) &&
    git update-ref "refs/heads/$3" "$(git commit-tree "$tree" -p "$2" -m "$3")"
    """
    first = git(root, "rev-list", "--max-parents=0", "main")
    subprocess.run(["sh", "-c", command, "sh", str(index), first, name, path, text], cwd=root, check=True)
    return name


_LAND = """
tip=$(git rev-parse main) && tree=$(git merge-tree --write-tree main "$1") &&
new=$(git commit-tree "$tree" -p "$tip" -p "$1" -m "Merge $1") && git merge -q --ff-only "$new"
"""


def measure_landing(world: World) -> Iterator[Measure]:
    """Measure the landing of one clean merge into the main checkout's branch, next to git's minimum.

    That git works in a clone: in a checkout where git has just been running, a landing waits until it is idle.
    """
    files, turns = world.sizes.files, world.sizes.turns
    house = world.coordinated(files)
    house.run("daemon", "start")
    client = house.client()
    names = [branch(house.root, number, files) for number in range(2 * turns)]
    branches, apart = iter(names), world.folder / "apart"
    git(world.folder, "clone", "-q", str(house.root), str(apart))

    def ours() -> None:
        made = client.request("POST", "/merges", {"branch": next(branches)})
        answer: dict[str, Any] = {"settled": False}
        while not answer["settled"]:
            answer = client.request("GET", "/wait", query={"merge": [made["merge_id"]]})
        if not answer["done"]:
            raise RuntimeError(f"not landed: {answer}")

    def bare() -> None:
        subprocess.run(["sh", "-c", _LAND, "sh", f"origin/{next(branches)}"], cwd=apart, check=True)

    taken, floor = in_turns(turns, ours, bare)
    client.close()
    note = f"{spread(taken)}; floor: merge-tree, commit-tree, merge --ff-only in a shell"
    yield Measure(f"landing one clean merge, {files:,} files", min(taken), "ms", min(floor), 150, note=note)


_LOOP = """
set -e
for n in $(seq "$1"); do
  git worktree add -q -b "loop-$n" "$2/loop-$n" main
  (cd "$2/loop-$n" && echo "$n" > "loop-$n.txt" && git add . && git commit -q -m "loop $n")
  git merge -q --no-edit "loop-$n"
  git worktree remove "$2/loop-$n"
  git branch -q -d "loop-$n"
done
"""


def measure_batch(world: World) -> Iterator[Measure]:
    """Measure tasks that each write one line, from the submission until the last has landed, next to a shell loop.

    In a large repository the loop waits for its checkouts, one after the other.
    """
    yield _measure_batch(world, world.sizes.files_of_swarm, 3)
    yield _measure_batch(world, world.sizes.files_of_tasks, 1)


def _measure_batch(world: World, files: int, ratio: float) -> Measure:
    tasks = min(TASKS, world.sizes.tasks_of_swarm)
    house = world.coordinated(files, f"supervisor: {{max_agents: {AGENTS}}}\n")
    house.run("daemon", "start")
    client, rounds = house.client(), itertools.count()

    def ours() -> None:
        turn = next(rounds)
        batch = [{"title": f"task {n}", "command": f"echo {n} > round{turn}-{n}.txt"} for n in range(tasks)]
        ids = client.request("POST", "/tasks/batch", {"tasks": batch})["task_ids"]
        answer: dict[str, Any] = {"settled": False}
        while not answer["settled"]:
            answer = client.request("GET", "/wait", query={"task": ids})
        if not answer["done"]:
            raise RuntimeError(f"not landed: {answer}")

    def bare() -> None:
        place = world.folder / f"loop{files}-{next(rounds)}"
        root = house.root.with_name(f"{house.root.name}-plain")
        if not root.exists():
            git(house.root, "clone", "-q", str(house.root), str(root))
        subprocess.run(["sh", "-c", _LOOP, "sh", str(tasks), str(place)], cwd=root, check=True)
        for name in [f"loop-{n}" for n in range(1, tasks + 1)]:
            (root / f"{name}.txt").unlink()
        git(root, "commit", "-q", "-a", "-m", "again")

    turns = 1 if tasks < TASKS else 3
    taken, floor = ([ms / 1000 for ms in samples] for samples in in_turns(turns, ours, bare))
    client.close()
    note = f"{spread(taken)}; floor: a shell loop of worktree add, command, commit, merge, remove"
    what = f"{tasks} no-op tasks, {AGENTS} agents, {files:,} files"
    return Measure(what, min(taken), "s", min(floor), ratio=ratio, note=note)
