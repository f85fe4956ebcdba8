"""What a verification is given beside its commit: copies that lead nowhere, and a receipt that names each."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from corral.landing import pauses
from corral.store.rows.merges import MergeRow
from corral.work.worktrees.trial import mirror
from tests.conftest import commit, git
from tests.integration.landing_world import why
from tests.integration.supplied import Supplied, package
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable

MakeRepo = Callable[..., Path]
Make = Callable[..., Supplied]

NODE = {"package.json": "{}\n", ".gitignore": "node_modules/\n.env\nlocal/\n"}


@pytest.fixture
def supplied(make_repo: MakeRepo) -> Iterator[Make]:
    """Makes a queue over a repository of some files, with packages in its checkout's ignored ``node_modules``."""
    made: list[Supplied] = []

    def make(files: dict[str, str], *verify: str, modules: tuple[str, ...] = (), **worktrees: object) -> Supplied:
        root = make_repo(f"shop{len(made)}", files)
        for name in modules:
            package(root / "node_modules", name, "module.exports = 'mine'\n")
        made.append(Supplied(root, *verify, **worktrees))
        return made[-1]

    yield make
    for world in made:
        world.close()


def land(world: Supplied, name: str, files: dict[str, str] | None = None) -> MergeRow:
    merge_id = world.offer(name, files or {f"{name}.txt": "x\n"})
    world.run(deadline_s=150)
    return world.merge(merge_id)


def snapshot(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    return {
        str(path.relative_to(folder)): (path.stat().st_mtime_ns, path.stat().st_ino, path.read_bytes())
        for path in folder.rglob("*")
        if path.is_file()
    }


def test_dependencies_are_copies_and_a_runs_own_writes_reach_neither_the_checkout_nor_the_next_run(
    supplied: Make,
) -> None:
    tamper = (
        "test ! -L node_modules/left && test ! -L node_modules/left/index.js && grep -q mine node_modules/left/index.js"
        " && test ! -e node_modules/extra && test ! -e node_modules/left/extra && test -f node_modules/right/index.js"
        " && echo theirs > node_modules/left/index.js && mkdir node_modules/extra && touch node_modules/left/extra"
        " && chmod 700 node_modules/right && rm -r node_modules/right && ln -s left node_modules/right"
    )
    world = supplied(NODE, tamper, modules=("left", "right"))
    before = snapshot(world.root / "node_modules")
    for name in ("one", "two", "three"):
        assert land(world, name)["state"] == "landed"
    assert snapshot(world.root / "node_modules") == before


def test_an_untouched_copy_stays_and_what_the_checkout_changes_is_copied_again(
    supplied: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mirror, "RACY_NS", 0)  # on a fast disk all of this is within that time
    world = supplied(
        NODE, "cat node_modules/left/index.js && test -f node_modules/right/index.js", modules=("left", "right")
    )
    first = land(world, "one")
    inode = (world.verification_worktree.path / "node_modules/right/index.js").stat().st_ino
    (world.root / "node_modules/left/index.js").write_text("module.exports = 'newer'\n")
    second = land(world, "two")
    assert "'newer'" in world.log(second["merge_id"])
    assert (world.verification_worktree.path / "node_modules/right/index.js").stat().st_ino == inode, (
        "it was not copied again"
    )
    digests = [world.dependencies(merge)["node_modules"]["digest"] for merge in (first, second)]
    assert digests[0] != digests[1]


def test_the_receipt_says_that_dependencies_were_copied_and_which_lock_file_differs(supplied: Make) -> None:
    world = supplied(NODE, "true", modules=("left",))
    same = world.dependencies(land(world, "same"))["node_modules"]
    assert (same["from"], same["recipe"]) == ("copied from the checkout", "node")
    assert len(same["digest"]) == 64 and "differs" not in same
    other = world.dependencies(land(world, "other", {"package.json": '{"name": "other"}\n'}))["node_modules"]
    assert other["differs"] == ["package.json"]


def test_links_lead_into_the_worktree_or_are_left_out(supplied: Make, tmp_path: Path) -> None:
    files = {**NODE, "packages/price/index.js": "module.exports = 1\n", "packages/tax/index.js": "module.exports = 2\n"}
    show = "cat node_modules/price/index.js node_modules/tax/index.js && test ! -L node_modules/round"
    show += " && test ! -e node_modules/home && test -e node_modules/far"
    world = supplied(files, f"{show} && touch node_modules/price/made node_modules/tax/made", modules=("left",))
    modules, outside = world.root / "node_modules", tmp_path / "outside"
    (modules / "price").symlink_to("../packages/price")
    (modules / "tax").symlink_to(world.root / "packages/tax")
    outside.mkdir()
    (outside / "back").symlink_to(world.root / "node_modules" / "left")
    (world.root / "local").mkdir()
    (outside / "home").symlink_to(world.root / "local")
    (modules / "home").symlink_to(outside / "home")
    (world.root / "back").symlink_to(world.root / "local")
    git(world.root, "add", "back")
    commit(world.root, {"a.txt": "a\n"}, "a link into this very checkout")
    (modules / "round").symlink_to("../back")
    (modules / "far").symlink_to("../../outside")
    merge = land(
        world, "own", {"packages/price/index.js": "exports.own = 1\n", "packages/tax/index.js": "exports.own = 2\n"}
    )
    assert merge["state"] == "landed", merge
    assert world.log(merge["merge_id"]).count("exports.own") == 2
    assert not (world.root / "packages/price/made").exists() and not (world.root / "packages/tax/made").exists()
    assert [note for note in world.inputs(merge)["notes"] if "node_modules/round" in note]


def test_a_link_that_a_candidate_puts_in_the_way_is_not_followed(supplied: Make, tmp_path: Path) -> None:
    world = supplied({**NODE, "packages/a/package.json": "{}\n"}, "true")
    package(world.root / "packages/a/node_modules", "left", "")
    assert "packages/a/node_modules" in world.dependencies(land(world, "one"))
    elsewhere = tmp_path / "elsewhere"
    package(elsewhere / "a/node_modules", "precious", "")
    side = tmp_path / "side"
    git(world.root, "worktree", "add", "-q", "-b", "two", str(side), "main")
    git(side, "rm", "-rq", "packages")
    (side / "packages").symlink_to(elsewhere)
    git(side, "add", "packages")
    commit(side, {"two.txt": "x\n"}, "a link")
    git(world.root, "worktree", "remove", str(side))
    merge_id = world.submit("two")
    world.run(deadline_s=150)
    assert (elsewhere / "a/node_modules/precious/index.js").exists()
    assert "packages/a/node_modules" not in world.dependencies(world.merge(merge_id))


def test_included_files_are_those_that_the_targets_tip_names_and_have_their_digest(supplied: Make) -> None:
    world = supplied({**NODE, ".worktreeinclude": ".env\n"}, "cat .env && test ! -e local/key")
    (world.root / ".env").write_text("A=1\n")
    (world.root / "local").mkdir()
    (world.root / "local/key").write_text("secret\n")
    (world.root / ".worktreeinclude").write_text("local/\n")  # not committed
    merge = land(world, "one")
    assert merge["state"] == "landed", merge
    assert world.inputs(merge)["included"] == [{"path": ".env", "sha256": hashlib.sha256(b"A=1\n").hexdigest()}]
    git(world.root, "checkout", "-q", ".worktreeinclude")
    merge = land(world, "naming", {".worktreeinclude": ".env\nlocal/\n"})
    assert merge["state"] == "landed", "the candidate's own list is not in force yet"
    world.landing = world.landing.model_copy(update={"verify": ["grep -q secret local/key"]})
    assert land(world, "two")["state"] == "landed", "the tip names it now"


def test_a_green_receipt_that_took_from_the_checkout_counts_for_its_own_request_alone(supplied: Make) -> None:
    world = supplied({**NODE, ".worktreeinclude": ".env\n"}, "cat .env")
    (world.root / ".env").write_text("A=1\n")
    world.branch("one", {"one.txt": "x\n"})
    world.branch("two", {"one.txt": "x\n"})
    start = world.tip()
    first = world.land("one")
    (world.root / ".env").unlink()
    git(world.root, "reset", "-q", "--hard", start)
    second = world.land("two")
    (shown,) = world.db.read(lambda conn: pauses.explained(conn, [second]))
    assert first["state"] == "landed", first
    assert second["state"] != "landed" and " is red since " in str(shown["reason"]), "without what made it green"


def test_a_kill_before_the_end_leaves_nothing_that_is_trusted(supplied: Make) -> None:
    world = supplied(NODE, "grep -q mine node_modules/left/index.js", modules=("left",))
    assert land(world, "one")["state"] == "landed"
    copy = world.verification_worktree.path / "node_modules/left/index.js"
    # As a kill in the middle leaves it: the record is gone while files are being changed.
    record = next((world.root / ".git/worktrees").rglob("corral-dependencies.json"))
    record.unlink()
    copy.write_text("half\n")
    assert land(world, "two")["state"] == "landed"


# -- the recipe's own command

NPM = f"""#!{sys.executable}
import os, pathlib, sys
log = pathlib.Path(os.environ["HOME"], "npm-runs")
with log.open("a") as file: file.write(" ".join(sys.argv[1:]) + "\\n")
if "broken" in pathlib.Path("package-lock.json").read_text():
    sys.exit("npm error package.json is not valid")
if pathlib.Path(os.environ["HOME"], "offline").exists():
    sys.exit("npm error code EAI_AGAIN\\nnpm error request to https://registry.npmjs.org/left failed")
for name in pathlib.Path("package-lock.json").read_text().split():
    folder = pathlib.Path("node_modules", name)
    folder.mkdir(parents=True)
    (folder / "index.js").write_text("module.exports = 'installed'\\n")
if pathlib.Path("native").exists():
    pathlib.Path("local").mkdir(exist_ok=True)
    pathlib.Path("local/addon").write_text(pathlib.Path("native").read_text())
"""

LOCKED = {**NODE, "package-lock.json": "left\n"}


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A package manager that needs no registry; returns how it was called."""
    folder = tmp_path / "programs"
    executable(folder / "npm", NPM)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    runs = Path(os.environ["HOME"], "npm-runs")
    return lambda: runs.read_text().splitlines() if runs.exists() else []


def test_where_it_may_run_the_recipes_command_installs_once_per_lock_file(
    supplied: Make, npm: Callable[[], list[str]]
) -> None:
    show = "cat node_modules/*/index.js; echo mine > node_modules/left/index.js; ! test -e node_modules/undeclared"
    world = supplied(LOCKED, show, modules=("left", "undeclared"), setup=["recipe"])
    for number, (name, files, source) in enumerate(
        [
            ("one", {}, "installed"),
            ("two", {}, "cache"),
            ("three", {"package-lock.json": "left right\n"}, "installed"),
            ("four", {"package-lock.json": "left\n"}, "cache"),
        ]
    ):
        merge = land(world, name, {**files, f"{name}.txt": "x\n"})
        assert merge["state"] == "landed", merge
        assert world.dependencies(merge)["node_modules"]["from"] == source, name
        shown = [line for line in world.log(merge["merge_id"]).splitlines() if not line.startswith(("#", "$"))]
        assert "mine" not in "".join(shown), f"run {number} saw what another wrote"
    assert npm() == ["ci", "ci"]


def test_a_cache_that_somebody_wrote_into_is_made_again(supplied: Make, npm: Callable[[], list[str]]) -> None:
    world = supplied(LOCKED, "grep -q installed node_modules/left/index.js", setup=["recipe"])
    assert land(world, "one")["state"] == "landed"
    (file,) = (world.project.home / "cache").rglob("left/index.js")
    file.write_text("module.exports = 'tampered'\n")
    merge = land(world, "two")
    assert merge["state"] == "landed"
    assert world.dependencies(merge)["node_modules"]["from"] == "installed"
    assert npm() == ["ci", "ci"]


def test_without_a_network_the_checkouts_dependencies_are_copied_and_the_receipt_says_why(
    supplied: Make, npm: Callable[[], list[str]]
) -> None:
    world = supplied(LOCKED, "grep -q mine node_modules/left/index.js", modules=("left",), setup=["recipe"])
    Path(os.environ["HOME"], "offline").touch()
    merge = land(world, "one")
    assert merge["state"] == "landed", merge
    taken = world.dependencies(merge)["node_modules"]
    assert taken["from"] == "copied from the checkout" and "no network" in taken["because"]
    assert npm() == ["ci"]


def test_an_install_that_fails_by_itself_is_not_replaced_by_the_checkouts_dependencies(
    supplied: Make, npm: Callable[[], list[str]]
) -> None:
    world = supplied(LOCKED, "true", modules=("left",), setup=["recipe"])
    merge = land(world, "bad", {"package-lock.json": "broken\n"})
    assert merge["state"] == "failed" and "npm ci" in why(merge), merge


def test_what_an_install_makes_of_the_sources_is_made_for_each_commit(
    supplied: Make, npm: Callable[[], list[str]]
) -> None:
    world = supplied({**LOCKED, "native": "1\n"}, "cmp native local/addon", setup=["recipe"])
    for number, name in enumerate(("one", "two", "three")):
        merge = land(world, name, {"native": f"{number}\n", f"{name}.txt": "x\n"})
        assert merge["state"] == "landed", merge
        assert world.dependencies(merge)["node_modules"]["from"] == "installed"


PACKAGES = ".venv/lib/python3/site-packages"
ORIGIN = '{"url": "file:///somewhere/lib", "dir_info": {}}'
MANAGERS = {
    "yarn": ({"package.json": "{}\n", "yarn.lock": '"lib@file:./lib":\n'}, "node_modules", "yarn", ""),
    "prisma": ({"package.json": "{}\n", "package-lock.json": "{}\n"}, "node_modules", "npm", ""),
    "pip": (
        {"requirements.txt": "./lib\n"},
        PACKAGES,
        "python3",
        f"mkdir -p .venv/bin {PACKAGES}/lib-1.dist-info; echo '{ORIGIN}' > {PACKAGES}/lib-1.dist-info/direct_url.json\n"
        "ln -s /bin/true .venv/bin/python\n",
    ),
}
"""Files that say what is installed, where that goes, and a stand-in of the program that does it: by what that is."""


@pytest.mark.parametrize("manager", MANAGERS)
def test_what_an_install_copies_of_the_commits_files_is_of_that_commit(
    supplied: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str
) -> None:
    files, folder, program, more = MANAGERS[manager]
    executable(tmp_path / "programs" / program, f"#!/bin/sh\nmkdir -p {folder} && cp lib/* {folder}\n{more}")
    monkeypatch.setenv("PATH", f"{tmp_path / 'programs'}:{os.environ['PATH']}")
    file = "a.prisma" if manager == "prisma" else "a.txt"
    world = supplied({**files, f"lib/{file}": "0\n"}, f"cmp lib/{file} {folder}/{file}", setup=["recipe"])
    for name in ("one", "two"):
        merge = land(world, name, {f"lib/{file}": f"{name}\n"})
        assert merge["state"] == "landed", merge


def test_what_a_setup_command_made_stays_only_as_it_was(supplied: Make) -> None:
    setup = "test -e vendor/made || { mkdir -p vendor && touch vendor/made && echo made >> $HOME/setups; }"
    files = {"composer.json": "{}", ".gitignore": "vendor/\n"}
    world = supplied(files, "test ! -e vendor/left; test ! -e leave || touch vendor/left", setup=[setup])
    setups = Path(os.environ["HOME"], "setups")
    land(world, "one")
    assert land(world, "two", {"leave": "x\n"})["state"] == "landed"
    assert setups.read_text().count("made") == 1
    assert land(world, "three")["state"] == "landed", "what the run before left is gone"
    assert setups.read_text().count("made") == 2


def test_what_a_script_of_the_project_made_is_made_again_once_that_is_another(supplied: Make) -> None:
    def files(number: int) -> dict[str, str]:
        made = f"echo made >> $HOME/setups && mkdir -p vendor && echo {number} > vendor/made"
        return {"number": f"{number}\n", "dev/deps.sh": f"test -e vendor/made || {{ {made}; }}\n"}

    first = {"composer.json": "{}", ".gitignore": "vendor/\n", **files(1)}
    world = supplied(first, "cmp number vendor/made", setup=["cd . && sh ./dev/deps.sh"])
    for name, more in (("one", {}), ("two", {}), ("three", files(2))):
        merge = land(world, name, {f"{name}.txt": "x\n", **more})
        assert merge["state"] == "landed", merge
    assert Path(os.environ["HOME"], "setups").read_text().count("made") == 2


def test_a_virtual_environment_is_copied_and_imports_the_candidates_code(supplied: Make) -> None:
    import venv

    world = supplied(
        {"pyproject.toml": "[project]\nname = 'shop'\n", "src/shop.py": "X = 'old'\n", ".gitignore": ".venv/\n"},
        "python -c 'import shop, extra, sys; print(shop.X, shop.__file__, sys.prefix)'",
    )
    venv.create(world.root / ".venv", with_pip=False)
    (site,) = (world.root / ".venv").glob("lib/python*/site-packages")
    (site / "shop.pth").write_text(f"{world.root}/src\n")
    (site / "extra.py").write_text("")
    merge = land(world, "new", {"src/shop.py": "X = 'new'\n"})
    assert merge["state"] == "landed", merge
    assert f"new {world.verification_worktree.path}/src/shop.py {world.verification_worktree.path}/.venv" in world.log(
        merge["merge_id"]
    )
    again = land(world, "newer", {"src/shop.py": "X = 'newer'\n"})
    assert (
        f"newer {world.verification_worktree.path}/src/shop.py {world.verification_worktree.path}/.venv"
        in world.log(again["merge_id"])
    )


def test_what_the_daemons_environment_names_in_the_checkout_does_not_pass(
    supplied: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = supplied({".gitignore": ".venv/\ntmp/\n"}, 'echo "T=$TMPDIR"; ! command -v only-mine')
    programs = world.root / ".venv/bin"
    executable(programs / "only-mine", "#!/bin/sh\n")
    for environ in (os.environ, world.environ):
        monkeypatch.setitem(environ, "PATH", f"{programs}:{os.environ['PATH']}")
        monkeypatch.setitem(environ, "TMPDIR", str(world.root / "tmp"))
    merge = land(world, "one")
    assert merge["state"] == "landed", merge
    assert "T=\n" in world.log(merge["merge_id"])


def test_build_products_of_the_checkout_are_not_taken(supplied: Make) -> None:
    world = supplied({"Cargo.toml": "[workspace]\n", ".gitignore": "target/\n"}, "test ! -e target")
    commit(world.root, {"x": "x"}, "x")
    (world.root / "target").mkdir()
    assert land(world, "one")["state"] == "landed"


# -- where it is told


def test_copied_dependencies_are_told_wherever_the_receipt_is_shown(
    make_repo: MakeRepo, coordinate: Callable[..., Coordinated]
) -> None:
    root = make_repo("told", NODE)
    package(root / "node_modules", "left", "")
    house = coordinate(root, verify=("true",))
    note = "dependencies: copied from the checkout"
    doctor = house.run("doctor", "--verify", check=False).stdout
    assert f"dependencies: it runs with {note}" in doctor and "worktrees.setup: [recipe]" in doctor
    task = house.carry_out("one", 'echo one > one.txt; echo \'{"name": "one"}\' > package.json')
    merge = house.json("task", "detail", task)["merge"]
    expected = f"{note}, whose package.json differs"
    assert merge["receipt"]["note"] == expected
    (taken,) = merge["receipt"]["inputs"]["dependencies"]
    assert (taken["path"], taken["from"]) == ("node_modules", "copied from the checkout")
    for command in (("task", "detail", task), ("merge", "detail", merge["merge_id"])):
        assert f"({expected})" in house.run(*command).stdout
    eventually(lambda: any(expected in file.read_text() for file in (root / ".corral/state").rglob("*.md")))
