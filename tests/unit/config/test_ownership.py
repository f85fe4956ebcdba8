"""Whose a repository is: git's rule, and the hooks' own copy of it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from corral.config import ownership
from corral.config.load import load as load_settings
from corral.config.paths import find_project
from corral.config.teams import read_team, teams_file
from corral.core.errors import ConfigInvalid, DubiousOwnership, NotAProject
from tests.conftest import git

STRANGER = 65534
NEEDS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files to another user")
TEAM = "agents: [{name: Ada, role: builder, capabilities: [], description: Builds.}]\n"
HOOKS = Path(__file__).parents[3] / "hooks"


def give_away(path: Path) -> None:
    """Make a tree another user's."""
    for file in (path, *path.rglob("*")):
        os.lchown(file, STRANGER, STRANGER)


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"hooks_{name}", HOOKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def initialised(repo: Path) -> Path:
    """A repository with everything that lies in ``.corral``."""
    home = repo / ".corral"
    (home / "run").mkdir(parents=True)
    for name in ("config.yaml", "local.yaml", "teams.yaml", "metadata.json", "corral.db", "corral.db-wal"):
        (home / name).touch()
    return repo


def refused_by_both(start: Path) -> bool:
    """Whether the command refuses a place; the hook must agree."""
    _, home, foreign = load("hook").locate(os.fspath(start))
    assert bool(home) != bool(foreign)
    try:
        find_project(start)
    except DubiousOwnership as error:
        assert error.remedy
        assert foreign, error.message
        return True
    assert not foreign
    return False


@pytest.mark.parametrize(
    "part",
    [".", ".git", ".corral", ".corral/run", ".corral/config.yaml", ".corral/local.yaml", ".corral/teams.yaml",
     ".corral/metadata.json", ".corral/corral.db", ".corral/corral.db-wal"],
)  # fmt: skip
@NEEDS_ROOT
def test_each_part_must_be_the_users_own(initialised: Path, part: str) -> None:
    assert not refused_by_both(initialised / "src")
    os.chown(initialised / part, STRANGER, STRANGER)
    assert refused_by_both(initialised / "src")


@NEEDS_ROOT
def test_a_link_counts_with_what_it_leads_to(initialised: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.move(initialised / ".corral", elsewhere)
    (initialised / ".corral").symlink_to(elsewhere)
    assert not refused_by_both(initialised)
    os.chown(elsewhere, STRANGER, STRANGER)
    assert refused_by_both(initialised)
    os.chown(elsewhere, 0, 0)
    os.lchown(initialised / ".corral", STRANGER, STRANGER)
    assert refused_by_both(initialised)


@NEEDS_ROOT
def test_a_linked_worktree_answers_for_itself_and_for_its_repository(initialised: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked"
    git(initialised, "worktree", "add", "-q", os.fspath(linked))
    assert not refused_by_both(linked)
    os.chown(linked / ".git", STRANGER, STRANGER)
    assert refused_by_both(linked)
    git(tmp_path, "config", "--global", "--add", "safe.directory", os.fspath(linked))
    assert not refused_by_both(linked)
    os.chown(initialised / ".git", STRANGER, STRANGER)
    assert refused_by_both(linked)
    git(tmp_path, "config", "--global", "--add", "safe.directory", os.fspath(initialised))
    assert not refused_by_both(linked)


@NEEDS_ROOT
def test_a_foreign_repository_ends_the_search(initialised: Path) -> None:
    inner = initialised / "src" / "inner"
    inner.mkdir()
    git(inner, "init", "-q")
    with pytest.raises(NotAProject, match="not coordinated"):
        find_project(inner)
    give_away(inner)
    with pytest.raises(DubiousOwnership, match="inner"):
        find_project(inner)


@NEEDS_ROOT
def test_a_bare_repository_is_held_to_the_same(repo: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare.git"
    git(repo, "clone", "-q", "--bare", ".", os.fspath(bare))
    assert find_project(bare, initialised=False).bare
    os.chown(bare, STRANGER, STRANGER)
    with pytest.raises(DubiousOwnership):
        find_project(bare, initialised=False)


@NEEDS_ROOT
def test_who_called_sudo_is_no_stranger_to_root(initialised: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    give_away(initialised)
    assert refused_by_both(initialised)
    monkeypatch.setenv("SUDO_UID", str(STRANGER))
    assert not refused_by_both(initialised)
    monkeypatch.setenv("SUDO_UID", "1000")
    assert refused_by_both(initialised)


def _git_accepts(repository: Path) -> bool:
    return subprocess.run(["git", "rev-parse", "--git-dir"], cwd=repository, capture_output=True).returncode == 0


@pytest.mark.parametrize(
    ("values", "safe"),
    [
        ([], False),
        (["*"], True),
        (["{repo}"], True),
        (["{repo}", ""], False),
        (["*", "", "{repo}"], True),
        (["/elsewhere"], False),
        (["{repo}x"], False),
        (["{above}"], False),
        (["repo"], False),
        (["~/repo"], False),
    ],
)
@NEEDS_ROOT
def test_safe_directory_is_read_as_git_reads_it(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: list[str], safe: bool
) -> None:
    os.chown(repo / ".git", STRANGER, STRANGER)
    monkeypatch.chdir(tmp_path)
    for value in values:
        address = value.format(repo=repo, above=tmp_path)
        git(tmp_path, "config", "--global", "--add", "safe.directory", address)
    assert _git_accepts(repo) is safe
    assert ownership.is_safe(repo) is safe
    assert load("ownership").is_safe(os.fspath(repo)) is safe


@pytest.mark.parametrize(
    ("value", "safe"),
    [("{above}/*", True), ("{above}/re/*", False), ("{repo}/*", False), ("{repo}/", True), ("{above}/link", True)],
)
def test_safe_directory_is_read_as_newer_versions_of_git_read_it(
    repo: Path, tmp_path: Path, value: str, safe: bool
) -> None:
    (tmp_path / "link").symlink_to(repo)
    git(tmp_path, "config", "--global", "--add", "safe.directory", value.format(repo=repo, above=tmp_path))
    assert ownership.is_safe(repo) is safe
    assert load("ownership").is_safe(os.fspath(repo)) is safe


def test_a_repository_cannot_call_itself_safe(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    git(repo, "config", "--local", "--add", "safe.directory", "*")
    monkeypatch.chdir(repo)
    monkeypatch.setenv("GIT_DIR", os.fspath(repo / ".git"))
    assert not ownership.is_safe(repo)
    assert not load("ownership").is_safe(os.fspath(repo))
    monkeypatch.setenv("GIT_CONFIG", os.fspath(repo / ".git" / "config"))
    assert not ownership.is_safe(repo)
    assert not load("ownership").is_safe(os.fspath(repo))


@pytest.mark.parametrize(
    ("part", "safe"), [("config.yaml", True), ("run", False), ("corral.db", False), ("corral.db-wal", False)]
)
@NEEDS_ROOT
def test_safe_directory_covers_the_settings_but_not_what_is_private(initialised: Path, part: str, safe: bool) -> None:
    git(initialised, "config", "--global", "--add", "safe.directory", os.fspath(initialised))
    for shared in (".", ".git", ".corral"):
        os.chown(initialised / shared, STRANGER, STRANGER)
    assert not refused_by_both(initialised)
    os.chown(initialised / ".corral" / part, STRANGER, STRANGER)
    assert refused_by_both(initialised) is not safe


@NEEDS_ROOT
def test_a_database_that_lies_elsewhere_must_be_the_users_own_too(
    make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    deep = make_repo("a/" + "/".join(["d" * 100] * 5))
    (deep / ".corral").mkdir()
    (deep / ".corral" / "config.yaml").touch()
    database = find_project(deep).database
    assert not database.is_relative_to(deep)
    database.parent.mkdir(parents=True)
    os.chown(database.parent, STRANGER, STRANGER)
    with pytest.raises(DubiousOwnership):
        find_project(deep)


@NEEDS_ROOT
def test_what_the_owner_called_a_folder_cannot_steer_a_terminal(make_repo: Callable[..., Path]) -> None:
    repo = make_repo("\x1b[2J\n'; rm -rf \x07")
    give_away(repo)
    with pytest.raises(DubiousOwnership) as refusal:
        find_project(repo, initialised=False)
    shown = refusal.value.message + refusal.value.cause + refusal.value.remedy
    assert shown.isprintable()


@NEEDS_ROOT
def test_settings_that_another_user_replaces_later_are_not_taken(initialised: Path, sealed: Path) -> None:
    project = find_project(initialised)

    def reasons() -> list[str]:
        texts: list[str] = []
        for read in (lambda: load_settings(project, environ={}, home=sealed), lambda: read_team(teams_file(project))):
            try:
                read()
            except ConfigInvalid as error:
                texts += [error["reason"] for error in error.details["errors"]]
        return texts

    files = (project.config_file, project.home / "local.yaml", teams_file(project))
    for file in files:
        file.write_text(TEAM if file == teams_file(project) else "{}\n")
    assert reasons() == []
    for file in files:
        os.chown(file, STRANGER, STRANGER)
    assert reasons() == ["cannot be read: belongs to another user"] * 3
    git(initialised, "config", "--global", "--add", "safe.directory", os.fspath(initialised))
    assert reasons() == []
