"""Tools search upward from where they run: no file of the person's checkout makes a candidate green or red.

TypeScript and ESLint are not on every machine, and a test may not fetch them: a script searches for their files as they do.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from corral.store.rows.merges import MergeRow
from tests.conftest import commit, git
from tests.integration.supplied import Supplied, package
from tests.support.programs import find, requires

Make = Callable[..., Supplied]

SEARCH = """
const fs = require('fs'), path = require('path')
let folder = __dirname, found = null
while (!found) {
  const file = path.join(folder, process.argv[2])
  if (fs.existsSync(file)) found = JSON.parse(fs.readFileSync(file, 'utf8'))
  if (path.dirname(folder) === folder) break
  folder = path.dirname(folder)
}
const rule = found ? found.rule : 'warn'
const source = fs.readFileSync(path.join(__dirname, 'lib.js'), 'utf8')
if (rule === 'refuse') process.exit(1)
if (rule !== 'off' && /\\bvar\\b/.test(source)) process.exit(2)
"""

CRATE = {"crate/Cargo.toml": '[package]\nname = "crate"\nversion = "0.1.0"\nedition = "2021"\n', "crate/src/lib.rs": ""}
KEEPS_THE_GOOD = (
    "def pytest_collection_modifyitems(items):\n    items[:] = [one for one in items if 'bad' not in one.name]\n"
)


@dataclass(frozen=True)
class Tool:
    """What a tool runs, what a file above it would do, and what a candidate without that file must give.

    Attributes:
        verify: The command.
        files: Of the repository.
        changes: Of the candidate.
        above: Files of the person's checkout that no candidate has.
        lands: Whether a fresh clone of the candidate is green.
        needs: Programs that must be there, each with arguments that try it.
    """

    verify: str
    above: dict[str, str]
    lands: bool
    files: dict[str, str] = field(default_factory=dict)
    changes: dict[str, str] = field(default_factory=lambda: {"change.txt": "x\n"})
    needs: tuple[str, ...] = ()

    @property
    def programs(self) -> list[str]:
        """The names of these programs; npm is a script of node."""
        names = [command.split()[0] for command in self.needs]
        return [*names, "node"] if "npm" in names else names


PYTEST = f"{sys.executable} -m pytest -q -p no:cacheprovider"
TESTS = {"test_shop.py": "def test_good():\n    pass\n"}
GO = {"go.mod": "module shop\n", "shop.go": "package shop\n"}

TOOLS = {
    "npm finds a script above": Tool(
        "npm test", {"package.json": json.dumps({"scripts": {"test": "exit 0"}})}, lands=False, needs=("npm --version",)
    ),
    "node finds another module system above": Tool(
        "node test.js",
        {"package.json": '{"type": "module"}'},
        lands=True,
        changes={"test.js": "require('node:assert')\n"},
        needs=("node --version",),
    ),
    "node finds a module above": Tool(
        "node test.js",
        {"node_modules/undeclared/index.js": "module.exports = 1\n"},
        lands=False,
        changes={"test.js": "require('undeclared')\n"},
        needs=("node --version",),
    ),
    "pytest finds a conftest above that leaves the red one out": Tool(
        PYTEST,
        {"pytest.ini": "[pytest]\n", "conftest.py": KEEPS_THE_GOOD},
        lands=False,
        files=TESTS,
        changes={"test_more.py": "def test_bad():\n    assert False\n"},
    ),
    "pytest finds a conftest above that cannot be read": Tool(
        PYTEST, {"pytest.ini": "[pytest]\n", "conftest.py": "raise RuntimeError\n"}, lands=True, files=TESTS
    ),
    **{
        f"{name} above {does}": Tool(
            f"node search.js {name}",
            {name: json.dumps({"rule": rule})},
            lands=lands,
            files={"search.js": SEARCH, "lib.js": "let x\n"},
            changes={"lib.js": source},
            needs=("node --version",),
        )
        for name in ("tsconfig.json", ".eslintrc.json")
        for does, rule, lands, source in (
            ("allows", "off", False, "var x\n"),
            ("refuses", "refuse", True, "let y\n"),
        )
    },
    "cargo finds a workspace above": Tool(
        "cd crate && cargo check --offline -q",
        {"Cargo.toml": "[workspace]\nmembers = []\n"},
        lands=True,
        files=CRATE,
        needs=("cargo --version", "rustc --version"),
    ),
    "cargo finds an alias above": Tool(
        "cd crate && cargo verify",
        {".cargo/config.toml": '[alias]\nverify = "version"\n'},
        lands=False,
        files=CRATE,
        needs=("cargo --version",),
    ),
    "go finds a workspace above": Tool(
        "go vet ./...", {"go.work": "go 1.21\n"}, lands=True, files=GO, needs=("go version",)
    ),
    "git finds a file above": Tool("git ls-files --error-unmatch mine.txt", {"mine.txt": "x\n"}, lands=False),
    "git finds rules above": Tool(
        'git check-ignore -q --no-index needed.txt && exit 1; test "$(git rev-parse --show-toplevel)" = "$PWD"',
        {".gitignore": "needed.txt\n"},
        lands=True,
    ),
}


@pytest.fixture
def supplied(make_repo: Callable[..., Path]) -> Iterator[Make]:
    made: list[Supplied] = []

    def make(files: dict[str, str], *verify: str, **worktrees: object) -> Supplied:
        made.append(Supplied(make_repo(f"shop{len(made)}", files), *verify, **worktrees))
        return made[-1]

    yield make
    for world in made:
        world.close()


@pytest.fixture(autouse=True)
def cargo_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where rustup's stand-in for it is on the PATH, which needs a home: the program that it would run."""
    path = find("cargo")
    for chain in Path(path).parents[2].glob(".rustup/toolchains/*/bin") if path else ():
        monkeypatch.setenv("PATH", f"{chain}:{os.environ['PATH']}")


def need(*commands: str) -> None:
    for command in commands:
        name, *arguments = command.split()
        if subprocess.run([name, *arguments], capture_output=True, check=False).returncode:
            pytest.skip(f"not installed: {name}")


def land(world: Supplied, changes: dict[str, str], without: list[str]) -> MergeRow:
    """Submit a branch that makes changes and removes files."""
    side = world.root.parent / "side"
    git(world.root, "worktree", "add", "-q", "-b", "change", str(side), "main")
    if without:
        git(side, "rm", "-q", *without)
    commit(side, changes, "change")
    git(world.root, "worktree", "remove", str(side))
    merge_id = world.submit("change")
    world.run(deadline_s=150)
    return world.merge(merge_id)


@pytest.mark.parametrize("tracked", [True, False], ids=["tracked", "ignored"])
@pytest.mark.parametrize("name", [pytest.param(name, marks=requires(*tool.programs)) for name, tool in TOOLS.items()])
def test_a_file_of_the_checkout_makes_no_candidate_green_or_red(supplied: Make, name: str, tracked: bool) -> None:
    tool = TOOLS[name]
    need(*tool.needs)
    if tracked:
        world = supplied({"a.txt": "a\n", **tool.files, **tool.above}, tool.verify)
    else:
        world = supplied({"a.txt": "a\n", **tool.files}, tool.verify)
        for path, text in tool.above.items():
            (world.root / path).parent.mkdir(parents=True, exist_ok=True)
            (world.root / path).write_text(text)
        with (world.root / ".git/info/exclude").open("a") as exclude:
            exclude.writelines(f"/{path}\n" for path in tool.above)
    merge = land(world, tool.changes, list(tool.above) if tracked else [])
    assert (merge["state"] == "landed") is tool.lands, (merge, world.log(merge["merge_id"]))


@requires("npm", "node")
def test_a_change_that_takes_the_package_file_away_does_not_land(supplied: Make) -> None:
    need("npm --version")
    files = {
        "package.json": json.dumps({"name": "shop", "scripts": {"test": "node test.js"}}),
        "lib.js": "module.exports = 1\n",
        "test.js": "require('node:assert').equal(require('./lib'), 1)\n",
    }
    world = supplied(files, "npm test")
    merge = land(world, {"lib.js": "module.exports = 2\n"}, ["package.json"])
    assert merge["state"] == "failed", (merge, world.log(merge["merge_id"]))


@requires("npm", "node")
def test_npm_installs_what_the_candidate_declares_and_no_module_of_the_checkout_is_found(supplied: Make) -> None:
    need("npm --version", "node --version")
    files = {
        "package.json": json.dumps({"name": "shop", "version": "1.0.0", "dependencies": {"left": "file:left"}}),
        "left/package.json": json.dumps({"name": "left", "version": "1.0.0", "main": "index.js"}),
        "left/index.js": "module.exports = 1\n",
        ".npmrc": "offline=true\naudit=false\nfund=false\nupdate-notifier=false\n",
        ".gitignore": "node_modules/\n",
        "test.js": "require('left')\n",
    }
    world = supplied(files, "node test.js", setup=["recipe"])
    subprocess.run(["npm", "install"], cwd=world.root, check=True, capture_output=True)
    commit(world.root, {"README": "x\n"}, "lock")  # with the lock file that npm wrote
    package(world.root / "node_modules", "undeclared", "module.exports = 1\n")
    good = land(world, {"left/index.js": "module.exports = 2\n"}, [])
    assert good["state"] == "landed", (good, world.log(good["merge_id"]))
    assert world.dependencies(good)["node_modules"]["from"] == "installed"
    git(world.root, "branch", "-q", "-m", "change", "first")
    bad = land(world, {"test.js": "require('left')\nrequire('undeclared')\n"}, [])
    assert bad["state"] == "failed", bad
    assert "Cannot find module 'undeclared'" in world.receipt_log(bad["merge_id"]).read_text()
    assert world.dependencies(bad)["node_modules"]["from"] == "cache"
