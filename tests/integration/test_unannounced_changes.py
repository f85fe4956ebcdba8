"""What changed while no daemon ran is somebody's only with evidence; else it is shown as a file that nobody announced."""

from __future__ import annotations

import json
import shlex
import subprocess
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import commit_all, git
from tests.support.coordinated import Coordinated, denied, eventually, told

Json = dict[str, Any]


class Client:
    """A session whose client writes a transcript; hooks are sent only where a test does."""

    def __init__(self, house: Coordinated, name: str, folder: Path, cwd: Path | None = None) -> None:
        self.house, self.name, self.cwd = house, name, cwd or house.root
        self.transcript = folder / f"{name}.jsonl"
        self.transcript.touch()
        self._uses = 0
        self.process = subprocess.Popen(["sleep", "300"])
        me = {"pid": self.process.pid}
        self.hook("SessionStart", source="startup", transcript_path=str(self.transcript), _hook=me)

    def hook(self, event: str, **payload: Any) -> Json:
        return self.house.hook(event, self.name, self.cwd, **payload)

    def use(self, tool: str, *, ends: bool = True, failed: bool = False, **tool_input: str) -> str:
        """Write a tool call down, as the client does; returns its id."""
        self._uses += 1
        use = f"{self.name}-{self._uses}"
        self._write("assistant", {"type": "tool_use", "id": use, "name": tool, "input": tool_input})
        if ends:
            self.ends(use, failed=failed)
        return use

    def ends(self, use: str, *, failed: bool = False) -> None:
        self._write("user", {"type": "tool_result", "tool_use_id": use, "content": "x", "is_error": failed})

    def edits(self, path: str, text: str, **how: Any) -> None:
        """Edit a file without asking anybody."""
        use = self.use("Edit", ends=False, file_path=str(self.cwd / path))
        (self.cwd / path).write_text(text)
        self.ends(use, **how)

    def _write(self, kind: str, part: Json) -> None:
        at = datetime.now(timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        entry = {"type": kind, "timestamp": at, "cwd": str(self.cwd), "message": {"role": kind, "content": [part]}}
        with self.transcript.open("a") as file:
            file.write(json.dumps(entry) + "\n")

    def quit(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def start(house: Coordinated, tmp_path: Path) -> Iterator[Callable[..., Client]]:
    """Start a client: ``start(name, cwd)``."""
    clients: list[Client] = []

    def started(name: str, cwd: Path | None = None) -> Client:
        clients.append(Client(house, name, tmp_path, cwd))
        return clients[-1]

    yield started
    for client in clients:
        client.quit()


@pytest.fixture
def ann(start: Callable[..., Client]) -> Client:
    return start("ann")


@pytest.fixture
def ben(start: Callable[..., Client]) -> Client:
    return start("ben")


def locks(house: Coordinated) -> dict[str, str]:
    return {row["file_path"]: row["session_id"] for row in house.ask("GET", "/locks")}


def shown(house: Coordinated) -> list[Json]:
    needs: list[Json] = house.ask("GET", "/status")["needs_you"]
    return [need for need in needs if need["kind"] == "unannounced_changes"]


def looked(house: Coordinated) -> None:
    """Start the daemon, and wait for its look: an edit waits for it too."""
    house.run("daemon", "start")
    assert denied(house.edit("looker", "looked.txt")) is None
    house.ask("POST", "/sessions/looker/end", {})


def test_an_edit_of_a_session_is_its_own_as_if_it_had_asked(house: Coordinated, ann: Client, ben: Client) -> None:
    house.kill_daemon()
    ann.edits("src/a.py", "a = 2\n")
    house.run("daemon", "start")
    reason = denied(house.edit("ben", "src/a.py"))
    assert reason is not None and "src/a.py is held by" in reason
    assert locks(house) == {"src/a.py": "ann"} and shown(house) == []
    assert denied(house.edit("ann", "src/a.py")) is None


def test_an_edit_of_another_waits_until_that_is_known(house: Coordinated, ann: Client, ben: Client) -> None:
    git(house.root, "config", "filter.slow.clean", "sleep 0.7; cat")
    (house.root / ".git/info").mkdir(exist_ok=True)
    (house.root / ".git/info/attributes").write_text("src/a.py filter=slow\n")
    house.kill_daemon()
    ann.edits("src/a.py", "a = 2\n")  # as long as before, so that git must read it
    house.run("daemon", "start")
    assert "src/a.py is held by" in str(denied(house.edit("ben", "src/a.py")))


def test_what_nobody_is_known_to_have_changed_is_nobodys(house: Coordinated, ann: Client, ben: Client) -> None:
    house.kill_daemon()
    (house.root / "README.md").write_text("by hand\n")
    (house.root / "src/b.py").unlink()
    looked(house)
    assert locks(house) == {}
    (need,) = shown(house)
    assert "2 uncommitted files" in need["what"] and "README.md" in need["what"] and "src/b.py" in need["what"]
    assert not any(row["agent_name"] in need["what"] for row in house.ask("GET", "/sessions"))
    words = shlex.split(need["remedy"].partition("take them: ")[2])
    assert words[:4] == ["corral", "lock", "acquire", "--"] and len(words) == 6
    assert "README.md changed while" in told(house.edit("ben", "README.md")), "who is about to edit it is told"
    assert "changed while" not in told(house.edit("ben", "src/a.py"))
    house.run(*words[1:4], next(word for word in words if word.endswith("src/b.py")))
    assert shown(house) == [], "one is ben's now, one a person's"


def test_a_file_that_nobody_announced_is_shown_until_it_is_committed(house: Coordinated, ann: Client) -> None:
    house.kill_daemon()
    (house.root / "README.md").write_text("by hand\n")
    looked(house)
    assert shown(house)
    commit_all(house.root, "By hand", "README.md")
    eventually(lambda: shown(house) == [])


def test_what_was_there_before_is_not_looked_for(house: Coordinated, ann: Client) -> None:
    (house.root / "README.md").write_text("by hand, while the daemon ran\n")
    eventually(lambda: _alive_at(house) > (house.root / "README.md").stat().st_mtime)
    house.kill_daemon()
    looked(house)
    assert shown(house) == [] and locks(house) == {}


def _alive_at(house: Coordinated) -> float:
    file = house.root / ".corral" / "run" / "alive"
    return file.stat().st_mtime if file.exists() else 0.0


def write_now(path: Path) -> None:
    """Write a file at an instant that differs, to the millisecond, from what comes before and after it."""
    began = time.time()

    def written() -> bool:
        path.write_text(str(began))
        return path.stat().st_mtime > began + 0.002

    eventually(written)
    eventually(lambda: time.time() > path.stat().st_mtime + 0.002)


def test_a_command_is_evidence_only_where_no_other_ran(house: Coordinated, ann: Client, ben: Client) -> None:
    house.kill_daemon()
    make = ann.use("Bash", ends=False, command="make one")
    write_now(house.root / "one.txt")
    ann.ends(make)
    both = [who.use("Bash", ends=False, command="make both") for who in (ann, ben)]
    write_now(house.root / "both.txt")
    for who, use in zip((ann, ben), both, strict=True):
        who.ends(use)
    write_now(house.root / "none.txt")
    looked(house)
    assert locks(house) == {"one.txt": "ann"}
    assert "both.txt, none.txt" in shown(house)[0]["what"]


def test_a_command_that_went_on_meanwhile_is_looked_at_when_it_ends(house: Coordinated, ann: Client) -> None:
    call = {"tool_name": "Bash", "tool_input": {"command": "make slow"}, "tool_use_id": "ann-1"}
    use = ann.use("Bash", ends=False, command="make slow")
    ann.hook("PreToolUse", **call)
    house.kill_daemon()
    looked(house)
    (house.root / "slow.txt").write_text("1")
    ann.hook("PostToolUse", **call)
    ann.ends(use)
    eventually(lambda: locks(house) == {"slow.txt": "ann"})


def test_a_failed_edit_and_one_of_an_earlier_time_are_no_evidence(house: Coordinated, ann: Client) -> None:
    ann.use("Edit", file_path=str(house.root / "src/b.py"))
    ann.hook("UserPromptSubmit", prompt="go on")
    house.kill_daemon()
    ann.edits("src/a.py", "a = 2\n", failed=True)
    (house.root / "src/b.py").write_text("by hand\n")
    looked(house)
    assert locks(house) == {} and "src/a.py, src/b.py" in shown(house)[0]["what"]


def test_who_edited_what_another_holds_is_told_and_so_is_the_holder(
    house: Coordinated, ann: Client, ben: Client
) -> None:
    assert denied(house.edit("ben", "src/a.py")) is None
    house.kill_daemon()
    ann.edits("src/a.py", "a = 2\n")
    looked(house)
    assert locks(house) == {"src/a.py": "ben"}
    hers, his = told(ann.hook("UserPromptSubmit", prompt="x")), told(ben.hook("UserPromptSubmit", prompt="x"))
    assert "You changed src/a.py while Corral's daemon was away;" in hers and "holds it now" in hers
    assert "changed src/a.py, which you hold, while Corral's daemon was away" in his
    assert "src/a.py" not in told(ann.hook("UserPromptSubmit", prompt="y")), "once"


def test_what_changed_in_a_sessions_own_worktree_is_its(house: Coordinated, start: Callable[..., Client]) -> None:
    made = house.hook("WorktreeCreate", "ann", name="mine")["hookSpecificOutput"]["worktreePath"]
    ann = start("ann", Path(made))
    house.kill_daemon()
    (ann.cwd / "src/a.py").write_text("a = 2\n")
    looked(house)
    held = house.ask("GET", "/locks")
    assert [(row["file_path"], row["session_id"], row["checkout"]) for row in held] == [("src/a.py", "ann", made)]


def test_an_edit_before_the_first_word_of_its_session_is_found_with_that(house: Coordinated, ann: Client) -> None:
    house.kill_daemon()
    looked(house)
    use = ann.use("Edit", ends=False, file_path=str(house.root / "src/a.py"))
    (house.root / "src/a.py").write_text("a = 2\n")
    call = {"tool_name": "Edit", "tool_input": {"file_path": str(house.root / "src/a.py")}, "tool_use_id": use}
    ann.hook("PostToolUse", **call)
    ann.ends(use)
    ann.hook("PreToolUse", tool_name="Read", tool_use_id="ann-9")
    eventually(lambda: locks(house) == {"src/a.py": "ann"})


def test_without_a_live_session_nothing_is_looked_at(house: Coordinated) -> None:
    house.run("daemon", "start")
    house.kill_daemon()
    (house.root / "README.md").write_text("by hand\n")
    house.run("daemon", "start")
    house.hook("SessionStart", "ann", source="startup")
    assert shown(house) == [] and "changed while" not in told(house.edit("ann", "README.md"))
    assert psutil.pid_exists(house.daemon_pid() or 0)
