"""The table of mutations is true: each text is there once, its tests exist, and each group of requirements has a row."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.mutations.__main__ import copy_tree
from tests.mutations.table import Mutation, table

ROOT = Path(__file__).resolve().parents[2]
MUTATIONS = table()
LEAST = 60


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda one: one.name.replace(" ", "_"))
def test_a_mutation_changes_one_place_and_names_tests_that_prove_something(mutation: Mutation) -> None:
    text = (ROOT / mutation.file).read_text(encoding="utf-8")
    assert text.count(mutation.old) == 1, (
        f"{mutation.file} holds this {text.count(mutation.old)} times: {mutation.old!r}"
    )
    if mutation.file.endswith(".py"):
        compile(text.replace(mutation.old, mutation.new), mutation.file, "exec", ast.PyCF_ONLY_AST)
    assert mutation.new != mutation.old
    proven: set[str] = set()
    for test in mutation.tests:
        marked = _marks(test.partition("::")[0])
        assert test in marked, f"there is no {test}"
        proven |= marked[test]
    assert set(mutation.reqs) <= proven, "a row names what the marks of its tests say, and nothing else"


def test_each_group_of_requirements_has_a_mutation() -> None:
    marked = set()
    for file in (ROOT / "tests").rglob("test_*.py"):
        for marks in re.findall(r"mark\.req\(([^)]*)\)", file.read_text(encoding="utf-8")):
            marked |= {_group(requirement) for requirement in re.findall(r'"([^"]+)"', marks)}
    assert marked <= {_group(requirement) for mutation in MUTATIONS for requirement in mutation.reqs}


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTATIONS) >= LEAST
    assert len({mutation.name for mutation in MUTATIONS}) == len(MUTATIONS)


def test_what_is_asked_for_is_selected() -> None:
    assert 0 < len(table(["landing"])) < len(MUTATIONS)
    assert all("X1" in one.reqs for one in table(["X1"]))
    with pytest.raises(SystemExit, match="is no area"):
        table(["nothing at all"])


def test_a_copy_holds_what_git_would_track(tmp_path: Path) -> None:
    copy_tree(ROOT, tmp_path / "tree")
    assert (tmp_path / "tree" / "hooks" / "hook.py").read_bytes() == (ROOT / "hooks" / "hook.py").read_bytes()
    assert not (tmp_path / "tree" / ".git").exists()


@cache
def _marks(file: str) -> dict[str, set[str]]:
    """A file of tests, its classes, and its tests, as pytest names them: each with the requirements marked on it or in it."""
    found: dict[str, set[str]] = {}

    def look(node: ast.Module | ast.ClassDef | ast.FunctionDef, name: str, given: set[str]) -> set[str]:
        own = given | _marked_on(node)
        inner = [
            look(part, f"{name}::{part.name}", own)
            for part in node.body
            if isinstance(part, ast.ClassDef | ast.FunctionDef) and not isinstance(node, ast.FunctionDef)
        ]
        found[name] = own.union(*inner)
        return found[name]

    look(ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8")), file, set())
    return found


def _marked_on(node: ast.Module | ast.ClassDef | ast.FunctionDef) -> set[str]:
    calls = [one for one in getattr(node, "decorator_list", ()) if isinstance(one, ast.Call)]
    return {
        str(ast.literal_eval(argument))
        for call in calls
        if ast.unparse(call.func) == "pytest.mark.req"
        for argument in call.args
    }


def _group(requirement: str) -> str:
    """``X`` of ``X12``, ``RESERVE`` of ``RESERVE-2``, ``FR-QUEUE`` of ``FR-QUEUE-004``."""
    return re.sub(r"-?[0-9]+$", "", requirement)
