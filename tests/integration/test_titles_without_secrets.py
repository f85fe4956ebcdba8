"""A key in a title is shown by no face, and is in no file, event or commit that Corral makes of the title."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from tests.conftest import commit_on, git
from tests.support.browsing import visitor
from tests.support.coordinated import Coordinated, eventually
from tests.support.screens import Player, play

KEY = "sk-ant-api03-0123456789abcdefghijklmnopqrstuvwxyz-AA"


@pytest.mark.req("NFR-SEC-001", "NFR-SEC-002")
def test_a_key_in_a_title_is_in_no_face_and_nowhere_in_what_is_stored(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\nlanding: {approve: always}\n", verify=("true",))
    options = ("--idempotency-key", "once")
    failed = house.submit(f"Deploy with {KEY}", "exit 3", *options)
    assert house.submit(f"Deploy with {KEY}", "exit 3", *options) == failed, "the same submission stays the same"
    held = house.submit(f"Rotate {KEY}", "echo x > rotated")
    runs = house.submit(f"Use {KEY}", "while sleep 1; do echo busy; done")
    commit_on(house.root, "by-hand", {"by-hand": "x\n"}, "work of a person")
    branch = house.json("merge", "submit", "by-hand", "--title", f"By hand, {KEY}")["merge_id"]

    def is_now(task: str, outcome: str) -> bool:
        return outcome in _outcome(house, task).replace("dead", "failed")

    for task, outcome in ((failed, "failed"), (held, "held"), (runs, "running")):
        eventually(partial(is_now, task, outcome))
    eventually(lambda: house.ask("GET", f"/merges/{branch}")["state"] == "held")

    faces = {"notices": "".join(f"{alert}" for alert in house.ask("GET", "/alerts"))}
    for words in (
        ("status",), ("status", "--json"), ("task", "list"), ("task", "list", "--json"), ("merge", "list"),
        ("merge", "list", "--json"),
        ("task", "detail", failed), ("task", "detail", held, "--json"), ("task", "logs", failed), ("merge", "detail", held),
        ("merge", "detail", branch), ("merge", "diff", held), ("audit", "--limit", "500", "--json"),
        ("session", "list", "--json"),
        ("daemon", "logs", "--lines", "500"), ("swarm", "status"),
    ):  # fmt: skip
        faces[" ".join(words)] = house.run(*words, check=False).stdout
    merge = house.ask("GET", f"/merges/{held}")["merge_id"]
    person = visitor(house)
    for path in (
        "/", "/tasks", f"/tasks/{failed}", f"/tasks/{runs}", f"/tasks/{runs}/cancel", f"/tasks/{held}/diff", "/queue",
        f"/merges/{merge}", f"/merges/{merge}/approve", f"/merges/{branch}", "/sessions", "/timeline",
    ):  # fmt: skip
        answer = person.get(path)
        assert answer.status == 200, path
        faces[path] = answer.text

    async def look(player: Player) -> None:
        screens = [await player.sees("Needs you", "Deploy with", "[redacted]")]
        for panel in "234567":
            await player.press(panel)
            screens.append(await player.sees("Needs you"))
        await player.press("1", "enter")
        screens.append(await player.sees("what to do"))
        faces["interactive"] = "\n".join(line for screen in screens for line in screen)

    play(house, look)
    assert [face for face, text in faces.items() if KEY in text or "0123456789abcdef" in text] == []
    shown = ("status", "task list", "merge list", "/", "/tasks", "/queue", "/timeline", "interactive")
    assert [face for face in shown if "[redac" not in faces[face]] == [], "they show the titles"

    house.run("merge", "approve", held, "--yes")
    eventually(lambda: house.ask("GET", f"/merges/{held}")["state"] == "landed")
    assert KEY not in git(house.root, "log", "--all", "--format=%B")
    house.run("daemon", "stop")
    files = [file for file in house.root.rglob("*") if file.is_file()]
    assert [file for file in files if KEY.encode() in file.read_bytes()] == []


def _outcome(house: Coordinated, task: str) -> str:
    return str(house.ask("GET", f"/tasks/{task}/detail")["outcome"])
