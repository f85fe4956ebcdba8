"""hooks/hook.py: an event arrives whole, and no fault breaks a session."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.config.paths import find_project, find_socket, socket_path
from tests.bundle.listener import Body, coordinate, listening
from tests.conftest import git
from tests.integration.hooking import COMMAND, fire, logged, silent
from tests.support.files import executable


@pytest.mark.parametrize("event", ["SessionStart", "SessionEnd", "PreToolUse", "Stop", "AnEventOfTomorrow"])
def test_an_event_arrives_whole_and_the_answer_is_printed(repo: Path, event: str) -> None:
    reply: Body = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": 'Grüße, "Bob"\n'}}
    with listening(coordinate(repo), lambda *_: reply) as heard:
        done = fire(repo, event, tool_input={"command": 'echo "}" \\ ü'})
    assert json.loads(done.stdout) == reply
    assert heard.events == [
        (
            event,
            {
                "session_id": "s-1",
                "cwd": os.fspath(repo),
                "hook_event_name": event,
                "tool_input": {"command": 'echo "}" \\ ü'},
                "_hook": {"pid": os.getpid(), "entrypoint": "cli", "source": "command"},
            },
        )
    ]
    assert (done.returncode, done.stderr, logged(repo)) == (0, b"", [])


def test_an_empty_answer_prints_nothing(repo: Path) -> None:
    with listening(coordinate(repo)) as heard:
        assert silent(fire(repo, "Stop"))
    assert heard.named() == ["Stop"]


def test_a_branch_without_settings_stays_guarded(repo: Path) -> None:
    with listening(coordinate(repo)) as heard:
        (repo / ".corral" / "config.yaml").rename(repo / ".corral" / "corral.db")
        assert silent(fire(repo, "Stop"))
        (repo / ".corral" / "corral.db").unlink()
        assert silent(fire(repo, "Stop"))
    assert heard.named() == ["Stop"]


def test_every_place_of_a_repository_finds_the_same_daemon(repo: Path, tmp_path: Path) -> None:
    with listening(coordinate(repo)) as heard:
        linked = tmp_path / "a linked wörktree"
        git(repo, "worktree", "add", "-q", "-b", "linked", os.fspath(linked))
        deep = linked / "x" / "y"
        deep.mkdir(parents=True)
        for place in (repo, repo / "src", linked, deep):
            assert silent(fire(place, "Stop"))
    assert [body["cwd"] for _, body in heard.events] == [os.fspath(p) for p in (repo, repo / "src", linked, deep)]


def test_the_worktrees_of_a_bare_repository_find_the_daemon(repo: Path, tmp_path: Path) -> None:
    bare, work = tmp_path / "bare.git", tmp_path / "work"
    git(repo, "clone", "-q", "--bare", ".", os.fspath(bare))
    git(bare, "worktree", "add", "-q", os.fspath(work), "main")
    with listening(coordinate(bare)) as heard:
        assert silent(fire(work, "Stop"))
    assert heard.named() == ["Stop"]


def test_a_path_too_long_for_a_socket_is_named_by_daemon_json(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    repo = make_repo("d" * 120)
    short = tmp_path / coordinate(repo).name
    (repo / ".corral" / "run" / "daemon.json").write_text(json.dumps({"pid": 1, "socket": os.fspath(short)}))
    with listening(short) as heard:
        assert silent(fire(repo, "Stop"))
    assert heard.named() == ["Stop"]


@pytest.mark.req("HOOK-3")
def test_a_daemon_json_that_came_with_a_copy_leads_to_no_other_projects_daemon(
    make_repo: Callable[..., Path], tmp_path: Path
) -> None:
    original, copy = make_repo("d" * 120), tmp_path / ("e" * 120)
    sock = coordinate(original)
    shutil.copytree(original, copy)
    reply = {"decision": "block", "reason": "from another project"}
    with listening(sock, lambda *_: reply) as heard:
        assert json.loads(fire(original, "Stop").stdout) == reply
        assert silent(fire(copy, "Stop"))
        assert find_socket(find_project(original)) == sock
        assert find_socket(find_project(copy)) == socket_path(find_project(copy)) != sock
    assert heard.named() == ["Stop"]


# -- a fault never breaks a session ---------------------------------------------------------------------------------


def stale(path: Path) -> None:
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(os.fspath(path))
    dead.close()


@pytest.mark.req("HOOK-3")
@pytest.mark.parametrize(
    ("world", "reason"),
    [
        (lambda path: None, "FileNotFoundError"),
        (stale, "ConnectionRefusedError"),
        (lambda path: path.write_text("not a socket"), "ConnectionRefusedError"),
        (lambda path: path.symlink_to(path), "OSError"),
    ],
    ids=["no daemon", "stale socket", "a file", "a symlink loop"],
)
def test_without_a_daemon_the_session_goes_on_and_one_line_says_why(
    repo: Path, world: Callable[[Path], None], reason: str
) -> None:
    world(coordinate(repo))
    assert silent(fire(repo, "PreToolUse"))
    (line,) = logged(repo)
    assert "PreToolUse" in line
    assert reason in line


@pytest.mark.req("HOOK")
@pytest.mark.parametrize(
    "reply",
    [
        None,
        b"\x00\xff garbage",
        b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello",
        b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n" + b'{"decision": "blo',
        b"HTTP/1.1 500 No\r\ncontent-length: 12\r\n\r\n" + b'{"error":{}}',
    ],
    ids=["hung up", "garbage", "no JSON", "cut off", "an error"],
)
def test_an_answer_that_cannot_be_used_is_no_answer(repo: Path, reply: bytes | None) -> None:
    with listening(coordinate(repo), lambda *_: reply):
        assert silent(fire(repo, "Stop"))
    assert len(logged(repo)) == 1


@pytest.mark.req("HOOK")
def test_a_daemon_that_hangs_holds_nobody_up(repo: Path) -> None:
    path = coordinate(repo)
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(os.fspath(path))
        deaf.listen()
        began = time.monotonic()
        assert silent(fire(repo, "SessionEnd"))
        assert time.monotonic() - began < 1.5 + 8  # the client allows 1.5 s; the rest is a busy machine's
    assert "TimeoutError" in logged(repo)[0]


@pytest.mark.req("HOOK")
@pytest.mark.parametrize("stdin", [b"", b"null", b"[]", b"{}", b"{not json", b"\xff\xfe"])
def test_an_event_that_is_no_object_is_not_sent(repo: Path, stdin: bytes) -> None:
    with listening(coordinate(repo)) as heard:
        assert silent(fire(repo, "Stop", stdin=stdin))
    assert heard.connections == 0  # not its events: what is no JSON would not be among them
    assert len(logged(repo)) == 1


@pytest.mark.req("HOOK")
def test_a_log_that_cannot_be_written_changes_nothing(repo: Path) -> None:
    coordinate(repo)
    (repo / ".corral" / "logs").write_text("in the way")
    assert silent(fire(repo, "Stop"))


@pytest.mark.req("X18")
@pytest.mark.req("HOOK")
def test_a_log_that_is_a_link_is_not_written_through(repo: Path, tmp_path: Path) -> None:
    coordinate(repo)
    (repo / ".corral" / "logs").mkdir(exist_ok=True)
    (repo / ".corral" / "logs" / "hook.log").symlink_to(tmp_path / "mine")
    assert silent(fire(repo, "Stop"))
    assert not (tmp_path / "mine").exists()


def test_a_session_whose_folder_is_gone_is_asked_about_where_it_began(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"

    def from_there(event: str) -> subprocess.CompletedProcess[bytes]:
        gone.mkdir()
        argv = ["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", *COMMAND, event]
        return subprocess.run(argv, cwd=gone, input=b'{"session_id": "s"}', capture_output=True, check=False)

    assert silent(from_there("PreToolUse"))
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", os.fspath(repo))
    denial: Body = {"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny"}}
    with listening(coordinate(repo), lambda *_: denial):
        assert json.loads(from_there("PreToolUse").stdout) == denial
        assert silent(from_there("Stop"))


def test_a_session_in_a_submodule_is_told_that_only_the_repository_around_it_is_coordinated(
    repo: Path, make_repo: Callable[..., Path]
) -> None:
    library = make_repo("library")
    git(repo, "-c", "protocol.file.allow=always", "submodule", "add", "-q", os.fspath(library), "lib")
    assert silent(fire(repo / "lib", "SessionStart", source="startup"))
    coordinate(repo)
    answer = json.loads(fire(repo / "lib", "SessionStart", source="startup").stdout)
    assert f"'{repo / 'lib'}' is a submodule" in answer["systemMessage"] and f"'{repo}'" in answer["systemMessage"]
    assert answer["hookSpecificOutput"]["additionalContext"] == answer["systemMessage"]
    assert silent(fire(repo / "lib", "SessionStart", source="clear"))


def test_a_repository_without_corral_is_left_alone(repo: Path) -> None:
    before = sorted(p for p in repo.rglob("*"))
    for event in ("SessionStart", "PreToolUse", "SessionEnd"):
        done = fire(repo, event, "--deny-when-down")
        assert silent(done)
        assert done.stderr == b""
    assert sorted(p for p in repo.rglob("*")) == before


def test_outside_of_any_repository_nothing_happens(tmp_path: Path) -> None:
    assert silent(fire(tmp_path, "SessionStart"))
    assert list(tmp_path.iterdir()) == []


# -- strict mode ----------------------------------------------------------------------------------------------------


def test_strict_mode_denies_an_edit_without_a_daemon(repo: Path) -> None:
    coordinate(repo)
    decision = json.loads(fire(repo, "PreToolUse", "--deny-when-down").stdout)["hookSpecificOutput"]
    assert decision["hookEventName"] == "PreToolUse"
    assert decision["permissionDecision"] == "deny"
    assert "corral daemon start" in decision["permissionDecisionReason"]
    assert silent(fire(repo, "Stop", "--deny-when-down"))


def test_strict_mode_leaves_the_decision_to_a_daemon_that_answers(repo: Path) -> None:
    with listening(coordinate(repo)):
        assert silent(fire(repo, "PreToolUse", "--deny-when-down"))


# -- the daemon is started with a session ---------------------------------------------------------------------------

STARTER = """#!{python}
import os, socket, sys, time
open({note!r}, "a").write(" ".join(sys.argv[1:]) + "\\n")
if not {answers}:
    sys.exit(1)
time.sleep(0.2)
listener = socket.socket(socket.AF_UNIX)
listener.bind({path!r})
listener.listen()
listener.settimeout(20)
link, _ = listener.accept()
link.recv(65536)
said = b'{{"sid": %d, "stdin": "%s"}}' % (os.getsid(0), os.readlink("/proc/self/fd/0").encode())
link.sendall(b"HTTP/1.1 {status} OK\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(said) + said)
sys.exit({status} != 200)
"""


def starter(file: Path, sock: Path, *, answers: bool = True, status: int = 200) -> Path:
    """A ``corral`` that notes how it was called, and answers one event."""
    note = file.parent / "called"
    file.parent.mkdir(exist_ok=True)
    values = {"note": os.fspath(note), "path": os.fspath(sock), "answers": answers, "status": status}
    executable(file, STARTER.format(python=sys.executable, **values))
    return note


def test_a_session_starts_the_daemon_detached(repo: Path, tmp_path: Path) -> None:
    note = starter(tmp_path / "bin" / "corral", coordinate(repo))
    answer = json.loads(fire(repo, "SessionStart", path=os.fspath(tmp_path / "bin")).stdout)
    assert answer["sid"] != os.getsid(0)
    assert answer["stdin"] == os.devnull
    assert note.read_text().splitlines() == ["daemon start --detach"]


@pytest.mark.req("HOOK-3")
def test_a_program_that_lies_in_the_repository_is_never_run(repo: Path) -> None:
    sock = coordinate(repo)
    notes = [starter(repo / place / "corral", sock) for place in (".corral/run/bin", "bin")]
    answer = json.loads(fire(repo, "SessionStart", path="/nonexistent").stdout)
    assert "does not guard this session" in answer["systemMessage"]
    assert [note for note in notes if note.exists()] == []
    (line,) = logged(repo)
    assert "SessionStart: FileNotFoundError" in line


@pytest.mark.req("HOOK-3")
def test_a_daemon_that_does_not_come_up_delays_a_session_by_five_seconds_at_most(repo: Path, tmp_path: Path) -> None:
    note = starter(tmp_path / "bin" / "corral", coordinate(repo), answers=False)
    began = time.monotonic()
    answer = json.loads(fire(repo, "SessionStart", path=os.fspath(tmp_path / "bin")).stdout)
    assert time.monotonic() - began < 5 + 8
    assert "`corral daemon start`" in answer["systemMessage"] == answer["hookSpecificOutput"]["additionalContext"]
    assert note.read_text().splitlines() == ["daemon start --detach"]
    (line,) = logged(repo)
    assert "SessionStart: FileNotFoundError" in line


def test_only_the_start_of_a_session_starts_a_daemon(repo: Path, tmp_path: Path) -> None:
    note = starter(tmp_path / "bin" / "corral", coordinate(repo))
    for event in ("PreToolUse", "Stop", "SessionEnd"):
        assert silent(fire(repo, event, path=os.fspath(tmp_path / "bin")))
    assert not note.exists()


def test_a_daemon_that_comes_up_and_cannot_answer_leaves_an_edit_to_the_last_look(repo: Path, tmp_path: Path) -> None:
    note = starter(tmp_path / "bin" / "corral", coordinate(repo), status=503)
    edit: dict[str, Any] = {
        "tool_name": "Write",
        "tool_input": {"file_path": os.fspath(repo / "a.py")},
        "tool_use_id": "u",
    }
    done = fire(repo, "PreToolUse", path=os.fspath(tmp_path / "bin"), **edit)
    assert note.exists() and "a.py is held by nobody" in json.loads(done.stdout)["systemMessage"], done.stderr


@pytest.mark.parametrize(("tool", "passes"), [("Write", False), ("Bash", True)])
def test_where_even_the_last_look_fails_no_edit_passes(repo: Path, tool: str, passes: bool) -> None:
    coordinate(repo)
    done = fire(repo, "PreToolUse", stdin=b'{"tool_name": "%s", "tool_input": }' % tool.encode())
    assert done.returncode == 0 and (done.stdout == b"") is passes
    assert passes or json.loads(done.stdout)["hookSpecificOutput"]["permissionDecision"] == "deny"


def test_a_call_from_outside_is_asked_about_where_its_session_began(
    repo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_PROJECT_DIR", os.fspath(repo))
    with listening(coordinate(repo)) as heard:
        for event in ("PreToolUse", "PostToolUse", "Stop"):
            fire(tmp_path, event)
    assert heard.named() == ["PreToolUse", "PostToolUse"]


# -- what it costs --------------------------------------------------------------------------------------------------


def test_nothing_slow_is_imported_on_the_way_of_an_event(repo: Path, request: pytest.FixtureRequest) -> None:
    place = Path(tempfile.mkdtemp(prefix="corral-hook-", dir="/tmp"))  # a long path costs more: its socket is looked up
    request.addfinalizer(lambda: shutil.rmtree(place))
    repo = Path(shutil.move(repo, place / "repo"))
    with listening(coordinate(repo)):
        done = subprocess.run(
            [COMMAND[0], "-X", "importtime", *COMMAND[1:], "PreToolUse"],
            cwd=repo,
            input=b'{"session_id": "s"}',
            capture_output=True,
            check=True,
        )
    imported = {line.rsplit(b"|", 1)[-1].strip().decode() for line in done.stderr.splitlines()}
    assert "_socket" in imported
    assert not imported & {"json", "re", "socket", "subprocess", "pathlib", "typing", "enum"}
