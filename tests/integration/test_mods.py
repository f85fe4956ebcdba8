"""What the daemon and the bridge make of a mod's questions: each call is answered once, and a mod that is missing is told of."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral.client import wire
from corral.config.paths import find_project, find_socket
from corral.coordination.sessions.mods import knows_mods
from tests.conftest import commit, commit_all
from tests.integration.bridging import Bridge
from tests.support.coordinated import Coordinated, eventually

MOD = {"source": "mod", "pid": os.getpid(), "client_version": "2.1.332"}


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    made = coordinate()
    made.run("daemon", "start")
    return made


@pytest.fixture
def bridge(house: Coordinated) -> Iterator[Bridge]:
    running = Bridge(house.root)
    yield running
    running.close()


def edit(path: Path, use: str) -> dict[str, Any]:
    return {"tool_name": "Edit", "tool_use_id": use, "tool_input": {"file_path": str(path)}}


def denies(answer: dict[str, Any]) -> bool:
    return bool(answer.get("hookSpecificOutput", {}).get("permissionDecision") == "deny")


def test_what_a_mod_was_told_to_let_pass_the_hook_of_the_same_call_does_not_ask_again(
    house: Coordinated, bridge: Bridge
) -> None:
    held = house.root / "held.txt"
    house.run("lock", "acquire", "held.txt")
    eventually(lambda: house.ask("POST", "/hooks/ModStart", {"session_id": "ann", "_hook": MOD}) == {})
    bridge.hook("UserPromptSubmit", session_id="ann", cwd=str(house.root))
    asked = house.root / "asked.txt"
    assert not denies(house.hook("PreToolUse", "ann", **edit(asked, "u-1"), _hook=MOD))
    assert denies(house.hook("PreToolUse", "ann", **edit(held, "u-2"), _hook=MOD))
    house.run("lock", "release", "asked.txt", CORRAL_SESSION_ID="ann")
    house.run("lock", "acquire", "asked.txt")  # proves who answers: asked, the daemon would refuse it now
    assert eventually(lambda: not denies(bridge.hook("PreToolUse", session_id="ann", **edit(asked, "u-1"))))
    # A refusal that got lost, and a call that a dead mod never asked about, are judged again;
    assert denies(bridge.hook("PreToolUse", session_id="ann", **edit(held, "u-2")))
    assert denies(bridge.hook("PreToolUse", session_id="ann", **edit(held, "u-3")))
    # so is one whose path another mod rewrote, and that of another session with the same id.
    for ask in (bridge.hook, lambda event, **fields: house.hook(event, fields.pop("session_id"), **fields)):
        assert denies(ask("PreToolUse", session_id="ann", **edit(held, "u-1")))
        assert denies(ask("PreToolUse", session_id="ben", **edit(asked, "u-1")))
        assert not denies(ask("PreToolUse", session_id="ann", **edit(asked, "u-1")))


def batch(path: Path, use: str, tool: str = "Edit") -> dict[str, Any]:
    """One call as the hook of a batch lists it, as text, with its unused places."""
    call = {"tool_name": tool, "tool_use_id": use, "tool_input": {"file_path": str(path), "command": ""}}
    return {"calls": "1", "tool_calls": [call, {"tool_name": "", "tool_use_id": "", "tool_input": {"file_path": ""}}]}


@pytest.mark.executed  # the daemon tells the bridges of the mod's client
def test_of_a_mods_edit_no_hook_asks_unless_something_waits_for_its_session(house: Coordinated, bridge: Bridge) -> None:
    """The bridge answers the hooks of its end and its batch, which the daemon would have answered with mail."""
    for who in ("ann", "ben"):
        house.hook("SessionStart", who, source="startup")
    bridge.hook("UserPromptSubmit", session_id="ann", cwd=str(house.root))
    mine, uses = house.root / "mine.txt", itertools.count(1)

    def letter(text: str) -> None:
        house.ask("POST", "/messages", {"session_id": "ben", "to": ["ann"], "subject": "s", "body": text})

    def is_left_to_the_mod() -> bool:
        use = f"u-{next(uses)}"
        assert house.hook("PreToolUse", "ann", **edit(mine, use), _hook=MOD) == {"is_quiet": True}
        letter("after it was let pass")
        assert house.hook("PostToolUse", "ann", **edit(mine, use), is_unread=True, _hook=MOD) == {}, "nobody reads it"
        assert bridge.hook("PostToolUse", session_id="ann", **edit(mine, use)) == {}
        return bridge.hook("PostToolBatch", session_id="ann", **batch(mine, use)) == {}

    eventually(is_left_to_the_mod)  # once the bridge listens; until then it asks, and brings the mail
    assert house.hook("PreToolUse", "ann", **edit(mine, "v-1"), _hook=MOD) == {}, (
        "mail waits: its mod waits for the end"
    )
    assert "after it was let pass" in str(house.hook("PostToolUse", "ann", **edit(mine, "v-1"), _hook=MOD))
    letter("while it read")
    notice = bridge.hook("PostToolBatch", session_id="ann", **batch(mine, "v-2", "Read"))
    assert "while it read" in str(notice), "nobody else asked about that call"


def test_a_command_whose_mod_died_meanwhile_has_ended_with_its_batch(house: Coordinated, bridge: Bridge) -> None:
    (house.root / "README.md").write_text("theirs\n")
    house.run("lock", "acquire", "README.md")
    bridge.hook("UserPromptSubmit", session_id="ann", cwd=str(house.root))
    call: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "u-1", "tool_input": {"command": "echo x > README.md"}}
    house.hook("PreToolUse", "ann", **call, _hook=MOD)
    (house.root / "README.md").write_text("x\n")
    assert eventually(lambda: bridge.hook("PostToolUse", session_id="ann", **call) == {}), "its mod was to tell"
    assert "README.md" in str(bridge.hook("PostToolBatch", session_id="ann", calls="1", tool_calls=[call]))


def test_a_path_is_checked_as_the_client_writes_it_and_one_without_an_end_is_refused(
    house: Coordinated, tmp_path: Path
) -> None:
    house.run("lock", "acquire", "held.txt")
    home = os.path.relpath(house.root, Path.home())
    (tmp_path / "outside" / "deep").mkdir(parents=True)
    (house.root / "link").symlink_to(tmp_path / "outside" / "deep")
    held = (
        f"{house.root}/{'./' * 3000}held.txt",
        f"~/{home}/held.txt",
        f"{house.root}/link/../held.txt",  # the client takes `..` by the names
        "/proc/self/cwd/held.txt",  # of the client's process, not of the daemon's
    )
    with subprocess.Popen(["sleep", "60"], cwd=house.root) as client:
        for path in (*held, f"{house.root}/{'x/' * 3000}free.txt"):
            call: dict[str, Any] = {"tool_name": "Write", "tool_use_id": "u-1", "tool_input": {"file_path": path}}
            answer = house.hook("PreToolUse", "ann", **call, _hook={**MOD, "pid": client.pid})
            assert denies(answer) and ("is held by" in str(answer)) is (path in held), path
        client.kill()


def test_a_file_that_a_tool_of_another_server_moves_away_counts_as_written(house: Coordinated) -> None:
    house.run("lock", "acquire", "held.txt")

    def move(source: str, destination: str) -> dict[str, Any]:
        paths = {"source": str(house.root / source), "destination": str(house.root / destination)}
        call: dict[str, Any] = {"tool_name": "mcp__files__move_file", "tool_use_id": f"u-{source}", "tool_input": paths}
        return house.hook("PreToolUse", "ann", **call, _hook=MOD)

    assert denies(move("held.txt", "new.txt")) and denies(move("mine.txt", "held.txt"))
    assert not denies(move("mine.txt", "new.txt"))
    assert {row["file_path"] for row in house.ask("GET", "/locks")} == {"held.txt", "mine.txt", "new.txt"}


def silent(house: Coordinated) -> list[str]:
    needs = house.ask("GET", "/status")["needs_you"]
    return [need["ids"]["session_id"] for need in needs if need["kind"] == "silent_mod"]


@pytest.mark.parametrize(("version", "warnings"), [("2.1.332", ["ben"]), ("2.1.197", []), ("", [])])
def test_hooks_without_the_mod_of_their_client_are_told_of(
    house: Coordinated, version: str, warnings: list[str]
) -> None:
    about = {"source": "bridge", "pid": os.getpid(), "client_version": version}
    house.hook("PreToolUse", "ben", **edit(house.root / "a.txt", "u-1"), _hook=about)
    assert silent(house) == warnings
    house.hook("PreToolUse", "ben", **edit(house.root / "a.txt", "u-2"), _hook=MOD)
    assert silent(house) == []
    for tool in ("mcp__plugin_corral_corral__fetch_inbox", "SendMessage", "ExitWorktree"):
        house.hook("PreToolUse", "ben", tool_name=tool, tool_use_id=tool, tool_input={}, _hook=about)
    assert silent(house) == [], "a mod leaves these to the hooks"
    for number in range(3, 6):  # it was there, and has died
        house.hook("PreToolUse", "ben", **edit(house.root / "a.txt", f"u-{number}"), _hook=about)
    assert silent(house) == warnings


def test_a_target_is_said_to_be_green_only_once_what_it_has_was_verified(
    coordinate: Callable[..., Coordinated],
) -> None:
    house = coordinate(verify=("test ! -e bad.txt",))

    def standing() -> str:
        screen = house.ask("POST", "/statusline/screen", {"session_id": "ann"})
        assert screen["band"].startswith(f"main is {screen['standing']}")
        return str(screen["standing"])

    assert standing() == "not verified"
    task = house.submit("Say hello", "echo hello > hello.txt")
    eventually(lambda: house.ask("GET", f"/tasks/{task}/detail")["outcome"] == "landed")
    assert standing() == "green"
    commit(house.root, {"bad.txt": "past the queue\n"})
    eventually(lambda: standing() == "red")


def test_versions_that_know_mods() -> None:
    assert [knows_mods(version) for version in ("2.1.287", "2.2.0", "2.1.286", "1.9.999", "2.1", "dev")] == [
        True, True, False, False, False, False,
    ]  # fmt: skip


def test_mail_that_a_mod_took_waits_until_its_model_was_told(house: Coordinated) -> None:
    house.hook("UserPromptSubmit", "ann", prompt="Work.", _hook=MOD)
    name = house.ask("GET", "/sessions")[0]["agent_name"]
    house.run("message", "send", name, "A question", "Which file?")

    def state() -> str:
        return str(house.ask("GET", "/messages", query={"session_id": "ann"})[0]["state"])

    taken = house.ask("POST", "/hooks/Mail/wait", {"session_id": "ann", "_hook": MOD})
    assert "| Which file?" in taken["text"] and state() == "queued"
    after = house.hook("PostToolBatch", "ann", tool_calls=[], _hook=MOD)
    assert "Which file?" not in str(after) and state() == "queued"  # nobody else brings it meanwhile
    again = house.ask("POST", "/hooks/Mail/wait", {"session_id": "ann", "_hook": MOD})
    assert again["messages"] == taken["messages"]  # a mod that waits again has not brought what it took
    receipt = {"session_id": "ann", "messages": again["messages"], "way": "turn"}
    assert house.ask("POST", "/hooks/Mail/told", receipt) == {}
    assert state() == "injected"


def test_mail_that_a_mod_took_is_not_lost_with_the_daemon(house: Coordinated) -> None:
    house.hook("UserPromptSubmit", "ann", prompt="Work.", _hook=MOD)
    name = house.ask("GET", "/sessions")[0]["agent_name"]
    house.run("message", "send", name, "A question", "Which file?")
    house.ask("POST", "/hooks/Mail/wait", {"session_id": "ann", "_hook": MOD})
    os.kill(house.daemon_pid() or 0, signal.SIGKILL)
    assert "Which file?" in str(house.hook("PostToolBatch", "ann", tool_calls=[], _hook={**MOD, "source": "bridge"}))


def test_what_a_skill_s_command_changed_is_attributed_with_the_next_event(house: Coordinated) -> None:
    file = house.root / "kept.txt"
    file.write_text("theirs\n")
    commit_all(house.root, "Kept", "kept.txt")
    house.run("lock", "acquire", "kept.txt")
    run = {"command": "echo x > kept.txt"}
    call: dict[str, Any] = {"tool_name": "Bash", "tool_use_id": "toolu_5:preamble-0", "tool_input": run}
    house.hook("PreSkillShellCommand", "ann", **call, _hook=MOD)
    file.write_text("x\n")
    answer = house.hook("UserPromptSubmit", "ann", prompt="Go on.", _hook=MOD)
    assert "kept.txt" in str(answer)


def test_native_messages_are_recorded(house: Coordinated) -> None:
    call: dict[str, Any] = {
        "tool_name": "SendMessage",
        "tool_use_id": "u-1",
        "tool_input": {"to": "ben", "summary": "hi"},
    }
    house.hook("PreToolUse", "ann", **call, _hook=MOD)
    house.hook("PostToolUse", "ann", **call, _hook=MOD)
    log = house.root / ".corral" / "logs" / "corral.log"
    eventually(lambda: '"message_native"' in log.read_text() and '"to": "ben"' in log.read_text())


def test_what_another_session_changed_is_not_written_over_unseen(house: Coordinated) -> None:
    file = house.root / "both.txt"

    def write(session: str, content: str, use: str, tool: str = "Write") -> dict[str, Any]:
        call: dict[str, Any] = {"tool_name": tool, "tool_use_id": use, "tool_input": {"file_path": str(file)}}
        answer = house.hook("PreToolUse", session, **call, _hook=MOD)
        if not denies(answer):
            file.write_text(content)
            house.hook("PostToolUse", session, **call, _hook=MOD)
        return answer

    file.write_text("one\n")
    read = {"tool_name": "Read", "tool_use_id": "r-1", "tool_input": {"file_path": str(file)}}
    house.hook("PostToolBatch", "ann", tool_calls=[read], _hook=MOD)
    assert not denies(write("ben", "one\ntwo\n", "b-1"))
    house.hook("SessionEnd", "ben", reason="other", _hook=MOD)  # its lock goes, what it wrote stays
    refused = write("ann", "mine\n", "a-1")
    assert denies(refused) and "+two" in str(refused) and file.read_text() == "one\ntwo\n"
    assert not denies(write("ann", "mine\n", "a-2"))  # told once, it knows
    assert not denies(write("ann", "mine again\n", "a-3"))
    assert file.read_text() == "mine again\n"


def test_who_edits_what_another_session_changed_unseen_is_told_of_it_before_it_writes_all_of_it(
    house: Coordinated,
) -> None:
    file = house.root / "both.txt"

    def change(session: str, content: str, use: str, tool: str) -> str:
        call: dict[str, Any] = {"tool_name": tool, "tool_use_id": use, "tool_input": {"file_path": str(file)}}
        asked = house.hook("PreToolUse", session, **call, _hook=MOD)
        assert not denies(asked)
        file.write_text(content)
        return str(asked) + str(house.hook("PostToolUse", session, **call, _hook=MOD))

    file.write_text("one\n")
    read = {"tool_name": "Read", "tool_use_id": "r-1", "tool_input": {"file_path": str(file)}}
    house.hook("PostToolBatch", "ann", tool_calls=[read], _hook=MOD)
    change("ben", "two\n", "b-1", "Edit")
    house.hook("SessionEnd", "ben", reason="other", _hook=MOD)
    told = change("ann", "two\nmine\n", "a-1", "Edit")
    assert "was not as you last saw it" in told and "+two" in told
    assert "is_quiet" not in told, "the mod waits for it, so that the model reads it before its next call"
    later = change("ann", "two\nmine\n\n", "a-2", "Edit") + change("ann", "", "a-3", "Write")
    assert "not as you last saw it" not in later and later.count("is_quiet") == 2


@pytest.mark.parametrize(
    ("tool", "before_its_end"), [("Write", ""), ("Bash", ""), ("Write", "restart"), ("Write", "untold")]
)
def test_what_another_session_left_uncommitted_is_not_written_over_by_one_that_never_read_it(
    house: Coordinated, tool: str, before_its_end: str
) -> None:
    file = house.root / "theirs.txt"

    def call(event: str, session: str, use: str, tool: str = "Write") -> dict[str, Any]:
        tool_input = {"command": "make it"} if tool == "Bash" else {"file_path": str(file)}
        return house.hook(event, session, tool_name=tool, tool_use_id=use, tool_input=tool_input, _hook=MOD)

    call("PreToolUse", "ben", "b-1", tool)
    file.write_text("ben's\n")
    if before_its_end == "untold":  # its client was killed between the two
        house.ask("POST", "/sessions/ben/end")
    else:
        call("PostToolUse", "ben", "b-1", tool)
        if before_its_end == "restart":
            house.kill_daemon()
            house.run("daemon", "start")
        house.hook("SessionEnd", "ben", reason="other", _hook=MOD)
        assert not denies(call("PreToolUse", "dan", "d-1")), "it has no bridge that tells what it reads"
        house.hook("SessionEnd", "dan", reason="other", _hook=MOD)
    with wire.dial(str(find_socket(find_project(house.root))), 10) as bridge:
        opened = (
            f"GET /api/v1/bridge?pid={os.getpid()}&client={os.getpid()}&session=ann HTTP/1.1\r\nHost: localhost\r\n\r\n"
        )
        bridge.sendall(opened.encode())
        assert bridge.recv(1)
        refused = call("PreToolUse", "ann", "a-1")
    assert denies(refused) and "you have not read it" in str(refused) and "+ben's" in str(refused)
    assert not denies(call("PreToolUse", "ann", "a-2")), "told once, it knows"
    house.hook("SessionEnd", "ann", reason="other", _hook=MOD)
    commit_all(house.root, "Theirs", "theirs.txt")
    assert not denies(call("PreToolUse", "cay", "c-1")), "git has it"


def test_an_attempt_changes_nothing_about_who_wrote_a_file_last(house: Coordinated) -> None:
    file = house.root / "both.txt"

    def tell(event: str, session: str, use: str, tool: str = "Write") -> dict[str, Any]:
        call: dict[str, Any] = {"tool_name": tool, "tool_use_id": use, "tool_input": {"file_path": str(file)}}
        return house.hook(event, session, **call, _hook=MOD)

    file.write_text("one\n")
    read = {"tool_name": "Read", "tool_use_id": "r-1", "tool_input": {"file_path": str(file)}}
    house.hook("PostToolBatch", "ann", tool_calls=[read], _hook=MOD)
    tell("PreToolUse", "ben", "b-1")
    file.write_text("two\n")
    tell("PostToolUse", "ben", "b-1")
    house.hook("SessionEnd", "ben", reason="other", _hook=MOD)
    tell("PreToolUse", "ann", "a-1", "Edit")
    tell("PostToolUseFailure", "ann", "a-1", "Edit")
    refused = tell("PreToolUse", "ann", "a-2")
    assert denies(refused) and "+two" in str(refused)


@pytest.mark.parametrize(("setting", "is_told"), [("warn", True), ("off", False)])
def test_blind_writes_may_only_be_told_of(house: Coordinated, setting: str, is_told: bool) -> None:
    house.configure(f"locks: {{blind_writes: {setting}}}\n")
    eventually(lambda: house.ask("GET", "/config")["settings"]["locks"]["blind_writes"] == setting)
    file = house.root / "both.txt"
    for session, use in (("ann", "a-1"), ("ben", "b-1")):
        call: dict[str, Any] = {"tool_name": "Write", "tool_use_id": use, "tool_input": {"file_path": str(file)}}
        house.hook("PreToolUse", session, **call, _hook=MOD)
        file.write_text(f"{session}\n")
        house.hook("PostToolUse", session, **call, _hook=MOD)
        house.run("lock", "release", "both.txt", check=False, CORRAL_SESSION_ID=session)
        house.hook("SessionEnd", session, reason="other", _hook=MOD) if session == "ben" else None
    call = {"tool_name": "Write", "tool_use_id": "a-2", "tool_input": {"file_path": str(file)}}
    answer = house.hook("PreToolUse", "ann", **call, _hook=MOD)
    assert not denies(answer) and ("+ben" in str(answer)) is is_told


def test_what_is_said_about_another_mods_program_waits_for_the_models_own_call(house: Coordinated) -> None:
    house.hook("PreToolUse", "ben", **edit(house.root / "README.md", "u-1"))
    (house.root / "README.md").write_text("ben's\n")
    house.hook("PostToolUse", "ben", **edit(house.root / "README.md", "u-1"))
    program: dict[str, Any] = {
        "tool_name": "Bash",
        "tool_use_id": "mod_1",
        "tool_input": {"command": "sh -c 'echo hostile > README.md'"},
    }
    assert house.hook("PreToolUse", "ann", **program, _hook=MOD) == {}
    (house.root / "README.md").write_text("hostile\n")
    assert house.hook("PostToolUse", "ann", **program, _hook=MOD) == {}, "nobody reads it"
    notice = str(house.hook("PostToolUse", "ann", **edit(house.root / "mine.txt", "u-2"), _hook=MOD))
    assert "Your shell command changed README.md" in notice and "git -C" in notice
