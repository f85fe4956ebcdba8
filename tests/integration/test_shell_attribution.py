"""What shell commands of several sessions do to files: attributed with evidence, and brought back where it was another's."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import git
from tests.support.coordinated import Coordinated, denied, eventually, told

SAVED = "refs/corral/salvage/"


class Shell:
    """A shell command of a session: announced when made, over at :meth:`end`."""

    def __init__(self, house: Coordinated, session: str, command: str, cwd: Path | None = None) -> None:
        self._house, self._session, self._cwd = house, session, cwd
        self._call: dict[str, Any] = {
            "tool_name": "Bash",
            "tool_input": {"command": command},
            "tool_use_id": f"{session}-{command}",
        }
        self.refused = denied(house.hook("PreToolUse", session, cwd, **self._call))

    def end(self) -> str:
        """Report its end; returns what its session is told."""
        return told(self._house.hook("PostToolUse", self._session, self._cwd, **self._call))


@pytest.fixture
def pair(house: Coordinated) -> Coordinated:
    """Two sessions, ann and ben, in one checkout."""
    for who in ("ann", "ben"):
        house.hook("SessionStart", who, source="startup")
    return house


def edit(house: Coordinated, session: str, path: str, text: str) -> None:
    """Edit a file with a tool, from its announcement to its end."""
    assert denied(house.edit(session, path, use=path)) is None
    (house.root / path).write_text(text)
    tool_input = {"file_path": str(house.root / path)}
    house.hook("PostToolUse", session, tool_name="Edit", tool_use_id=path, tool_input=tool_input)


def locks(house: Coordinated) -> dict[str, str]:
    return {row["file_path"]: row["session_id"] for row in house.ask("GET", "/locks")}


def saved(house: Coordinated) -> list[str]:
    return git(house.root, "for-each-ref", "--format=%(refname)", SAVED).splitlines()


def notices(house: Coordinated, session: str) -> str:
    return told(house.hook("UserPromptSubmit", session, prompt="go on"))


def test_a_file_changed_under_two_commands_is_nobodys(pair: Coordinated) -> None:
    tests, generator = Shell(pair, "ann", "pytest"), Shell(pair, "ben", "make generate")
    (pair.root / "src/b.py").write_text("b = 2\n")
    for text in (generator.end(), tests.end()):
        assert text.count("src/b.py") == 1 and "is not known" in text and "Undo" not in text
    assert locks(pair) == {} and notices(pair, "ann") + notices(pair, "ben") == ""
    assert denied(pair.edit("ben", "src/b.py")) is None, "the author goes on"


def test_a_file_that_its_author_holds_is_no_reason_to_order_anybody(pair: Coordinated) -> None:
    edit(pair, "ben", "src/b.py", "b =  2\n")
    tests, formatter = Shell(pair, "ann", "pytest"), Shell(pair, "ben", "make format")
    (pair.root / "src/b.py").write_text("b = 2\n")
    formatter.end()
    text = tests.end()
    assert "src/b.py (held by " in text and "Undo" not in text and locks(pair) == {"src/b.py": "ben"}


def test_a_file_that_only_one_command_can_have_changed_is_its(pair: Coordinated) -> None:
    ann = Shell(pair, "ann", "make one")
    (pair.root / "one.txt").write_text("1")
    ben = Shell(pair, "ben", "make two")
    (pair.root / "both.txt").write_text("?")
    assert "both.txt" in ben.end()
    (pair.root / "three.txt").write_text("3")
    text = ann.end()
    assert locks(pair) == {"one.txt": "ann", "three.txt": "ann"}
    assert "both.txt" in text and "one.txt" not in text and "three.txt" not in text


def test_a_command_whose_end_was_never_told_is_over_with_its_turn_or_its_session(pair: Coordinated) -> None:
    Shell(pair, "ann", "sleep 100")
    pair.hook("Stop", "ann")
    pair.hook("SessionStart", "cid", source="startup")
    Shell(pair, "cid", "sleep 200")
    pair.ask("POST", "/sessions/cid/end", {})
    ben = Shell(pair, "ben", "make")
    (pair.root / "made.txt").write_text("1")
    assert ben.end() == "" and locks(pair) == {"made.txt": "ben"}


def test_an_edit_that_is_being_made_is_not_the_commands(pair: Coordinated) -> None:
    pair.edit("ben", "src/b.py")
    tests = Shell(pair, "ann", "pytest")
    (pair.root / "src/b.py").write_text("b = 2\n")
    assert tests.end() == ""


def test_another_checkout_is_compared_only_if_the_command_names_it(house: Coordinated) -> None:
    place = Path(house.json("worktree", "create", "w1")["path"])
    house.hook("SessionStart", "ann", place, source="startup")
    quiet = Shell(house, "ann", f"make -C {place} all", place)
    (house.root / "README.md").write_text("a person is at work\n")
    assert quiet.end() == "" and locks(house) == {}
    for number, command in enumerate(
        (f"touch {house.root}/x", f"cp a ../../{house.root.name}/src/", f"cd {house.root} && make")
    ):
        naming = Shell(house, "ann", command, place)
        (house.root / f"named-{number}.txt").write_text("x")
        assert "in another checkout" in naming.end(), command
    other = Path(house.json("worktree", "create", "w2")["path"])
    for number, command in enumerate(
        (f"touch {other.parent}/*/x", "for d in ../w?/; do touch $d/x; done", "cd .. && touch */x")
    ):
        naming = Shell(house, "ann", command, place)
        (other / f"all-{number}.txt").write_text("x")
        assert f"in another checkout ({other})" in naming.end(), command


def test_an_edit_that_nobody_was_asked_about_is_told_to_both(pair: Coordinated) -> None:
    """Its hook timed out, say, or another hook rewrote the path after Corral's was asked."""
    edit(pair, "ann", "a.py", "ann's\n")
    written = {"file_path": str(pair.root / "a.py")}
    notice = told(pair.hook("PostToolUse", "ben", tool_name="Edit", tool_use_id="other", tool_input=written))
    assert "Your edit changed a.py, which " in notice and "Undo your change" in notice
    assert " edited a.py while you hold it. Read the file again" in notices(pair, "ann")
    assert "while you hold it" not in notices(pair, "ben")
    assert locks(pair) == {"a.py": "ann"}


@pytest.mark.slow("a look that comes ten seconds after the first one")
def test_what_a_command_in_the_background_writes_after_its_end_was_told_is_told_to_the_holder(
    pair: Coordinated,
) -> None:
    edit(pair, "ann", "a.py", "ann's\n")
    assert Shell(pair, "ben", "(sleep 1; echo x > a.py) &").end() == ""
    (pair.root / "a.py").write_text("x\n")
    text = eventually(lambda: notice if "a.py, which you hold, changed" in (notice := notices(pair, "ann")) else None)
    subprocess.run(shlex.split(text[text.index("git -C") :].splitlines()[0]), check=True)
    assert (pair.root / "a.py").read_text() == "ann's\n"


def test_what_anothers_command_deletes_is_brought_back_by_the_command_that_is_named(pair: Coordinated) -> None:
    edit(pair, "ann", "src/b.py", "half done\n")
    edit(pair, "ann", "new file.txt", "never committed\n")
    remove = Shell(pair, "ben", "rm src/b.py *.txt")
    for path in ("src/b.py", "new file.txt"):
        (pair.root / path).unlink()
    assert "deleted src/b.py" in remove.end()
    text = notices(pair, "ann")
    commands = [part for part in text.split("`") if part.startswith("git ")]
    assert len(commands) == 2, text
    for command in commands:
        subprocess.run(shlex.split(command), check=True, cwd="/")
    assert (pair.root / "src/b.py").read_text() == "half done\n"
    assert (pair.root / "new file.txt").read_text() == "never committed\n"
    assert git(pair.root, "diff", "--cached", "--name-only") == "", "the index is untouched"


def test_files_that_nobody_else_holds_or_that_did_not_change_are_not_copied_again(pair: Coordinated) -> None:
    (pair.root / "loose.txt").write_text("nobody's")
    Shell(pair, "ben", "make").end()
    assert saved(pair) == []
    edit(pair, "ann", "src/a.py", "a = 2\n")
    for number in range(3):
        Shell(pair, "ben", f"make {number}").end()
    first = saved(pair)
    assert len(first) == 1
    edit(pair, "ann", "src/a.py", "a = 3\n")
    Shell(pair, "ben", "make again").end()
    assert len(saved(pair)) == 1 and saved(pair) != first, "nobody needed the older copy"
    harm = Shell(pair, "ben", "make harm")
    (pair.root / "src/a.py").write_text("broken\n")
    harm.end()
    Shell(pair, "ben", "make more").end()
    assert len(saved(pair)) == 2 and git(pair.root, "show", f"{saved(pair)[0]}:src/a.py") == "a = 3"
    pair.kill_daemon()
    Shell(pair, "ben", "make after").end()
    assert len(saved(pair)) == 2, "a new daemon knows the copy by what is in it"


def test_a_large_file_is_not_copied_and_stops_no_command(pair: Coordinated) -> None:
    edit(pair, "ann", "large.bin", "")
    with (pair.root / "large.bin").open("wb") as file:
        file.truncate(9 * 1024 * 1024)
    harm = Shell(pair, "ben", "rm large.bin")
    (pair.root / "large.bin").unlink()
    assert harm.refused is None and "deleted large.bin" in harm.end() and saved(pair) == []


def test_a_command_that_is_refused_twice_is_saved_for_once(pair: Coordinated) -> None:
    pair.edit("ann", "src/a.py")
    (pair.root / "src/a.py").write_text("a = 2\n")
    git(pair.root, "add", "src/a.py")
    (pair.root / "src/a.py").write_text("a = 3\n")
    first, second = (Shell(pair, "ben", "git reset --hard").refused for _ in range(2))
    assert first == second and first is not None and SAVED in first and len(saved(pair)) == 1


def test_what_another_client_puts_back_over_a_held_file_is_kept_and_its_holder_is_told(pair: Coordinated) -> None:
    """No event tells of ``/rewind``: the client of a session that edited a file writes its own older copy over what is there."""
    for path in ("a.py", "new.py", "other.py"):
        edit(pair, "ann", path, "ann's\n")
    pair.ask("POST", "/locks/release", {"session_id": "ann"})
    for path in ("a.py", "new.py"):
        edit(pair, "ben", path, "ben's\n")

    def copied(path: str) -> list[str]:
        return [git(pair.root, "show", f"{ref}:{path}", check=False) for ref in saved(pair)]

    def look_again(text: str) -> str:
        edit(pair, "ben", "other.py", text)  # written by both: copied again, and all copies are compared
        eventually(lambda: text in copied("other.py"))
        return notices(pair, "ben")

    eventually(lambda: copied("a.py") == copied("new.py") == ["ben's"])

    (pair.root / "new.py").write_text("ben's\n")  # nothing but its time changes
    assert "new.py" not in look_again("1")
    edit(pair, "ben", "a.py", "ben's more\n")
    assert "a.py" not in look_again("2"), "its own edit"
    (pair.root / "a.py").write_text("before ann\n")
    (pair.root / "new.py").unlink()
    text = look_again("3")
    assert "a.py" in text and "new.py" in text and "/rewind" in text
    for line in (line for line in text.splitlines() if "restore" in line):
        restoring = Shell(pair, "ben", line[line.index("git -C") :])
        subprocess.run(shlex.split(line[line.index("git -C") :]), check=True)
        restoring.end()
    assert (pair.root / "a.py").read_text() == "ben's more\n" and (pair.root / "new.py").read_text() == "ben's\n"
    assert "rewind" not in look_again("4"), "told once"
    assert "-held" in pair.run("worktree", "recover").stdout


def test_neither_a_command_that_runs_nor_a_new_time_hides_that_a_held_file_was_put_back(pair: Coordinated) -> None:
    for path in ("a.py", "b.py"):
        edit(pair, "ann", path, "ann's\n")
    pair.ask("POST", "/locks/release", {"session_id": "ann"})
    running = Shell(pair, "ann", "make")
    for path in ("a.py", "b.py"):
        edit(pair, "ben", path, "ben's\n")
    eventually(lambda: any(git(pair.root, "show", f"{ref}:b.py", check=False) == "ben's" for ref in saved(pair)))
    (pair.root / "a.py").write_text("ann's\n")
    running.end()
    Shell(pair, "ann", "make again").end()
    text = notices(pair, "ben")
    assert "a.py, which you hold, changed" in text and "/rewind" in text
    (pair.root / "b.py").write_text("ben's\n")  # nothing but its time changes
    Shell(pair, "ann", "make a third time").end()
    (pair.root / "b.py").write_text("ann's\n")
    Shell(pair, "ann", "make a last time").end()
    text = notices(pair, "ben")
    assert "b.py, which you hold, changed" in text and "a.py" not in text
    subprocess.run(shlex.split(text[text.index("git -C") :].splitlines()[0]), check=True)
    assert (pair.root / "b.py").read_text() == "ben's\n"
