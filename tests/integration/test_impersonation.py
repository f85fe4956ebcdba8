"""Two real clients and what they run: neither passes for the other, whatever it says of itself; nor does a program over TCP."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import psutil
import pytest

from corral.coordination.sessions.actor import person
from tests.integration.bridging import Bridge
from tests.integration.hooking import COMMAND
from tests.integration.mcp.client import DAEMON
from tests.integration.mcp.test_identities import Plain, listening
from tests.integration.running import ON_LINUX
from tests.support.coordinated import Coordinated, denied, eventually
from tests.support.programs import requires

ASK = """
import json, os, sys, time
from pathlib import Path
from corral.client import wire
from corral.config.paths import find_project, find_socket
root, headers, asked = sys.argv[1], json.loads(sys.argv[2].replace("$pid", str(os.getpid()))), json.loads(sys.argv[3])
headers["Accept"] = "application/json, text/event-stream"
answers = []
for method, path, body in asked:
    with wire.dial(str(find_socket(find_project(Path(root)))), 30) as link:
        content = json.dumps(body).replace('"$pid"', str(os.getpid())).encode() if body is not None else None
        sent = wire.request(method, path.replace("$pid", str(os.getpid())), content, headers)
        answer = wire.exchange(link, sent, time.monotonic() + 30)
        answers.append([answer.status, json.loads(answer.body)])
print(json.dumps(answers))
"""
Asked = tuple[str, str, Any]


class Client:
    """A client of a session: a real process, below which its commands run as an agent's shell runs them."""

    def __init__(self, house: Coordinated, session_id: str, shell: subprocess.Popen[str]) -> None:
        self._house, self.session_id, self._shell, self.pid = house, session_id, shell, shell.pid

    def ask(self, *asked: Asked, headers: dict[str, str] | None = None, env: str | None = None) -> list[Any]:
        """Send requests by a process of this client; returns status and body of each.

        Args:
            env: Its whole environment, before the command; by default, what a client sets for its session.
        """
        env = f"env CLAUDECODE=1 CLAUDE_CODE_SESSION_ID={self.session_id}" if env is None else env
        parts = (sys.executable, "-c", ASK, self._house.root, json.dumps(headers or {}), json.dumps(asked))
        command = " ".join(shlex.quote(str(part)) for part in parts)
        assert self._shell.stdin and self._shell.stdout
        self._shell.stdin.write(f"{env} PYTHONPATH={shlex.quote(str(DAEMON))} {command}\n")
        self._shell.stdin.flush()
        answers = json.loads(self._shell.stdout.readline())
        assert isinstance(answers, list)
        return answers


@contextmanager
def client(house: Coordinated, session_id: str) -> Iterator[Client]:
    """A living client whose session has arrived as its hooks tell it."""
    shell = subprocess.Popen(["sh"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=house.root)
    with shell:
        house.hook("SessionStart", session_id, _hook={"pid": shell.pid, "source": "command"})
        yield Client(house, session_id, shell)
        assert shell.stdin
        shell.stdin.close()


def call(tool: str, **arguments: Any) -> Asked:
    params = {"name": tool, "arguments": arguments}
    return "POST", "/mcp?profile=full", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def told(answer: tuple[int, Any]) -> Any:
    """What a tool answered."""
    return json.loads("".join(part["text"] for part in answer[1]["result"]["content"]))


@pytest.fixture
def house(house: Coordinated) -> Coordinated:
    house.run("daemon", "start")
    return house


@pytest.mark.req("X4")
def test_no_process_of_one_client_acts_for_the_session_of_another(house: Coordinated) -> None:
    with ExitStack() as stack:
        ann, ben = (stack.enter_context(client(house, name)) for name in ("s-ann", "s-ben"))
        by_bridge = {"X-Corral-Bridge": "$pid", "X-Corral-Session": "s-ann", "X-Corral-Client": str(ann.pid)}
        for caller, path in ((ann, "src/a.py"), (ben, "src/b.py")):
            ((status, answer),) = caller.ask(("POST", "/api/v1/locks/acquire", {"paths": [path]}))
            assert (status, answer["locks"][0]["session_id"]) == (201, caller.session_id)
        house.ask("POST", "/tasks", {"title": "Look", "task_type": "review", "description": "x"})
        task = told(ann.ask(call("get_work"), headers=by_bridge)[0])["task_id"]
        assert house.ask("GET", f"/tasks/{task}")["status"] == "running"
        house.ask("POST", "/messages", {"to": ["s-ann"], "subject": "s", "body": "for Ann alone"})

        over = {"success": True, "session_id": "s-ann"}
        rest: list[Asked] = [
            ("POST", "/api/v1/locks/release", {"paths": ["src/a.py"], "session_id": "s-ann"}),
            ("GET", "/api/v1/messages?session_id=s-ann", None),
            ("POST", f"/api/v1/tasks/{task}/complete", over),
            ("POST", "/api/v1/sessions/s-ann/end", {}),
            ("POST", "/api/v1/hooks/UserPromptSubmit", {"session_id": "s-ann", "cwd": str(house.root)}),
            ("POST", "/api/v1/hooks/SessionEnd", {"session_id": "s-ann", "cwd": str(house.root)}),
            ("POST", "/api/v1/hooks/SessionStart", {"session_id": "s-eve", "_hook": {"pid": ann.pid}}),
            ("POST", "/api/v1/hooks/Mail/told", {"session_id": "s-ann", "messages": [1], "way": "turn"}),
            ("GET", f"/api/v1/bridge?pid=$pid&session=s-ann&client={ann.pid}", None),
            ("GET", "/api/v1/messages?agent=s-ann", None),
        ]
        silent: list[Asked] = [
            ("POST", "/api/v1/locks/release", {"paths": ["src/a.py"]}),
            ("POST", f"/api/v1/tasks/{task}/complete", {"success": True}),
            (
                "POST",
                "/api/v1/locks/check-commit",
                {"checkout": str(house.root), "paths": ["README.md"], "session_id": "s-ann"},
            ),
        ]
        house.edit("s-ann", "README.md")
        for env in ("env CORRAL_SESSION_ID=s-ann", "env CLAUDE_CODE_SESSION_ID=s-ann", "env -i"):
            answers = ben.ask(*rest, *silent, env=env)
            assert [status for status, _ in answers[: len(rest)]] == [403] * len(rest), env
            (_, released), (completed, _), (_, checked) = answers[len(rest) :]
            assert (released["released"], completed) == ([], 409), "who names nobody is taken for what they are"
            assert [row["session_id"] for row in checked["held"]] == ["s-ann"], (
                "a guard that is asked in Ann's name guards"
            )

        theirs = ("s-ann", "s-eve")
        for headers in (
            by_bridge,
            {"X-Corral-Bridge": "$pid", "X-Corral-Connection": "s-ann"},
            {"X-Corral-Bridge": str(ann.pid), "X-Corral-Session": "s-ann"},
        ):
            released, mail, completed, beat = map(
                told,
                ben.ask(
                    call("release_lock", file_path="src/a.py"), call("fetch_inbox", include_bodies=True),
                    call("complete_work", task_id=task, success=True), call("heartbeat"), headers=headers,
                ),
            )  # fmt: skip
            assert (released["success"], completed["success"]) == (False, False), headers
            assert "for Ann alone" not in json.dumps(mail) and beat["session_id"] not in theirs, headers

        held = {row["file_path"]: row["session_id"] for row in house.json("lock", "list")}
        assert held == {"src/a.py": "s-ann", "src/b.py": "s-ben", "README.md": "s-ann"}
        assert house.ask("GET", f"/tasks/{task}")["status"] == "running"
        assert house.ask("GET", "/messages?session_id=s-ann&unread_only=true"), "nobody was told it"
        refused = [row for row in house.ask("GET", "/audit?limit=1000") if row["action"] == "identity.refused"]
        assert {row["session_id"] for row in refused} == {"s-ben"}

        mine = ann.ask(
            call("release_lock", file_path="src/a.py"), call("fetch_inbox", include_bodies=True), headers=by_bridge
        )
        assert told(mine[0])["success"] and "for Ann alone" in json.dumps(told(mine[1]))
        ((status, answer),) = ann.ask(rest[2], env="env -i")
        assert (status, answer["status"]) == (200, "completed"), "its client runs it, whatever the environment says"


@pytest.mark.req("X4")
def test_a_second_client_of_a_session_is_that_session_too(house: Coordinated) -> None:
    """`claude --continue` in another terminal, while the first is open."""
    with ExitStack() as stack:
        for _ in range(2):
            own_client = stack.enter_context(client(house, "s-ann"))
            for turn in range(2):
                about = {"session_id": "s-ann", "cwd": str(house.root), "_hook": {"pid": own_client.pid}}
                event: Asked = ("POST", "/api/v1/hooks/UserPromptSubmit", about)
                lock: Asked = ("POST", "/api/v1/locks/acquire", {"paths": [f"src/{turn}.py"]})
                (heard, _), (locked, answer) = own_client.ask(event, lock)
                assert (heard, locked, answer["locks"][0]["session_id"]) == (200, 201, "s-ann")


def test_a_session_that_two_clients_have_open_ends_with_the_last_of_them(house: Coordinated) -> None:
    bridge = Bridge(house.root)
    first = psutil.Process(bridge.process.pid).ppid()  # the bridge of this client
    call: dict[str, Any] = {"tool_name": "Edit", "tool_input": {"file_path": str(house.root / "held.txt")}}
    about: dict[str, Any] = {"session_id": "s-ann", "cwd": str(house.root)}
    eventually(lambda: (bridge.hook("UserPromptSubmit", **about), house.ask("GET", "/sessions"))[1])
    bridge.hook("PreToolUse", **about, **call, tool_use_id="u-1")

    def is_held() -> bool:
        return denied(house.hook("PreToolUse", "s-ben", **call, tool_use_id="u-2")) is not None

    for says_goodbye in (True, False):
        with client(house, "s-ann") as second:
            greeted = house.hook(
                "SessionStart", "s-ann", source="resume", _hook={"pid": second.pid, "source": "command"}
            )
            assert f"open in another client too (process {first})" in greeted["systemMessage"]
            if says_goodbye:
                house.hook("SessionEnd", "s-ann", reason="other", _hook={"pid": second.pid, "source": "command"})
        eventually(lambda: {row["session_id"]: row["pid"] for row in house.ask("GET", "/sessions")}["s-ann"] == first)
        assert is_held(), says_goodbye
    house.hook("SessionEnd", "s-ann", reason="other", _hook={"pid": first, "source": "command"})
    assert not is_held()
    bridge.close()


@pytest.mark.req("X4")
def test_a_program_with_the_daemons_token_is_itself_and_no_person(coordinate: Callable[..., Coordinated]) -> None:
    house = listening(coordinate)
    house.ask("POST", "/locks/acquire", {"paths": ["src/mine.py"]})
    house.ask("POST", "/messages", {"to": [person()], "subject": "s", "body": "for you alone"})
    program = Plain(house)

    def ask(method: str, path: str, body: Any = None) -> tuple[int, Any]:
        return program.send(method, f"/api/v1{path}", body)[:2]

    for path in ("/merges/x/approve", "/rewinds/accept", "/agents/x/pin", "/agents/x/rollback", "/web/links"):
        status, answer = ask("POST", path, {})
        assert (status, answer["error"]["details"]["caller"]) == (403, "a program over TCP"), path
    status, answer = ask("POST", "/locks/acquire", {"paths": ["src/a.py"]})
    who = answer["locks"][0]["session_id"]
    assert status == 201 and who.startswith("http-"), "it has a session of its own"
    assert ask("POST", "/locks/acquire", {"paths": ["src/mine.py"]})[0] == 409
    assert ask("POST", "/locks/release", {"paths": ["src/mine.py"]}) == (200, {"success": True, "released": []})
    for body in ({"session_id": person()}, {"agent_id": person()}):
        assert ask("POST", "/locks/release", {"paths": ["src/mine.py"], **body})[0] == 403, body
    assert ask("GET", "/messages") == (200, [])
    assert ask("GET", f"/messages?session_id={person()}")[0] == 403
    task = house.ask("POST", "/tasks", {"title": "Look", "task_type": "review", "description": "x"})["task_id"]
    house.ask("POST", "/tasks/claim", {})
    assert ask("POST", f"/tasks/{task}/complete", {"success": True})[0] == 409
    house.kill_daemon()
    house.run("daemon", "start")
    assert ask("POST", "/locks/release", {})[1] == {"success": True, "released": ["src/a.py"]}, (
        "the same after a restart"
    )
    lines = eventually(
        lambda: [row for row in house.ask("GET", "/audit?limit=1000") if row["action"] == "lock.release"]
    )
    assert {row["session_id"] for row in lines} == {who}, "what was refused, too"


@ON_LINUX
@requires("unshare")
def test_the_client_in_a_sandbox_is_known_by_its_process_here(house: Coordinated) -> None:
    """There it has an id of its own, which is that of another process here, or of none."""
    event = json.dumps({"session_id": "boxed", "cwd": str(house.root), "source": "startup"})
    hook = f"{shlex.join(COMMAND)} SessionStart <<'EOF'\n{event}\nEOF\n"
    box = ["unshare", "--pid", "--fork", "--kill-child", *(["--map-current-user"] if os.geteuid() else [])]
    client = f"export CLAUDE_PID=$$ CLAUDE_CODE_ENTRYPOINT=cli\n{hook}exec sleep 600"
    with subprocess.Popen(
        [*box, "sh", "-c", 'sh -c "$0"; exit', client], cwd=house.root, stdout=subprocess.DEVNULL
    ) as process:
        try:
            eventually(lambda: [row for row in house.json("session", "list") if row["session_id"] == "boxed"])
            (row,) = [row for row in house.json("session", "list") if row["session_id"] == "boxed"]
            (inside,) = psutil.Process(process.pid).children()[0].children()
            assert row["pid"] == inside.pid
        finally:
            process.kill()
    eventually(lambda: [row for row in house.json("session", "list") if row["status"] == "disconnected"])
