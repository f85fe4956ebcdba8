"""``corral wait``: who is waited for by number and title, each thing told once, and no waiting for a person."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

from tests.conftest import commit_on
from tests.support.coordinated import Coordinated


def test_it_returns_once_all_that_is_left_waits_for_a_person(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\n")
    for branch in ("left", "right"):  # what is none of its business
        commit_on(house.root, branch, {"README.md": f"{branch}\n"})
        house.run("merge", "submit", branch)
    landed = house.submit("feat: add a page", "echo x > page.txt")
    asking = house.submit("docs: tell how to test", "echo 'Run the tests.' > CLAUDE.md")
    after = house.submit("test: do as told", "cat CLAUDE.md", "--wait-for", asking)
    began = time.monotonic()
    done = house.run("wait", landed, after, check=False)
    assert done.returncode == 1 and time.monotonic() - began < 60
    text = done.stdout + done.stderr
    rows = [line.split(maxsplit=2) for line in done.stdout.splitlines() if line[:5].strip().isdecimal()]
    assert rows == [["1", "landed", "feat: add a page"], ["3", "waiting", "test: do as told"]]
    assert done.stdout.splitlines()[-1] == "What is left waits for you."
    assert done.stdout.count("waits for approval") == done.stdout.count("corral merge approve") == 1
    assert "right" not in text, "it was not asked to wait for that"
    answer = house.json("wait", after, check=False)
    assert (answer["waits_for_person"], answer["done"]) == (True, False)
    assert [need["name"] for need in answer["needs_you"]] == ["approval"]

    waits = house.submit("waits", "while ! test -e $CORRAL_PROJECT/go; do sleep 0.1; done")
    done = house.run("wait", waits, after, "--timeout", "3", check=False)
    assert [stream.count("waits for approval") for stream in (done.stderr, done.stdout)] == [1, 1], (
        "told, and the result is whole"
    )
    argv = [sys.executable, "-m", "corral", "wait", waits, after, "--timeout", "3"]
    together = subprocess.run(argv, cwd=house.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    assert together.count("waits for approval") == 1, "once on one screen"
    (house.root / "go").touch()
    house.run("wait", waits)

    merge = house.json("merge", "list", "--status", "held")[0]["merge_id"]
    house.run("merge", "approve", merge, "--yes")
    done = house.run("wait", "--all", check=False)
    assert done.stdout.splitlines()[-1] == "Not everything succeeded." and done.stdout.count("README.md") == 1
    assert house.run("wait", after).stdout == "    3  nothing to land  test: do as told\n"
