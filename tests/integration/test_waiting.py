"""``corral wait``: who is waited for by number and title, each thing told once, and no waiting for a person."""

from __future__ import annotations

import time
from collections.abc import Callable

from tests.conftest import commit, git
from tests.support.coordinated import Coordinated


def test_it_returns_once_all_that_is_left_waits_for_a_person(coordinate: Callable[..., Coordinated]) -> None:
    house = coordinate(config="tasks: {max_retries: 0}\n")
    for branch in ("left", "right"):  # what is none of its business
        git(house.root, "switch", "-q", "-c", branch, "main")
        commit(house.root, {"README.md": f"{branch}\n"})
        git(house.root, "switch", "-q", "main")
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
    assert text.count("waits for approval") == text.count("corral merge approve") == 1
    assert "right" not in text, "it was not asked to wait for that"
    answer = house.json("wait", after, check=False)
    assert (answer["waits_for_person"], answer["done"]) == (True, False)
    assert [need["name"] for need in answer["needs_you"]] == ["approval"]

    merge = house.json("merge", "list", "--status", "held")[0]["merge_id"]
    house.run("merge", "approve", merge, "--yes")
    done = house.run("wait", "--all", check=False)
    text = done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "Not everything succeeded." and text.count("README.md") == 1
    assert house.run("wait", after).stdout == "    3  nothing to land  test: do as told\n"
