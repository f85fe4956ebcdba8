"""Commands as whole processes, piped and on a terminal, beside the interpreter that runs them."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator

from tests.support.terminals import on_terminal

from bench.measure import Measure, in_turns, p50, spread
from bench.operations import QUIET
from bench.world import World, python

TIMES, HELP_TIMES = 5.0, 7.0
"""What a command may take, beside ``python -c pass``."""
COMMANDS: dict[str, list[str]] = {
    "--version": ["--version"],
    "--help": ["--help"],
    "status": ["status"],
    "statusline": ["statusline"],
    "task submit": ["task", "submit", "--title", "A task", "--command", "true"],
    "task list": ["task", "list"],
    "task detail": ["task", "detail", "1"],
    "lock acquire": ["lock", "acquire", "src/a.py"],
    "lock list": ["lock", "list"],
    "metrics": ["metrics"],
    "swarm status": ["swarm", "status"],
}
PROVES = {"status": "NFR-PERF-003", "--help": "NFR-PERF-007"}


def measure(world: World) -> Iterator[Measure]:
    """Measure each, alternating with a bare interpreter; piped also once without the bytecode of anything."""
    house = world.coordinated(20, QUIET)
    house.run("daemon", "start")
    house.run("task", "submit", "--title", "A task", "--command", "true")

    def piped(*args: str, **env: str) -> None:
        subprocess.run(
            python(*args),
            cwd=house.root,
            env={**os.environ, **env},
            check=True,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )

    def terminal(*args: str) -> None:
        assert on_terminal([*args], cwd=house.root).code == 0, args

    def cold(*args: str) -> None:
        with tempfile.TemporaryDirectory(dir=world.folder) as empty:
            piped(*args, PYTHONPYCACHEPREFIX=empty)

    for name, words in COMMANDS.items():
        command = "-m", "corral", *words
        bare, taken, bare_there, there = in_turns(
            world.sizes.turns,
            lambda: piped("-c", "pass"),
            lambda command=command: piped(*command),  # type: ignore[misc]
            lambda: terminal("-c", "pass"),
            lambda command=command: terminal(*command),  # type: ignore[misc]
        )
        bare_cold, taken_cold = in_turns(
            2,
            lambda: cold("-c", "pass"),
            lambda command=command: cold(*command),  # type: ignore[misc]
        )
        budget = HELP_TIMES if name == "--help" else TIMES
        yield Measure(
            f"corral {name}, piped", p50(taken), "ms", p50(bare), ratio=budget,
            note=f"{spread(taken)}; without bytecode {min(taken_cold):.0f}, its floor {min(bare_cold):.0f}",
            proves=PROVES.get(name, ""),
        )  # fmt: skip
        yield Measure(
            f"corral {name}, on a terminal", p50(there), "ms", p50(bare_there), ratio=budget, note=spread(there)
        )
