"""A verification sees the commit and nothing that its predecessors left."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import commit, git, verified_in
from tests.support.coordinated import Coordinated, eventually

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
        bad = house.carry_out(
            "break", "sed -i 's/a + b/b - a/; s/b + a/b - a/' calc.py", "--wait-for", good, check=False
        )
        assert house.json("task", "detail", bad)["merge"]["state"] == "failed", f"round {round_number}"
        assert "b - a" not in git(house.root, "show", "main:calc.py")
        if round_number < 2:
            eventually(lambda: _is_committed(house.root, files["calc.py"]))


def _is_committed(root: Path, source: str) -> bool:
    """Commit like a person, who tries again: after a landing Corral looks at the checkout once more, and holds its index."""
    try:
        commit(root, {"calc.py": source}, "again")
    except AssertionError as refused:
        assert "index.lock" in str(refused)
        return False
    return True


def test_ignored_products_of_an_earlier_run_are_gone(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    files = {"a.txt": "a\n", ".gitignore": "build/\n*.tmp\n"}
    verify = "test ! -e build && test ! -e x.tmp && mkdir build && touch build/y x.tmp"
    house = coordinate(make_repo("products", files), verify=(verify,))
    for name in ("one", "two"):
        house.carry_out(name, f"echo {name} > {name}.txt")


def run(house: Coordinated, *names: str) -> None:
    """Land one task after the other, each with a verification of its own."""
    for name in names:
        task = house.carry_out(name, f"echo {name} > {name}.txt")
        assert house.json("task", "detail", task)["merge"]["state"] == "landed"


def test_what_only_has_the_name_of_a_dependency_folder_is_gone(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    names = ("target", "node_modules", ".venv", "vendor/target")
    files = {"a.txt": "a\n", "Cargo.toml": "", "package.json": "{}", ".gitignore": "\n".join(names)}
    verify = " && ".join(f"test ! -e {name} && mkdir -p {name} && touch {name}/left" for name in names)
    run(coordinate(make_repo("names", files), verify=(verify,)), "one", "two")


def test_what_was_brought_is_put_right_and_copied_files_are_those_of_now(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    files = {"package.json": "{}", ".gitignore": "node_modules/\n.env\n", ".worktreeinclude": ".env\n"}
    root = make_repo("brought", files)
    (root / "node_modules" / "dep").mkdir(parents=True)
    (root / ".env").write_text("A=1\n")
    seen = root.parent / "seen"
    house = coordinate(root, verify=(f"test -d node_modules/dep && echo x >> node_modules/runs && cat .env >> {seen}",))
    run(house, "one")
    (root / ".env").write_text("A=2\n")
    run(house, "two")
    assert seen.read_text() == "A=1\nA=2\n"
    assert (verified_in(root) / "node_modules/runs").read_text() == "x\n"
    assert not (root / "node_modules/runs").exists()


@pytest.mark.req("I1")
def test_what_the_setup_built_of_another_commit_is_gone(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    files = {"src/main.sh": ". ./dist/helper.sh\n", "src/helper.sh": "true\n", ".gitignore": "dist/\n"}
    setup = "worktrees: {setup: ['mkdir -p dist && cp src/* dist/']}\ntasks: {max_retries: 0}"
    house = coordinate(make_repo("built", files), verify=("sh dist/main.sh",), config=setup)
    run(house, "one")
    bad = house.carry_out("bad", "git rm -q src/helper.sh", check=False)
    assert house.json("task", "detail", bad)["merge"]["state"] == "failed", "a fresh clone has no dist/helper.sh"


def test_what_the_setup_made_stays_and_what_the_verification_made_goes(
    make_repo: Callable[..., Path], coordinate: Callable[..., Coordinated]
) -> None:
    root = make_repo("setup", {"composer.json": "{}", ".gitignore": "vendor/\nout/\n"})
    runs = root.parent / "runs"
    setup = f'test -e vendor/made || {{ mkdir -p vendor && touch vendor/made && echo "$PWD" >> {runs}; }}'
    verify = "test -e vendor/made && test ! -e out && mkdir out"
    run(coordinate(root, verify=(verify,), config=f"worktrees: {{setup: ['{setup}']}}"), "one", "two", "three")
    assert sum(line == str(verified_in(root)) for line in runs.read_text().split()) == 1
