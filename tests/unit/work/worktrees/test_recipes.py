"""Recipes: what is shipped is valid, what is wrong is named with its field, and the right ones are found."""

from __future__ import annotations

from pathlib import Path

import pytest

from corral.config.paths import bundle_dir
from corral.core.errors import ConfigInvalid
from corral.work.worktrees.recipes import Recipe, load_recipes, matching


def bundle(tmp_path: Path, **texts: str) -> Path:
    folder = tmp_path / "worktrees"
    folder.mkdir()
    for name, text in texts.items():
        (folder / f"{name}.yaml").write_text(text)
    return tmp_path


def faults(tmp_path: Path, text: str) -> list[tuple[str, str]]:
    with pytest.raises(ConfigInvalid) as raised:
        load_recipes(bundle(tmp_path, x=text))
    assert all(error["file"] == "x.yaml" for error in raised.value.details["errors"])
    return [(error["field"], error["reason"]) for error in raised.value.details["errors"]]


def test_the_shipped_recipes_load_in_order_of_name() -> None:
    names = [recipe.name for recipe in load_recipes(bundle_dir())]
    assert names == sorted(names)
    assert {"python", "node", "rust", "go", "ruby", "java"} <= set(names)


def test_a_valid_recipe_has_its_defaults(tmp_path: Path) -> None:
    (recipe,) = load_recipes(bundle(tmp_path, x="detect: [a.txt]\nfolders: [{path: deps, mode: clone}]\n"))
    assert recipe.name == "x"
    assert recipe.setup is None
    (folder,) = recipe.folders
    assert (folder.without_cow, folder.relocate, folder.private) == ("copy", False, ())


@pytest.mark.parametrize(
    ("text", "field", "reason"),
    [
        ("folders: []", "detect", "required"),
        ("detect: []", "detect", "at least 1"),
        ("detect: [a]\nfoldres: []", "foldres", "not permitted"),
        ("detect: [a]\nfolders: [{path: x, mode: copy}]", "folders.0.mode", "'clone', 'link' or 'skip'"),
        ("detect: [a]\nfolders: [{path: ../x, mode: link}]", "folders.0.path", "inside the checkout"),
        ("detect: [a]\nfolders: [{path: /etc, mode: link}]", "folders.0.path", "inside the checkout"),
        ("detect: [a]\nfolders: [{path: x/.git, mode: link}]", "folders.0.path", "inside the checkout"),
        ("detect: [a]\nfolders: [{path: '**/x', mode: link}]", "folders.0.path", "inside the checkout"),
        ("detect: [a]\nfolders: [{path: '.', mode: link}]", "folders.0.path", "inside the checkout"),
        ("detect: [a]\nfolders: [{path: x, mode: link, relocate: 'yes'}]", "folders.0.relocate", "boolean"),
        ("detect: [a]\nenv: {A: '{prot}'}", "env.A", "unknown placeholder 'prot'"),
        ("detect: [a]\nenv: {A: '{worktree.parent}'}", "env.A", "unknown placeholder"),
        ("detect: [a]\nenv: {A: '{'}", "env.A", "'{'"),
        ("detect: [a]\nenv: {A: '{folder}'}", "env.A", "unknown placeholder 'folder'"),
        ("- a", "", "mapping"),
        ("a: [", "", "expected"),
    ],
)
def test_a_fault_is_named_with_its_field_and_reason(tmp_path: Path, text: str, field: str, reason: str) -> None:
    ((place, message),) = faults(tmp_path, text)
    assert place == field
    assert reason in message


def test_every_fault_of_every_file_is_reported_at_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid) as raised:
        load_recipes(bundle(tmp_path, a="detect: [x]\nsetup: 5\nenv: {A: 1}", b="{}", c="detect: [x]"))
    named = {(error["file"], error["field"]) for error in raised.value.details["errors"]}
    assert named == {("a.yaml", "setup"), ("a.yaml", "env.A"), ("b.yaml", "detect")}
    assert "a.yaml" in raised.value.message


def test_a_recipe_applies_where_one_of_its_globs_is_found(tmp_path: Path) -> None:
    shipped = load_recipes(bundle_dir())

    def names(*files: str) -> list[str]:
        root = tmp_path / str(len(list(tmp_path.iterdir())))
        for file in files:
            (root / file).parent.mkdir(parents=True, exist_ok=True)
            (root / file).write_text("")
        root.mkdir(exist_ok=True)
        return [recipe.name for recipe in matching(shipped, root)]

    assert names() == []
    assert names("README.md") == []
    assert names("pyproject.toml") == ["python"]
    assert names("package.json", "Cargo.toml") == ["node", "rust"]
    assert names("backend/pyproject.toml", "frontend/package.json") == ["node", "python"]
    assert names("a/b/c/package.json") == []


def test_a_recipe_cannot_be_changed() -> None:
    recipe = Recipe(name="x", detect=("a",))
    with pytest.raises(ValueError, match="frozen"):
        recipe.name = "y"
