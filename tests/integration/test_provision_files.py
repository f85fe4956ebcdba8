"""Which files come along as ``.worktreeinclude`` says, and which never do."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.core.errors import ConfigInvalid
from corral.work.worktrees.provision import OWN_SETTINGS
from tests.conftest import commit_all, git
from tests.integration.provisioning import add_worktree, make_usable, usable

MakeRepo = Callable[..., Path]

IGNORED = ".env\n*.local\nsecrets/\nnode_modules/\n"


def put(root: Path, path: str, text: str = "main's\n") -> Path:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


@pytest.fixture
def main(make_repo: MakeRepo) -> Path:
    return make_repo(files={".gitignore": IGNORED, "package.json": "{}", "app/tracked.local.txt": "t\n"})


def brought(main: Path, patterns: str, name: str = "w") -> tuple[Path, list[str]]:
    """Provision, and list what git does not know in the worktree."""
    put(main, ".worktreeinclude", patterns)
    worktree = add_worktree(main, name)
    make_usable(main, worktree)
    listed = git(worktree, "ls-files", "--others", "--ignored", "--exclude-standard")
    assert git(worktree, "status", "--porcelain") == ""
    return worktree, sorted(listed.splitlines())


def test_ignored_files_that_match_come_along_with_mode_and_content(main: Path) -> None:
    put(main, ".env", "KEY=1\n").chmod(0o600)
    put(main, "app/.env")
    put(main, "secrets/deep/key.pem")
    put(main, "app/settings.local")
    worktree, files = brought(main, "# secrets\n.env\nsecrets/\n\n*.local\n!app/settings.local\n")
    assert files == [".env", "app/.env", "secrets/deep/key.pem"]
    assert (worktree / ".env").read_text() == "KEY=1\n"
    assert stat.S_IMODE((worktree / ".env").stat().st_mode) == 0o600
    assert not (worktree / ".env").is_symlink()


def test_an_anchored_pattern_matches_at_the_root_only(main: Path) -> None:
    put(main, ".env")
    put(main, "app/.env")
    assert brought(main, "/.env\n")[1] == [".env"]


def test_files_that_git_does_not_ignore_do_not_come(main: Path) -> None:
    put(main, "notes.txt")
    put(main, "app/tracked.local.txt", "changed and not committed\n")
    worktree, files = brought(main, "*\n")
    assert files == []
    assert (worktree / "app/tracked.local.txt").read_text() == "t\n"
    assert not (worktree / "notes.txt").exists()


def test_without_the_listing_nothing_comes(main: Path) -> None:
    put(main, ".env")
    worktree, _ = usable(main)
    assert not (worktree / ".env").exists()


def test_what_the_worktree_has_of_its_own_stays(main: Path) -> None:
    put(main, ".env")
    put(main, ".worktreeinclude", ".env\n")
    worktree = add_worktree(main)
    put(worktree, ".env", "mine\n")
    make_usable(main, worktree)
    assert (worktree / ".env").read_text() == "mine\n"


def test_symlinks_are_not_followed_out_of_the_checkout(main: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside/key.local")
    (main / "a.local").symlink_to(tmp_path / "outside/key.local")
    (main / "secrets").symlink_to(tmp_path / "outside")
    put(main, ".worktreeinclude", "*.local\nsecrets/\nsecrets\n")
    worktree, provisioned = usable(main)
    assert not (worktree / "a.local").exists()
    assert not (worktree / "secrets").exists()
    assert any("a.local" in note and "symlink" in note for note in provisioned.notes)


def test_nothing_is_written_through_a_symlink_of_the_branch(main: Path, tmp_path: Path) -> None:
    """A branch can hold any symlink: neither files nor folders may land where it leads."""
    outside = tmp_path / "outside"
    outside.mkdir()
    put(main, "app2/x.local")
    put(main, "app2/node_modules/left/index.js")
    put(main, ".worktreeinclude", "*.local\n")
    worktree = add_worktree(main)
    (worktree / "app2").symlink_to(outside)
    provisioned = make_usable(main, worktree)
    assert list(outside.iterdir()) == []
    assert len([note for note in provisioned.notes if "app2 is no real folder" in note]) == 2


def test_neither_worktrees_nor_submodules_nor_corrals_own_files_come(main: Path) -> None:
    other = add_worktree(main, "other")
    put(other, "x.local")
    git(main, "worktree", "add", "-q", "-b", "c", str(main / ".claude/worktrees/c"))
    put(main, ".claude/worktrees/c/x.local")
    put(main, ".claude/worktrees/orphan/x.local")
    put(main, ".corral/logs/x.local")
    put(main, "lib/module/.git", "gitdir: elsewhere\n")
    put(main, "lib/module/x.local")
    put(main, "node_modules/x/x.local")
    put(main, "node_modules/.git/config")
    put(main, "node_modules/.corral/worktrees/w/x")
    put(main, "x.local")
    put(main, ".worktreeinclude", "*.local\n")
    with (main / ".git/info/exclude").open("a") as rules:
        rules.write(".claude/\nlib/\n")
    worktree, _ = usable(main)
    assert (worktree / "x.local").exists()
    assert not (worktree / ".claude").exists()
    assert not (worktree / ".corral").exists()
    assert not (worktree / "lib").exists()
    assert sorted(child.name for child in (worktree / "node_modules").iterdir()) == [".gitignore", "x"]


def test_the_listing_does_not_reach_into_what_a_recipe_brings(main: Path) -> None:
    put(main, "node_modules/.cache/x.local")
    put(main, "node_modules/left/x.local")
    worktree, _ = brought(main, "*.local\n")
    assert sorted(child.name for child in (worktree / "node_modules").iterdir()) == [".gitignore", "left"]


def test_clones_leave_out_nested_checkouts(make_repo: MakeRepo) -> None:
    main = make_repo(files={"pyproject.toml": "", ".gitignore": ".venv\n"})
    put(main, ".venv/src/vcs/.git/config")
    put(main, ".venv/src/vcs/code.py")
    put(main, ".venv/nested/.git", "gitdir: elsewhere\n")
    put(main, ".venv/nested/code.py")
    (main / ".venv/here").symlink_to(main / ".venv/src")
    (main / ".venv/outside").symlink_to("/usr")
    worktree, _ = usable(main)
    assert (worktree / ".venv/src/vcs/code.py").exists()
    assert not (worktree / ".venv/src/vcs/.git").exists()
    assert not (worktree / ".venv/nested").exists()
    assert (worktree / ".venv/here").readlink() == worktree / ".venv/src"
    assert (worktree / ".venv/outside").readlink() == Path("/usr")


def test_a_folder_that_is_a_symlink_is_not_followed(main: Path, tmp_path: Path) -> None:
    put(tmp_path, "outside/left/index.js")
    (main / "node_modules").symlink_to(tmp_path / "outside")
    worktree, _ = usable(main)
    assert not (worktree / "node_modules").exists()


def test_a_project_of_no_known_kind_gets_its_ports_and_nothing_else(make_repo: MakeRepo) -> None:
    main = make_repo()
    worktree, provisioned = usable(main)
    assert provisioned.env == {
        "CORRAL_PORT_BASE": "23450",
        "CORRAL_PORTS": " ".join(str(port) for port in range(23450, 23460)),
        "PORT": "23450",
    }
    assert provisioned.path_prefixes == provisioned.exclude == provisioned.notes == provisioned.setup == []
    assert sorted(child.name for child in worktree.iterdir()) == [".git", "README.md", "src"]


def test_without_a_block_no_port_is_said(make_repo: MakeRepo) -> None:
    main = make_repo()
    assert make_usable(main, add_worktree(main), port_base=None).env == {}


def test_compose_projects_are_named_apart(make_repo: MakeRepo) -> None:
    main = make_repo("My Shop", {"compose.yaml": "services: {}\n"})
    names = {make_usable(main, add_worktree(main, name)).env["COMPOSE_PROJECT_NAME"] for name in ("a", "B.2")}
    assert names == {"my-shop-a", "my-shop-b-2"}


def test_the_settings_choose_among_the_recipes(main: Path) -> None:
    put(main, "node_modules/left/index.js")
    worktree, _ = usable(main, recipes=["python"])
    assert not (worktree / "node_modules").exists()
    with pytest.raises(ConfigInvalid, match="'pyton'"):
        make_usable(main, worktree, recipes=["pyton"])
    make_usable(main, worktree, recipes=["node"])
    assert (worktree / "node_modules/left").exists()


@pytest.mark.parametrize(
    ("ignored", "stands", "comes"),
    [
        ("*.local.json\n", "", True),
        ("", "", False),
        ("*.local.json\n", "untracked", False),
        ("*.local.json\n", "tracked", False),
    ],
)
def test_the_guard_of_edits_comes_along_alone_and_into_no_file_that_git_sees(
    make_repo: MakeRepo, ignored: str, stands: str, comes: bool
) -> None:
    main = make_repo(files={".gitignore": ignored})
    other = {"hooks": [{"type": "command", "command": "mine"}]}
    guard = {
        "hooks": [{"type": "command", "command": 'at "${CLAUDE_PROJECT_DIR:-.}"; corral hook PreToolUse --from-shell'}]
    }
    mine = json.dumps({"permissions": {"allow": ["Bash"]}, "hooks": {"PreToolUse": [other, guard]}})
    put(main, OWN_SETTINGS, mine)
    if stands == "tracked":
        commit_all(main, "mine", OWN_SETTINGS, force=True)
    worktree = add_worktree(main)
    if stands == "untracked":
        put(worktree, OWN_SETTINGS, "mine")
    for _ in range(2):
        owned = make_usable(main, worktree).owned
        assert (OWN_SETTINGS in owned) is comes
    file = worktree / OWN_SETTINGS
    if comes:
        (command,) = [
            hook["command"] for group in json.loads(file.read_text())["hooks"]["PreToolUse"] for hook in group["hooks"]
        ]
        assert command == f"at {main.resolve()}; corral hook PreToolUse --from-shell"
        assert json.loads(file.read_text()).keys() == {"hooks"}
    else:
        assert (file.read_text() if file.exists() else "") == {"": "", "untracked": "mine", "tracked": mine}[stands]
    assert git(worktree, "status", "--porcelain") == ""
