"""Checkout and setup of a verification, which may take minutes: the queue's step does not wait for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from corral.config.sections.sharing import Landing
from corral.landing import requests
from tests.integration.landing_world import World
from tests.support.coordinated import eventually


def test_a_setup_runs_beside_the_step_so_that_a_request_can_be_cancelled_meanwhile(repo: Path) -> None:
    world = World(repo, landing=Landing(verify=["true"]))
    go, began = threading.Event(), threading.Event()

    def slow_setup(_path: Path) -> Mapping[str, str]:
        began.set()
        assert go.wait(60)
        return {}

    world.prepare = slow_setup
    world.spawn = lambda function: threading.Thread(target=function).start()
    world.branch("slow", {"slow.txt": "x\n"})
    world.branch("other", {"other.txt": "x\n"})
    slow, other = world.submit("slow"), world.submit("other")
    before = time.monotonic()
    due = world.queue.step(world.now())
    assert began.wait(30) and world.merge(slow)["state"] == "verifying"
    assert due is not None and (due - world.now()).total_seconds() <= 1, "it looks again soon"
    world.queue.step(world.now())
    requests.cancel(world.db, world.repo(), slow, on_settled=lambda *_: None, now=world.now())
    world.queue.step(world.now())
    assert time.monotonic() - before < 30, "no step waited for the setup"
    assert (world.merge(slow)["state"], world.merge(other)["state"]) == ("cancelled", "queued"), (
        "its worktree is in use"
    )
    go.set()
    eventually(lambda: world.queue.step(world.now()) is None or world.merge(other)["state"] == "landed")
    world.run()
    assert world.settled == [(other, "landed")]
    world.close()
