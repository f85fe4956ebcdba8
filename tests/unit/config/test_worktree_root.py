"""Where worktrees stand: beside the repository, in a folder that is provably this project's, else at home."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from corral.config.paths import Project
from corral.config.worktree_root import MARKER, Place, WorktreeRoot, beside, choose, prove
from corral.core.errors import PathReplaced, Unsupported
from tests.conftest import NEEDS_RIGHTS_DROPPED, WITHOUT_ROOTS_RIGHTS

ID = "0a1b2c3d-0000-0000-0000-000000000000"
OTHER = "ffffffff-0000-0000-0000-000000000000"


@pytest.fixture
def root(tmp_path: Path) -> WorktreeRoot:
    (tmp_path / "src" / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "home").mkdir()
    return WorktreeRoot(_project(tmp_path / "src" / "shop"), ID, lambda: None, tmp_path / "home")


def _project(top: Path, *, bare: bool = False) -> Project:
    return Project(top, top if bare else top / ".git", top / ".corral", bare)


def _established(root: WorktreeRoot, project_id: str = ID) -> Path:
    own = WorktreeRoot(root.project, project_id, root.configured, root.home)
    path = own.choose().path
    own.establish(path / "task")
    return path


@pytest.mark.parametrize(
    ("top", "bare", "folder"),
    [
        ("src/shop", False, "src/shop.worktrees"),
        ("src/shop.git", True, "src/shop.worktrees"),
        ("src/shop", True, "src/shop.worktrees"),
        ("src/shop/.bare", True, "src/shop.worktrees"),
        ("src/shop/.git", True, "src/shop.worktrees"),
        ("src/.dotfiles", False, "src/dotfiles.worktrees"),
    ],
)
def test_the_folder_stands_beside_the_repository_and_is_not_hidden(
    tmp_path: Path, top: str, bare: bool, folder: str
) -> None:
    assert beside(_project(tmp_path / top, bare=bare)) == tmp_path / folder


def test_it_is_private_and_marked_and_proven(root: WorktreeRoot) -> None:
    path = _established(root)
    assert path == root.project.root.with_name("shop.worktrees") and path.stat().st_mode & 0o777 == 0o700
    assert json.loads((path / MARKER).read_text())["project_id"] == ID
    prove(path, ID)
    assert root.choose() == Place(path, False) and root.top_of(path / "task") == path


def _file(path: Path) -> None:
    path.write_text("a person's\n")


def _link(path: Path) -> None:
    (path.parent / "elsewhere").mkdir(mode=0o700)
    path.symlink_to(path.parent / "elsewhere")


def _somebodys(path: Path) -> None:
    (path / "notes").mkdir(parents=True)
    path.chmod(0o700)


def _open_to_all(path: Path) -> None:
    path.mkdir()
    path.chmod(0o777)


@pytest.mark.req("X5")
@pytest.mark.parametrize("take", [_file, _link, _somebodys, _open_to_all])
def test_a_taken_name_is_passed_over_and_left_alone(root: WorktreeRoot, take: Callable[[Path], None]) -> None:
    take(beside(root.project))
    before = beside(root.project).lstat()
    place = root.choose()
    assert place.path == root.home / "corral-worktrees" / "shop-0a1b2c3d"
    (reason,) = place.passed_over
    assert reason.startswith(f"{beside(root.project)}: the name is taken")
    root.establish(place.path / "task")
    prove(place.path, ID)
    assert beside(root.project).lstat() == before


def test_another_projects_folder_is_taken_and_an_empty_one_is_not(root: WorktreeRoot) -> None:
    path = _established(root, OTHER)
    (path / "task").mkdir()
    assert root.choose().path.is_relative_to(root.home)
    (path / "task").rmdir()
    assert _established(root) == path
    with pytest.raises(PathReplaced):
        prove(path, OTHER)


def test_a_copy_of_the_folder_is_not_the_folder(root: WorktreeRoot) -> None:
    path = _established(root)
    (path / "task").mkdir()
    path.rename(path.with_name("aside"))
    shutil.copytree(path.with_name("aside"), path)
    path.chmod(0o700)
    with pytest.raises(PathReplaced, match="is not the folder of worktrees"):
        root.top_of(path / "task")
    assert root.choose().path.is_relative_to(root.home)


def test_a_folder_that_was_not_marked_to_the_end_is_marked_again(root: WorktreeRoot) -> None:
    path = beside(root.project)
    path.mkdir()
    (path / f"{MARKER}.new").write_text("{")
    assert _established(root) == path
    prove(path, ID)


def test_several_that_are_the_first_at_once_all_get_it(root: WorktreeRoot) -> None:
    folder = root.choose().path
    with ThreadPoolExecutor(8) as workers:
        for _ in range(40):
            places = [*workers.map(lambda name: root.establish(folder / name), "abcdefgh")]
            assert places == [folder] * 8 and [entry.name for entry in folder.iterdir()] == [MARKER]
            root.remove()


def test_what_a_killed_marking_left_is_removed_with_the_folder(root: WorktreeRoot) -> None:
    folder = root.establish(root.choose().path / "a")
    (folder / f"{MARKER}.left").write_text("{")
    assert root.remove() == [] and not folder.exists()


@NEEDS_RIGHTS_DROPPED
def test_a_parent_that_cannot_be_written_sends_it_home(root: WorktreeRoot) -> None:
    parent = root.project.root.parent
    parent.chmod(0o555)
    code = (
        "import sys; from pathlib import Path; from corral.config.paths import Project\n"
        "from corral.config.worktree_root import choose\n"
        "top, home = map(Path, sys.argv[1:])\n"
        "print(choose(Project(top, top / '.git', top, False), None, 'x' * 9, home))"
    )
    command = [*WITHOUT_ROOTS_RIGHTS, sys.executable, "-c", code, str(root.project.root), str(root.home)]
    source = Path(__file__).parents[3] / "daemon"
    shown = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(source)})
    parent.chmod(0o755)
    assert f"{parent} cannot be written" in shown.stdout and "corral-worktrees" in shown.stdout, shown.stderr


def test_nothing_is_made_among_gits_own_files(tmp_path: Path, root: WorktreeRoot) -> None:
    modules = tmp_path / "src" / "super" / ".git"
    for name in ("objects", "refs", "modules/part"):
        (modules / name).mkdir(parents=True)
    (modules / "HEAD").write_text("ref: refs/heads/main\n")
    place = choose(_project(modules / "modules" / "part", bare=True), None, ID, root.home)
    assert place.path == root.home / "corral-worktrees" / "part-0a1b2c3d" and str(modules) in place.passed_over[0]


@pytest.mark.parametrize("name", ["package.json", "node_modules", "conftest.py", "tsconfig.json", "Cargo.toml", ".git"])
def test_a_place_below_what_tools_search_for_is_avoided(root: WorktreeRoot, name: str) -> None:
    (root.project.root.parent / name).mkdir()
    place = root.choose()
    assert place.path.is_relative_to(root.home) and not place.finds and name in place.passed_over[0]
    (root.home / name).mkdir()
    place = root.choose()
    assert place.path == beside(root.project) and place.finds == (str(root.project.root.parent / name),)
    assert place.warning() is not None and name in str(place.warning())


def test_a_hidden_folder_above_is_avoided_too(tmp_path: Path, root: WorktreeRoot) -> None:
    place = choose(_project(tmp_path / ".config" / "shop"), None, ID, root.home)
    assert place.passed_over == (f"{tmp_path / '.config'} cannot be written",) or place.path.is_relative_to(root.home)


def test_the_users_own_settings_of_a_tool_are_no_find(root: WorktreeRoot) -> None:
    (root.home / ".cargo").mkdir()
    (root.home / ".cargo" / "config.toml").write_text("")
    (root.home / ".npmrc").write_text("")
    shop = root.home / "shop"
    assert choose(_project(shop), None, ID, root.home) == Place(root.home / "shop.worktrees", False)


def test_a_configured_folder_holds_whatever_a_person_keeps_there(root: WorktreeRoot, tmp_path: Path) -> None:
    (tmp_path / "disk" / "package.json").mkdir(parents=True)
    place = choose(root.project, str(tmp_path / "disk"), ID, root.home)
    assert place.is_configured and place.path == tmp_path / "disk" and place.finds


def test_where_no_folder_can_be_used_it_says_why(root: WorktreeRoot) -> None:
    _file(beside(root.project))
    _file(root.home / "corral-worktrees")
    with pytest.raises(Unsupported) as refused:
        root.choose()
    assert str(beside(root.project)) in refused.value.cause and "worktrees.root" in refused.value.remedy


def test_only_empty_folders_of_this_project_are_removed(root: WorktreeRoot) -> None:
    path = _established(root)
    (path / root.verification).mkdir()
    (path / "notes.txt").write_text("a person's\n")
    assert root.remove() == [path] and (path / "notes.txt").exists()
    (path / "notes.txt").unlink()
    assert root.remove() == [] and not path.exists()
    path = _established(root, OTHER)  # this repository's, under an id that was forgotten with its database
    assert root.remove() == [] and not path.exists()
    path.mkdir(mode=0o700)
    assert root.remove() == [] and path.exists(), "a person's, since nothing marks it"


def test_each_folder_that_something_stands_in_place_of_has_a_next_one(root: WorktreeRoot, tmp_path: Path) -> None:
    seen = []
    for _ in range(5):
        path = _established(root)
        seen.append(path.name)
        path.rename(tmp_path / f"moved-{len(seen)}")
        path.symlink_to(tmp_path / "src")
    stem = f"shop-{ID[:8]}"
    assert seen == ["shop.worktrees", stem, f"{stem}-2", f"{stem}-3", f"{stem}-4"]
    assert root.top_of(_established(root) / "task").name == f"{stem}-5"


def test_a_home_without_a_place_is_told_in_two_lines(root: WorktreeRoot) -> None:
    (root.project.root.parent / "shop.worktrees").write_text("taken")
    root.home.rmdir()
    with pytest.raises(Unsupported) as caught:
        root.choose()
    assert len(caught.value.cause.split("; ")) == 2
