"""A verification sees the commit and nothing that its predecessors left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.conftest import commit, git
from tests.coordinated import Coordinated

TEST = """import unittest

from calc import f


class Calc(unittest.TestCase):
    def test_f(self):
        self.assertEqual(f(5, 3), 8)
"""


def test_bytecode_of_an_earlier_candidate_is_never_run(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    # Same size, same second: CPython would take the old bytecode for the new source's.
    files = {"calc.py": "def f(a, b):\n    return a + b\n", "test_calc.py": TEST, ".gitignore": "__pycache__/\n"}
    house = coordinate(make_repo("calc", files), verify=("python3 -m unittest -q",), config="tasks: {max_retries: 0}")
    for round_number in range(3):
        good = house.submit("swap", "sed -i 's/a + b/b + a/; s/b - a/b + a/' calc.py")
        bad = house.submit("break", "sed -i 's/a + b/b - a/; s/b + a/b - a/' calc.py", "--wait-for", good)
        house.run("wait", bad, "--timeout", "60", check=False)
        assert house.json("task", "detail", bad)["merge"]["state"] == "failed", f"round {round_number}"
        assert "b - a" not in git(house.root, "show", "main:calc.py")
        commit(house.root, {"calc.py": files["calc.py"]}, "again") if round_number < 2 else None


def test_ignored_products_of_an_earlier_run_are_gone(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    files = {"a.txt": "a\n", ".gitignore": "build/\n*.tmp\n"}
    verify = "test ! -e build && test ! -e x.tmp && mkdir build && touch build/y x.tmp"
    house = coordinate(make_repo("products", files), verify=(verify,))
    for name in ("one", "two"):
        task = house.submit(name, f"echo {name} > {name}.txt")
        house.run("wait", task, "--timeout", "60")
