"""Which recipes apply to a tree is the same by its files' names as where it is checked out."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.paths import bundle_dir
from corral.work.worktrees.recipes import DEEPEST, load_recipes, matching, of_files

RECIPES = load_recipes(bundle_dir())


@pytest.mark.parametrize(
    "files", [["pyproject.toml"], ["a/package.json", "x.md"], ["a/b/package.json"], ["go.mod", "a/Cargo.toml"], ["x"]]
)
def test_the_same_recipes_apply_by_name_and_by_file(tmp_path: Path, files: list[str]) -> None:
    for file in files:
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).touch()
    assert of_files(RECIPES, None, files) == matching(RECIPES, tmp_path)
    assert of_files(RECIPES, [], files) == []


def test_no_recipe_looks_deeper_than_is_listed() -> None:
    assert max(glob.count("/") + 1 for recipe in RECIPES for glob in recipe.detect) <= DEEPEST
