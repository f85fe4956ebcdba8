"""A worktree of a Node project runs its tests unaided, at the price of a few links, and nothing of it can be committed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import commit, git
from tests.integration.provisioning import add_worktree, make_usable, run_in, usable
from tests.support.files import executable, put
from tests.support.programs import requires

MakeRepo = Callable[..., Path]

PROJECT = {
    "package.json": json.dumps(
        {"name": "shop", "type": "commonjs", "scripts": {"test": "node --test"}, "workspaces": ["packages/*"]}
    ),
    "packages/price/package.json": json.dumps({"name": "price", "main": "index.js"}),
    "packages/price/index.js": "module.exports = 1\n",
    "packages/money/package.json": json.dumps({"name": "@shop/money", "main": "index.js"}),
    "packages/money/index.js": "module.exports = 10\n",
    "test/shop.test.js": (
        "const test = require('node:test'), assert = require('node:assert')\n"
        "test('dependencies', () => assert.equal(require('left') + require('@scope/right'), 5))\n"
        "test('workspace', () => assert.equal(require('price') + require('@shop/money'), Number(process.env.EXPECTED)))\n"
    ),
}


def package(modules: Path, name: str, text: str) -> Path:
    folder = modules / name
    put(folder / "package.json", json.dumps({"name": name, "main": "index.js"}))
    (folder / "index.js").write_text(text)
    return folder


def install(main: Path) -> Path:
    """What a package manager makes of the project."""
    modules = main / "node_modules"
    package(modules, "left", "module.exports = 2\n")
    package(modules, "@scope/right", "module.exports = require('left') + 1\n")
    (modules / "price").symlink_to("../packages/price")
    (modules / "@shop").mkdir()
    (modules / "@shop/money").symlink_to("../../packages/money")
    executable(package(modules, "tool", "") / "cli.js", "#!/usr/bin/env node\nconsole.log('tool', require('left'))\n")
    (modules / ".bin").mkdir()
    (modules / ".bin/tool").symlink_to("../tool/cli.js")
    (modules / ".package-lock.json").write_text("{}")
    for cache in (".cache", ".vite"):
        put(modules / cache / "x", "main's")
    return modules


@pytest.fixture
def main(make_repo: MakeRepo) -> Path:
    root = make_repo(files={**PROJECT, ".gitignore": "node_modules/\n"})
    install(root)
    return root


def snapshot(folder: Path) -> dict[str, tuple[int, int]]:
    return {
        str(path.relative_to(folder)): (path.lstat().st_mtime_ns, path.lstat().st_ino)
        for path in folder.rglob("*")
        if ".corral" not in path.parts
    }


@requires("node")
def test_the_tests_run_unaided_on_the_worktrees_own_packages(main: Path) -> None:
    before = snapshot(main / "node_modules")
    worktree, provisioned = usable(main)
    commit(
        worktree,
        {"packages/price/index.js": "module.exports = 5\n", "packages/money/index.js": "module.exports = 50\n"},
    )
    run_in(worktree, provisioned, "env", "EXPECTED=55", "node", "--test")
    assert "tool 2" in run_in(worktree, provisioned, "node_modules/.bin/tool")
    assert git(worktree, "status", "--porcelain", "--ignored") == "!! node_modules/"
    assert provisioned.exclude == []
    assert snapshot(main / "node_modules") == before


def test_what_tools_write_in_place_is_not_the_main_checkouts(main: Path) -> None:
    worktree, _ = usable(main)
    modules = worktree / "node_modules"
    assert not modules.is_symlink()
    assert not (modules / "@scope").is_symlink()
    assert not (modules / ".bin").is_symlink()
    assert not (modules / ".cache").exists()
    assert not (modules / ".vite").exists()
    (modules / ".package-lock.json").write_text("changed")
    (modules / ".bin/tool").unlink()
    # As package managers replace a package: the link goes, the main checkout's folder stays.
    (modules / "left").unlink()
    package(modules, "left", "module.exports = 3\n")
    assert (main / "node_modules/.package-lock.json").read_text() == "{}"
    assert (main / "node_modules/.bin/tool").exists()
    assert (main / "node_modules/left/index.js").read_text() == "module.exports = 2\n"


@pytest.mark.parametrize("rules", ["", "*.log\n"])
def test_modules_that_no_rule_ignores_are_excluded_and_cannot_be_added(make_repo: MakeRepo, rules: str) -> None:
    main = make_repo(files={**PROJECT, ".gitignore": rules})
    install(main)
    worktree = add_worktree(main)
    assert make_usable(main, worktree).exclude == ["node_modules"]
    assert make_usable(main, worktree).exclude == ["node_modules"]
    git(worktree, "add", "-A")
    assert git(worktree, "status", "--porcelain") == ""


def test_modules_that_are_tracked_are_left_alone(make_repo: MakeRepo) -> None:
    main = make_repo(files={**PROJECT, "node_modules/left/index.js": "module.exports = 2\n"})
    worktree, provisioned = usable(main)
    assert provisioned.exclude == []
    (worktree / "node_modules/left/index.js").write_text("module.exports = 3\n")
    assert git(worktree, "status", "--porcelain") == "M node_modules/left/index.js"
    assert (main / "node_modules/left/index.js").read_text() == "module.exports = 2\n"


def test_every_package_of_a_workspace_gets_its_modules(main: Path) -> None:
    """As pnpm lays them out: a store of its own, and links into it from every package."""
    stored = package(main / "node_modules/.pnpm/dep@1/node_modules", "dep", "module.exports = 1\n")
    own = main / "packages/price/node_modules"
    own.mkdir()
    (own / "dep").symlink_to(os.path.relpath(stored, own))
    (own / "money").symlink_to("../../money")
    nested = package(main / "node_modules/left/node_modules", "deep", "")
    worktree, _ = usable(main)
    linked = worktree / "packages/price/node_modules"
    assert not linked.is_symlink()
    assert (linked / "dep").resolve() == stored
    assert (linked / "money").resolve() == worktree / "packages/money"
    assert (worktree / "node_modules/left/node_modules/deep").resolve() == nested
    assert git(worktree, "status", "--porcelain") == ""


def test_modules_of_a_package_that_this_branch_lacks_make_no_folder(main: Path) -> None:
    (main / "gone/node_modules/x").mkdir(parents=True)
    worktree, _ = usable(main)
    assert not (worktree / "gone").exists()


def test_a_link_to_itself_is_no_obstacle(main: Path) -> None:
    (main / "node_modules/loop").symlink_to("loop")
    (main / "node_modules/broken").symlink_to("../nowhere")
    worktree, _ = usable(main)
    assert (worktree / "node_modules/left/index.js").exists()


def test_two_thousand_files_take_no_disk(main: Path) -> None:
    for number in range(200):
        folder = package(main / "node_modules", f"p{number}", "")
        for file in range(8):
            (folder / f"{file}.js").write_text("x" * 1000)
    worktree, provisioned = usable(main)
    assert provisioned.disk_bytes < 1000
    assert (worktree / "node_modules/p199/7.js").exists()
