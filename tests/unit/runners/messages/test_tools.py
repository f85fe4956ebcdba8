"""The six tools of a conversation: what each does, and that the file tools stay inside of the worktree."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from corral.runners.messages import tools
from corral.runners.messages.tools import NAMES, Toolbox, allowed
from tests.support.coordinated import eventually


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A worktree beside a folder that is not of it."""
    root = tmp_path / "worktree"
    (root / "src").mkdir(parents=True)
    (root / ".git").write_text("gitdir: elsewhere\n")
    (root / "src/one.py").write_text("first = 1\nsecond = 2\n")
    (root / "notes.md").write_text("first things first\n")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.txt").write_text("secret")
    (root / "folder-link").symlink_to(outside)
    (root / "file-link").symlink_to(outside / "secret.txt")
    (root / "new-link").symlink_to(outside / "new.txt")
    (root / "git-link").symlink_to(root / ".git")
    return root


@pytest.fixture
def box(root: Path) -> Toolbox:
    return Toolbox(root, os.environ, NAMES)


def works(box: Toolbox, name: str, **arguments: Any) -> str:
    output, is_error = box.call(name, arguments)
    assert not is_error, output
    return output


def fails(box: Toolbox, name: str, **arguments: Any) -> str:
    output, is_error = box.call(name, arguments)
    assert is_error, output
    return output


@pytest.mark.parametrize("tool", ["read_file", "write_file", "edit_file", "list_files", "search"])
@pytest.mark.parametrize(
    "path",
    [
        "../outside/secret.txt",
        "/etc/passwd",
        "file-link",
        "folder-link/secret.txt",
        "src/../../outside/secret.txt",
        "folder-link",
    ],
)
def test_a_file_tool_never_leaves_the_worktree(box: Toolbox, root: Path, tool: str, path: str) -> None:
    rest: dict[str, dict[str, str]] = {
        "read_file": {"file_path": path},
        "write_file": {"file_path": path, "content": "x"},
        "edit_file": {"file_path": path, "old_string": "secret", "new_string": "x"},
        "list_files": {"path": path},
        "search": {"path": path, "pattern": "secret"},
    }
    assert "is outside of the working directory" in fails(box, tool, **rest[tool])
    assert (root.parent / "outside/secret.txt").read_text() == "secret"


def test_nothing_is_made_behind_a_link_that_leads_outside(box: Toolbox, root: Path) -> None:
    fails(box, "write_file", file_path="new-link", content="x")
    fails(box, "write_file", file_path="folder-link/new.txt", content="x")
    assert [file.name for file in (root.parent / "outside").iterdir()] == ["secret.txt"]


def test_an_absolute_path_inside_of_the_worktree_is_taken(box: Toolbox, root: Path) -> None:
    works(box, "write_file", file_path=str(root / "made.txt"), content="x")
    assert (root / "made.txt").read_text() == "x"


@pytest.mark.parametrize(
    "path", [".git", ".git/hooks/pre-commit", ".GIT/config", "src/.git/config", "git-link", "src/../.git"]
)
def test_git_s_own_files_are_not_written(box: Toolbox, root: Path, path: str) -> None:
    assert "belongs to Git" in fails(box, "write_file", file_path=path, content="x")
    assert "belongs to Git" in fails(box, "edit_file", file_path=path, old_string="gitdir", new_string="x")
    assert (root / ".git").read_text() == "gitdir: elsewhere\n"
    assert not (root / "src/.git").exists()


def test_a_file_is_read_by_its_lines(box: Toolbox, root: Path) -> None:
    assert works(box, "read_file", file_path="src/one.py") == "first = 1\nsecond = 2\n"
    assert works(box, "read_file", file_path="src/one.py", offset=2, limit=1).startswith("second = 2\n\n[lines 2 to")
    (root / "long.txt").write_text(("x" * 79 + "\n") * 5000)
    assert len(works(box, "read_file", file_path="long.txt")) < tools.MAX_ANSWER + 200
    assert "count from 1" in fails(box, "read_file", file_path="long.txt", offset=0)


def test_what_is_no_text_is_not_read(box: Toolbox, root: Path) -> None:
    (root / "image").write_bytes(b"\xff\xfe\x00")
    (root / "large").write_bytes(b"x" * (tools.MAX_FILE + 1))
    os.mkfifo(root / "pipe")
    assert "UTF-8" in fails(box, "read_file", file_path="image")
    assert "larger than" in fails(box, "read_file", file_path="large")
    assert "is no file" in fails(box, "read_file", file_path="pipe")
    assert "use list_files" in fails(box, "read_file", file_path="src")
    assert "No such file" in fails(box, "read_file", file_path="gone")
    assert "no regular file" in fails(box, "write_file", file_path="pipe", content="x")


def test_a_file_is_written_with_its_folders_and_keeps_its_mode(box: Toolbox, root: Path) -> None:
    works(box, "write_file", file_path="new/deep/file.txt", content="one\n")
    assert (root / "new/deep/file.txt").read_text() == "one\n"
    (root / "src/one.py").chmod(0o755)
    works(box, "write_file", file_path="src/one.py", content="")
    assert (root / "src/one.py").stat().st_mode & 0o777 == 0o755
    assert "larger than" in fails(box, "write_file", file_path="x", content="x" * (tools.MAX_FILE + 1))
    assert "UTF-8" in fails(box, "write_file", file_path="x", content="\ud800")
    assert not (root / "x").exists()


def test_an_edit_replaces_a_text_that_is_there_exactly_once(box: Toolbox, root: Path) -> None:
    works(box, "edit_file", file_path="src/one.py", old_string="first = 1", new_string="first = 10")
    assert (root / "src/one.py").read_text() == "first = 10\nsecond = 2\n"
    assert "is 2 times" in fails(box, "edit_file", file_path="notes.md", old_string="first", new_string="x")
    assert "is 0 times" in fails(box, "edit_file", file_path="notes.md", old_string="third", new_string="x")
    assert "empty" in fails(box, "edit_file", file_path="notes.md", old_string="", new_string="x")
    assert (root / "notes.md").read_text() == "first things first\n"


def test_files_are_listed_without_git_s_own_and_without_links(box: Toolbox) -> None:
    assert works(box, "list_files").splitlines() == ["notes.md", "src/one.py"]
    assert works(box, "list_files", pattern="**/*.md") == "notes.md"
    assert works(box, "list_files", pattern="*.py", path="src") == "src/one.py"
    assert works(box, "list_files", pattern="*.rs") == "[No file matches.]"
    assert "no such folder" in fails(box, "list_files", path="gone")


def test_a_long_list_is_cut(box: Toolbox, root: Path) -> None:
    for number in range(tools.MAX_LISTED + 5):
        (root / f"f{number}").touch()
    lines = works(box, "list_files").splitlines()
    assert len(lines) == tools.MAX_LISTED + 1 and lines[-1].startswith("[more than")


def test_a_search_finds_lines(box: Toolbox, root: Path) -> None:
    (root / "binary").write_bytes(b"first\0")
    assert works(box, "search", pattern="^first").splitlines() == [
        "notes.md:1: first things first",
        "src/one.py:1: first = 1",
    ]
    assert works(box, "search", pattern="first", glob="*.py") == "src/one.py:1: first = 1"
    assert works(box, "search", pattern="nothing like it") == "[Nothing matches.]"
    assert "no regular expression" in fails(box, "search", pattern="(")


def test_a_search_that_would_never_end_is_ended(box: Toolbox, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "SEARCH_S", 0.2)
    (root / "trap").write_text("a" * 60 + "b\n")
    assert "took longer than 0.2 s" in fails(box, "search", pattern="(a+)+$")


def test_a_command_runs_in_the_worktree(box: Toolbox, root: Path) -> None:
    assert works(box, "run_command", command="pwd; echo wrong >&2") == f"{root}\nwrong\n"
    assert works(box, "run_command", command="true") == "[The command succeeded without output.]"
    assert fails(box, "run_command", command="echo no; exit 3") == "no\n\n[The command exited with 3.]"
    assert "empty" in fails(box, "run_command", command=" ")


def test_a_command_that_takes_too_long_is_ended(box: Toolbox) -> None:
    began = time.monotonic()
    output = fails(box, "run_command", command="echo begun; sleep 600", timeout_s=1)
    assert output == "begun\n\n[The command was ended after 1 s.]"
    assert time.monotonic() - began < 30


def test_a_stubborn_command_is_killed_with_its_group(box: Toolbox, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools, "GRACE_S", 0.2)
    command = "trap '' TERM; sleep 600 & echo $!; sleep 600"  # a child inherits what is ignored
    pid = int(fails(box, "run_command", command=command, timeout_s=1).split()[0])
    eventually(lambda: not _is_alive(pid))


def test_nothing_of_a_command_goes_on_in_the_background(box: Toolbox) -> None:
    began = time.monotonic()
    pid = int(works(box, "run_command", command="sleep 600 & echo $!"))
    eventually(lambda: not _is_alive(pid))
    works(box, "run_command", command="yes & true")
    assert time.monotonic() - began < 30


def test_a_long_output_keeps_its_beginning_and_its_end(box: Toolbox) -> None:
    output = works(box, "run_command", command="echo begin; head -c 3000000 /dev/zero | tr '\\0' x; echo; echo end")
    assert output.startswith("begin\n") and output.endswith("\nend\n") and "bytes left out]" in output
    assert len(output) < 30_000


def test_bad_input_is_told_to_the_model(box: Toolbox) -> None:
    assert fails(box, "read_file") == "The input lacks file_path."
    assert "unknown field" in fails(box, "read_file", file_path="x", why="so")
    assert "of the type string" in fails(box, "read_file", file_path=7)
    assert "of the type integer" in fails(box, "read_file", file_path="x", offset=True)
    assert "NUL" in fails(box, "read_file", file_path="a\0b")
    assert "empty" in fails(box, "read_file", file_path="")
    assert box.call("read_file", ["x"]) == ("The input is no object.", True)
    assert box.call("fly", {})[0].startswith("There is no tool fly")


def test_links_in_a_circle_are_an_error_and_no_end(box: Toolbox, root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    fails(box, "read_file", file_path="a")


def test_a_tool_that_is_not_allowed_cannot_be_called(root: Path) -> None:
    box = Toolbox(root, os.environ, ["read_file"])
    assert [tool["name"] for tool in box.definitions] == ["read_file"]
    assert "There is no tool run_command" in fails(box, "run_command", command="true")


@pytest.mark.parametrize(
    ("tools", "disallowed", "names"),
    [
        (None, None, list(NAMES)),
        (["Read", "Grep", "Glob"], None, ["read_file", "list_files", "search"]),
        (["LS", "MultiEdit", "Write", "run_command"], None, ["write_file", "edit_file", "list_files", "run_command"]),
        (["Read", "Bash(git *)", "WebFetch"], None, ["read_file"]),
        (None, ["Bash(rm *)", "Write"], ["read_file", "edit_file", "list_files", "search"]),
        ([], None, []),
    ],
)
def test_tools_of_claude_code_stand_for_those_here(
    tools: list[str] | None, disallowed: list[str] | None, names: list[str]
) -> None:
    assert allowed(tools, disallowed) == names


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
