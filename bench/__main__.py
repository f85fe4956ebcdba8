"""``python -m bench [name…] [--quick]``; ``python -m bench replay REPOSITORY`` (:mod:`bench.replay`)."""

from __future__ import annotations

import argparse
import sys
import traceback
from collections.abc import Callable, Iterator

from bench import (
    claims,
    commands,
    hooks,
    idle,
    ladder,
    operations,
    replay,
    scene,
    storm,
    supervisor,
    swarm,
    tasks,
    view,
    worktrees,
)
from bench.measure import Measure, table
from bench.world import QUICK, Sizes, World, world

SECTIONS: dict[str, Callable[[World], Iterator[Measure]]] = {
    "commands": commands.measure,
    "idle": idle.measure,
    "operations": operations.measure,
    "tasks": tasks.measure,
    "view": view.measure,
    "claims": claims.measure,
    "hooks": hooks.measure,
    "client": hooks.measure_client,
    "worktrees": worktrees.measure,
    "landing": worktrees.measure_landing,
    "batch": worktrees.measure_batch,
    "ladder": ladder.measure,
    "swarm": swarm.measure,
    "supervisor": supervisor.measure,
}

BY_NAME: dict[str, Callable[[World], Iterator[Measure]]] = {"storm": storm.measure, "scene": scene.measure}
"""Sections that run only where they are named."""


def main(arguments: list[str]) -> int:
    """Run the named measurements, or all."""
    if arguments[:1] == ["replay"]:
        return replay.main(arguments[1:])
    known = {**SECTIONS, **BY_NAME}
    parser = argparse.ArgumentParser(prog="python -m bench", description="Corral's budgets, measured on this machine.")
    parser.add_argument(
        "names", nargs="*", metavar="name", help=f"sections: {', '.join(known)}; default: all but {', '.join(BY_NAME)}"
    )
    parser.add_argument("--quick", action="store_true", help="tiny sizes: shows that it runs, says nothing about speed")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in known]
    if unknown:
        parser.error(f"unknown section {unknown[0]}; choose from {', '.join(known)}")
    measures, failed = list[Measure](), list[str]()
    with world(QUICK if options.quick else Sizes()) as here:
        for name in options.names or SECTIONS:
            print(f"{name} …", file=sys.stderr, flush=True)
            try:
                for measure in known[name](here):
                    measures.append(measure)
            except Exception:  # noqa: BLE001 - what the others measured in this hour is not lost with one of them
                traceback.print_exc()
                failed.append(name)
    print(table(measures))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
