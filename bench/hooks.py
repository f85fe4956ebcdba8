"""The cost of a hook: the script, the bridge, and both inside the real client."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.e2e.client import Conversation, client_environment, find_client
from tests.e2e.stage import Stage, script, text, tool
from tests.support.coordinated import Coordinated

from bench.measure import Measure, in_turns, p50, spread
from bench.world import SOURCE, World, python

NOTHING = "import sys\nsys.stdin.buffer.read()\n"
PLUGIN = ("--plugin-dir", str(SOURCE))


def _payload(house: Coordinated, name: str) -> dict[str, Any]:
    return {
        "session_id": "bench-session",
        "cwd": str(house.root),
        "hook_event_name": "PreToolUse",
        "tool_name": "Edit",
        "tool_use_id": f"use-{name}",
        "tool_input": {"file_path": str(house.root / f"{name}.txt")},
    }


class _Bridge:
    """A session's bridge, called as the client calls it."""

    def __init__(self, cwd: Path) -> None:
        self._process = subprocess.Popen(
            python("-m", "corral", "mcp"), cwd=cwd, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        self._ask({"method": "initialize", "params": {}})

    def _ask(self, message: dict[str, Any]) -> Any:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, **message}).encode() + b"\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def hook(self, payload: dict[str, Any]) -> None:
        self._ask({"method": "tools/call", "params": {"name": "hook", "arguments": payload}})

    def close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()
        self._process.wait(timeout=10)


def measure(world: World) -> Iterator[Measure]:
    """Measure ``hook.py`` next to a script that only reads its input; the bridge next to one without a daemon."""
    house = world.coordinated(20)
    house.run("daemon", "start")
    empty = world.folder / "nothing.py"
    empty.write_text(NOTHING)
    event = json.dumps(_payload(house, "by-script")).encode()

    def run(file: Path) -> None:
        subprocess.run(
            python("-I", "-S", str(file), "PreToolUse"), input=event, cwd=house.root, check=True, capture_output=True
        )

    turns = world.sizes.turns * 2
    taken, floor = in_turns(turns, lambda: run(SOURCE / "hooks" / "hook.py"), lambda: run(empty))
    yield Measure(
        "hook.py, an edit", p50(taken), "ms", p50(floor), ratio=1.5, note=f"{spread(taken)}; floor: an empty script"
    )
    outside = world.folder / "outside"
    outside.mkdir(exist_ok=True)
    bridge, idle = _Bridge(house.root), _Bridge(outside)
    payload = _payload(house, "by-bridge")
    bridge.hook(payload)
    taken, floor = in_turns(turns * 10, lambda: bridge.hook(payload), lambda: idle.hook(payload))
    bridge.close()
    idle.close()
    yield Measure(
        "bridge, an edit", p50(taken), "ms", p50(floor), limit=5, note=f"{spread(taken)}; floor: one without a daemon"
    )


def _without_mod(folder: Path) -> Path:
    """A copy of the plugin as clients before mods read it."""
    for name in (".claude-plugin", ".claude/agents", "hooks", "skills", "bin"):
        shutil.copytree(SOURCE / name, folder / name)
    shutil.copy(SOURCE / ".mcp.json", folder)
    hooks = folder / "hooks" / "hooks.json"
    hooks.write_text(json.dumps({"hooks": json.loads(hooks.read_text())["hooks"]}))
    return folder


def _gaps(stage: Stage, root: Path) -> list[float]:
    """Milliseconds from the answer with a tool call to the next request: the tool, its hooks, and the client itself."""
    requests = [r for r in stage.requests_in(root) if r.step is not None and r.body.get("stream")]
    return [
        (later.at - sooner.at) * 1000
        for sooner, later in itertools.pairwise(requests)
        if sooner.step and "tool" in sooner.step and len(later.results) == len(sooner.results) + 1
    ]


CALLS = 3
"""Tool calls of a turn: few, so that sessions that take turns meet the same load."""


def _write(name: str) -> Any:
    return tool("Write", file_path=f"$CWD/{name}", content="x\n")


def _bash(name: str) -> Any:
    return tool("Bash", command=f"echo x > {name}", description="Write a file")


def measure_client(world: World) -> Iterator[Measure]:
    """Measure tools of the real client against a scripted API, in sessions that take turns: with the mod and the hooks; with the
    hooks alone; with both but no daemon; and with nothing."""
    client = find_client()
    if client is None:
        return
    house, plain = world.coordinated(20), world.repository(20)
    house.run("daemon", "start")
    tools = world.folder / "bin"
    tools.mkdir(exist_ok=True)
    (tools / "corral").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m corral "$@"\n')
    (tools / "corral").chmod(0o755)
    hooks_alone = ("--plugin-dir", str(_without_mod(world.folder / "hooks-alone")))
    extra = {"PYTHONPATH": os.environ["PYTHONPATH"], "XDG_RUNTIME_DIR": os.environ["XDG_RUNTIME_DIR"]}
    kinds: dict[str, tuple[Path, tuple[str, ...]]] = {
        "coordinated": (house.root, PLUGIN),
        "hooks": (house.root, hooks_alone),
        "nobody": (plain, PLUGIN),
        "none": (plain, ()),
    }
    made = itertools.count()
    for what, step in (("Write", _write), ("Bash", _bash)):
        gaps: dict[str, list[float]] = {name: [] for name in kinds}
        with contextlib.ExitStack() as open_ones:
            sessions = {}
            for name, (root, flags) in kinds.items():
                stage = open_ones.enter_context(Stage())
                env = client_environment(stage, Path(os.environ["HOME"]), path=str(tools), extra=extra)
                log = world.folder / f"{what}-{name}.jsonl"
                sessions[name] = stage, open_ones.enter_context(Conversation(client, root, env, log, *flags))
            for _ in range(world.sizes.tool_calls + 1):
                for name, (stage, session) in sessions.items():
                    seen = len(_gaps(stage, kinds[name][0]))
                    steps = [step(f"{name}{next(made)}.txt") for _ in range(CALLS)]
                    session.turn(script(*steps, text("done")), timeout_s=180)
                    gaps[name].append(sum(_gaps(stage, kinds[name][0])[seen:]) / CALLS)
        added, by_hooks, unheard = (
            [gap - without for gap, without in zip(gaps[name][1:], gaps["none"][1:], strict=True)]
            for name in ("coordinated", "hooks", "nobody")
        )
        note = f"{spread(added)}; floor: the hooks that it replaces; without {p50(gaps['none']):.1f}, without a daemon"
        yield Measure(
            f"what mod and hooks add to a {what}",
            p50(added),
            "ms",
            p50(by_hooks),
            ratio=1.3,
            note=f"{note} {p50(unheard):.1f}",
        )
