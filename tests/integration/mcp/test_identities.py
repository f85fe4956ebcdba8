"""Who speaks over HTTP: each client is a session, proven by a token that only it got; without one a call is nobody's."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import urlsplit

import pytest

from corral.coordination.sessions.actor import person
from tests.integration.mcp.client import Agent, at, over_http
from tests.support.coordinated import Coordinated, eventually

ME = {"program": "opencode", "model": "m"}
MAKES_SOMEBODY = {
    "register_agent", "create_agent_identity", "register_session", "macro_start_session", "macro_prepare_thread"
}  # fmt: skip
FOR_NOBODY = MAKES_SOMEBODY | {
    "check_locks", "get_feature", "list_active_features", "analyze_feature_conflicts", "search_messages", "health_check",
    "ensure_project", "whois", "get_task", "merge_status", "list_flakes", "help", "recall", "discover_agents",
}  # fmt: skip
"""The tools that a client may call who does not show who it is: they read what is everybody's."""
TCP = "daemon: {{tcp: true, tcp_port: {port}}}"


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    """Its daemon listens on TCP, on the same port after each start."""
    return listening(coordinate)


@pytest.fixture
def elsewhere() -> Iterator[int]:
    """A living process, above none of the callers."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


def listening(coordinate: Callable[..., Coordinated], config: str = "") -> Coordinated:
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port = link.getsockname()[1]
    house = coordinate(config=f"{TCP.format(port=port)}\n{config}")
    house.run("daemon", "start")
    return house


class Plain:
    """A client that is written by hand: one POST a call."""

    def __init__(self, house: Coordinated, token: str = "", **headers: str) -> None:
        self._house = house
        self.headers = {"Mcp-Session-Id": token} if token else {}
        self.headers |= {name.replace("_", "-"): value for name, value in headers.items()}

    def send(self, method: str, path: str, body: Any = None) -> tuple[int, Any, str]:
        """Status, body and ``Mcp-Session-Id`` of an answer."""
        url, headers = at(self._house)
        link = http.client.HTTPConnection(urlsplit(url).netloc, timeout=60)
        headers_sent = {**headers, "Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
        link.request(method, path, None if body is None else json.dumps(body), {**headers_sent, **self.headers})
        answer = link.getresponse()
        content = answer.read()
        link.close()
        return answer.status, json.loads(content) if content else None, answer.getheader("Mcp-Session-Id") or ""

    def initialize(self) -> str:
        """The token that the server gives."""
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        return self.send("POST", "/mcp", message)[2]

    def call(self, tool: str, /, **arguments: Any) -> Any:
        """Call a tool; returns the JSON that it answers."""
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        status, answer, _ = self.send("POST", "/mcp?profile=full", message)
        assert status == 200, answer
        return json.loads("".join(part["text"] for part in answer["result"]["content"]))


@pytest.mark.req("X4")
def test_two_clients_over_http_are_two(house: Coordinated) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            one, two = [await over_http(stack, house) for _ in range(2)]
            await _two_clients(house, one, two)

    asyncio.run(run())
    eventually(lambda: house.json("session", "list", "--status", "active") == [])
    assert house.json("lock", "list") == [], "a client that leaves says so"


async def _two_clients(house: Coordinated, one: Agent, two: Agent) -> None:
    assert (await one.call("acquire_lock", file_path="src/a.py"))["action"] == "acquired"
    refused = await two.call("acquire_lock", file_path="src/a.py")
    assert (refused["success"], refused["reason"]) == (False, "locked_by_other")
    assert (await two.call("release_lock", file_path="src/a.py"))["reason"] == "lock_not_found_or_not_owner"
    assert (await one.call("acquire_lock", file_path="src/a.py"))["action"] == "refreshed"

    await one.call("submit_work", task_type="review", description="Look")
    task = (await one.call("get_work"))["task_id"]
    assert (await two.call("get_work"))["success"] is False
    assert (await two.call("complete_work", task_id=task, success=True))["success"] is False
    assert (await one.call("complete_work", task_id=task, success=True))["status"] == "completed"

    ann = await one.call("register_agent", **ME, name="Ann")
    ben = await two.call("register_agent", **ME, name="Ben")
    assert ann["id"] != ben["id"]
    assert [row["locked_by"] for row in house.json("lock", "list")] == ["Ann"]
    await two.call("send_message", to=["Ann"], subject="Hello", body_md="x")
    assert "Ben" in [row["from"] for row in await one.call("fetch_inbox")]
    for call in (
        two.call("fetch_inbox", agent_name="Ann"),
        two.call("send_message", sender_name="Ann", to=["Ben"], subject="s", body_md="x"),
        two.call("release_file_reservations", agent_name="Ann", paths=["src/a.py"]),
    ):
        assert (await call)["mcp_error"]["error"]["type"] == "OPERATION_NOT_PERMITTED"
    coder = await one.call("register_agent", **ME)
    assert (await one.call("fetch_inbox", agent_name=coder["name"])) == []
    refused = await one.call("file_reservation_paths", agent_name=coder["name"], paths=["src/a.py"])
    assert refused["granted"] == [], "agents of one connection are separate, too"
    assert {row["agent_type"] for row in house.json("session", "list")} == {"http"}


@pytest.mark.req("X4")
def test_a_call_that_does_not_show_who_makes_it_is_refused_and_told_what_to_do(house: Coordinated) -> None:
    house.hook("SessionStart", "claude-1")
    # Over TCP nobody sees that these come from a bridge.
    for nobody in (Plain(house), Plain(house, X_Corral_Session="claude-1"), Plain(house, X_Corral_Connection="c-1")):
        refused = nobody.call("acquire_lock", file_path="src/a.py")
        assert (refused["success"], refused["error"]) == (False, "unidentified")
        assert "initialize" in refused["cause"] and "registration_token" in refused["remedy"]
        error = nobody.call("fetch_inbox")["error"]
        assert error["type"] == "UNIDENTIFIED" and "register_agent" in error["message"]
        assert nobody.call("check_locks") == []
    some = {"string": "x", "integer": 1, "number": 60, "boolean": True, "array": ["x"]}
    listed = nobody.send("POST", "/mcp?profile=full", {"jsonrpc": "2.0", "id": 1, "method": "tools/list"})[1]
    for tool in listed["result"]["tools"]:
        known = {name: _kind(shape) for name, shape in tool["inputSchema"]["properties"].items()}
        if tool["name"] in FOR_NOBODY:
            continue
        error = nobody.call(
            tool["name"], **{name: some[known[name]] for name in tool["inputSchema"].get("required", ())}
        )
        assert "nidentified" in json.dumps(error) or "UNIDENTIFIED" in json.dumps(error), (tool["name"], error)
    assert [row["session_id"] for row in house.json("session", "list")] == ["claude-1"]


def _kind(shape: dict[str, Any]) -> str:
    return str(shape.get("type") or next(option["type"] for option in shape.get("anyOf", [{"type": "string"}])))


@pytest.mark.req("X4")
def test_who_registers_by_a_single_request_is_proven_by_the_token_of_the_answer(house: Coordinated) -> None:
    nobody = Plain(house)
    ann, ben = nobody.call("register_agent", **ME, name="Ann"), nobody.call("register_session", agent_name="Ben")
    token, other = ann["registration_token"], ben["registration_token"]
    assert nobody.call("acquire_lock", file_path="src/a.py", registration_token=token)["success"]
    assert nobody.call("acquire_lock", file_path="src/a.py", registration_token=other)["locked_by"] == "Ann"
    assert nobody.call("heartbeat", registration_token=other)["session_id"] == ben["session_id"]
    sent = nobody.call("send_message", sender_name="Ben", sender_token=other, to=["Ann"], subject="s", body_md="x")
    assert sent["count"] == 1
    assert len(nobody.call("fetch_inbox", agent_name="Ann", registration_token=token)) == 1
    refused = nobody.call("fetch_inbox", agent_name="Ann", registration_token=other)["error"]
    assert refused["type"] == "OPERATION_NOT_PERMITTED" and "registration_token" in refused["message"]
    assert nobody.call("register_agent", **ME, name="Ann")["error"]["type"] == "CONFLICT"
    for guess in (ann["id"], "A" * 43):
        assert nobody.call("heartbeat", registration_token=guess)["error"] == "unidentified"

    # A client that comes back by a new connection goes on as the agent that it was, and names it without the token then.
    again = Plain(house, Plain(house).initialize())
    assert again.call("fetch_inbox", agent_name="Ann")["error"]["type"] == "OPERATION_NOT_PERMITTED"
    assert again.call("register_agent", **ME, name="Ann", registration_token=token)["id"] == ann["id"]
    assert len(again.call("fetch_inbox", agent_name="Ann")) == 1
    assert again.call("release_file_reservations", agent_name="Ann")["released"] == 1
    _leaves_no_trace(house, token, other)


@pytest.mark.req("X4")
def test_a_client_keeps_its_session_through_a_restart_and_nobody_else_gets_it(house: Coordinated) -> None:
    token = Plain(house).initialize()
    client = Plain(house, token)
    assert client.call("acquire_lock", file_path="src/a.py")["action"] == "acquired"
    me = client.call("heartbeat")["session_id"]
    house.kill_daemon()
    eventually(lambda: house.daemon_pid() is None)
    house.run("daemon", "start")
    assert client.call("acquire_lock", file_path="src/a.py")["action"] == "refreshed"
    assert [row["session_id"] for row in house.json("lock", "list")] == [me]

    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    for guess in (me, token[:-1], "x", token + "="):
        status, answer, _ = Plain(house, guess).send("POST", "/mcp", ping)
        assert (status, answer["error"]["code"]) == (404, -32001) and "initialize" in answer["error"]["message"]
    _leaves_no_trace(house, token)

    assert client.send("DELETE", "/mcp")[0] == 200
    assert house.json("lock", "list") == []
    assert client.send("POST", "/mcp", ping)[0] == 404, "replayed after its end"
    assert client.initialize() not in ("", token), "it begins anew"


def test_a_client_that_was_silent_for_long_goes_on_without_what_it_held(coordinate: Callable[..., Coordinated]) -> None:
    house = listening(coordinate, "sessions: {stale_after_s: 1}")
    client = Plain(house, Plain(house).initialize())
    client.call("acquire_lock", file_path="src/a.py")
    me = client.call("heartbeat")["session_id"]
    eventually(lambda: house.json("session", "list", "--status", "active") == [], 30)
    assert client.call("acquire_lock", file_path="src/a.py")["action"] == "acquired"
    (row,) = house.json("session", "list")
    assert (row["session_id"], row["agent_type"]) == (me, "http")


def _leaves_no_trace(house: Coordinated, *tokens: str) -> None:
    """No token is in the database, in a log or in the audit."""
    house.ask("GET", "/audit?limit=1000")
    for file in (house.root / ".corral").rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert not [token for token in tokens if token.encode() in content], file


# -- the same over REST


@pytest.mark.req("X4")
def test_a_request_over_tcp_acts_for_whom_its_token_proves(house: Coordinated, elsewhere: int) -> None:
    house.hook("SessionStart", "claude-1")
    house.ask("POST", "/sessions", {"session_id": "claude-1", "client_pid": elsewhere})
    nobody = Plain(house)
    ann, ben = (nobody.send("POST", "/api/v1/sessions", {"agent_name": name})[1] for name in ("Ann", "Ben"))
    as_ann, as_ben = (
        Plain(house, X_Corral_Session_Token=registration["registration_token"]) for registration in (ann, ben)
    )

    def acquire(client: Plain, **who: str) -> tuple[int, Any]:
        status, answer, _ = client.send("POST", "/api/v1/locks/acquire", {"paths": ["src/a.py"], **who})
        return status, answer["error"]["name"] if "error" in answer else answer["locks"][0]["locked_by"]

    assert acquire(as_ann, agent_id="Ann") == (201, "Ann")
    assert acquire(as_ann, session_id=ann["session_id"]) == (201, "Ann")
    assert acquire(as_ben, agent_id="Ben") == (409, "lock_held")
    forbidden = (403, "operation_not_permitted")
    for client, who in (
        (nobody, {"agent_id": "Ann"}),
        (as_ben, {"agent_id": "Ann"}),
        (as_ben, {"session_id": ann["session_id"]}),
        (nobody, {"session_id": ann["session_id"]}),
        (nobody, {"session_id": "claude-1"}),
        (Plain(house, X_Corral_Session=ann["session_id"]), {"agent_id": "Ann"}),
        (Plain(house, X_Corral_Session_Token=ann["session_id"]), {"agent_id": "Ann"}),
    ):
        assert acquire(client, **who) == forbidden, who
    assert acquire(as_ann, agent_id="Nobody") == (404, "not_found")
    assert acquire(as_ann, agent_id="Ann", session_id=ben["session_id"]) == (422, "invalid_input")
    release = {"paths": ["src/a.py"], "agent_id": "Ann"}
    assert as_ben.send("POST", "/api/v1/locks/release", release)[0] == 403
    for read in ("/api/v1/messages?agent_id=Ann", "/api/v1/messages?agent=Ann"):
        assert [client.send("GET", read)[0] for client in (as_ben, nobody, as_ann)] == [403, 403, 200], read
    assert as_ben.send("POST", f"/api/v1/sessions/{ann['session_id']}/end", {"agent_id": "Ann"})[0] == 403
    assert [row["locked_by"] for row in house.json("lock", "list")] == ["Ann"]
    refused = [row for row in house.json("status")["recent"] if row["kind"] == "identity.refused"]
    assert (ben["session_id"], "Ann") in {(row["session_id"], row["data"]["agent_name"]) for row in refused}
    _leaves_no_trace(house, ann["registration_token"], ben["registration_token"])


@pytest.mark.req("X4")
def test_over_tcp_nobody_speaks_for_a_session_that_they_do_not_prove(house: Coordinated, elsewhere: int) -> None:
    house.hook("SessionStart", "claude-1")
    house.ask("POST", "/sessions", {"session_id": "claude-1", "agent_name": "Cid", "client_pid": elsewhere})
    nobody = Plain(house)
    ann = nobody.send("POST", "/api/v1/sessions", {"agent_name": "Ann", "client_pid": os.getpid()})[1]
    assert ann["pid"] is None, "nothing shows whose process it is"
    as_ann = Plain(house, X_Corral_Session_Token=ann["registration_token"])
    house.ask("POST", "/messages", {"to": ["Cid"], "subject": "s", "body": "for Cid alone"})

    def status(client: Plain, path: str, **body: Any) -> int:
        return client.send("POST", f"/api/v1{path}", body)[0]

    for event in ("UserPromptSubmit", "SessionEnd", "PreToolUse", "Mail/wait"):
        code, answer, _ = as_ann.send(
            "POST", f"/api/v1/hooks/{event}", {"session_id": "claude-1", "cwd": str(house.root), "_hook": {"bridge": 1}}
        )
        assert code == 403 and "Unix socket" in answer["error"]["remedy"], answer
    assert nobody.send("GET", "/api/v1/bridge?pid=1&session=claude-1&client=1")[0] == 403
    assert house.ask("GET", "/messages?session_id=claude-1&unread_only=true"), "its mail waits for it"
    for client, session_id in ((nobody, "claude-1"), (as_ann, "claude-1"), (nobody, ann["session_id"])):
        assert status(client, "/sessions", session_id=session_id, agent_name="Eve") == 403
        assert status(client, f"/sessions/{session_id}/names", name="Eve") == 403
        for verb in ("heartbeat", "end"):
            assert client.send("POST", f"/api/v1/sessions/{session_id}/{verb}")[0] == 403
    assert status(nobody, "/locks/force-release", paths=["src"], certain=True) == 403, "that needs a person"
    assert {row["agent_name"] for row in house.json("session", "list", "--status", "active")} >= {"Ann", "Cid"}

    own = f"/sessions/{ann['session_id']}"
    assert status(as_ann, f"{own}/names", name="Anne") == 201
    assert [as_ann.send("POST", f"/api/v1{own}/{verb}")[0] for verb in ("heartbeat", "end")] == [200, 200]
    for path, body in ((f"{own}/heartbeat", {}), ("/sessions", {"session_id": ann["session_id"]})):
        assert status(as_ann, path, **body) == 403, "a token is void after the end of its session"


ASK = """
import json, sys, time
from pathlib import Path
from corral.client import wire
from corral.config.paths import find_project, find_socket
root, header, asked = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
with wire.dial(str(find_socket(find_project(Path(root)))), 30) as link:
    for path, body in asked:
        sent = wire.request("POST", path, json.dumps(body).encode(), json.loads(header))
        answer = wire.exchange(link, sent, time.monotonic() + 30)
        print(answer.status, answer.body.decode())
"""


@pytest.mark.req("X4")
def test_over_the_socket_a_session_acts_for_itself_and_a_person_for_everybody(
    house: Coordinated, elsewhere: int
) -> None:
    for session_id, name, pid in (("s-ann", "Ann", elsewhere), ("s-ben", "Ben", None)):
        house.ask("POST", "/sessions", {"session_id": session_id, "agent_name": name, "client_pid": pid})

    def ask(*asked: tuple[str, dict[str, Any]], header: str = "{}", **env: str) -> list[Any]:
        """The holder of the lock, or the status, that each request gets of one process, all over one connection."""
        requests = json.dumps([(path if path == "/mcp" else f"/api/v1{path}", body) for path, body in asked])
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(house.root), header, requests],
            env={**os.environ, **env}, capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        answers = [line.split(" ", 1) for line in done.stdout.splitlines()]
        shown = [(int(status), json.loads(body)) for status, body in answers]
        return [body["locks"][0]["locked_by"] if "locks" in body else status for status, body in shown]

    def acquire(**who: str) -> tuple[str, dict[str, Any]]:
        return "/locks/acquire", {"paths": ["src/a.py"], **who}

    ben = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": "s-ben"}
    assert ask(acquire(agent_id="Ann")) == ["Ann"], "a person"
    assert ask(acquire(), acquire(session_id="s-ann"), CORRAL_SESSION_ID="s-ann") == [403, 403], "its client is another"
    as_ann = [
        acquire(agent_id="Ann"),
        acquire(session_id="s-ann"),
        ("/locks/release", {"paths": ["src/a.py"], "session_id": "s-ann"}),
        ("/locks/release", {"paths": ["src/a.py"], "session_id": person()}),
        ("/locks/force-release", {"paths": ["src/a.py"], "certain": True}),
        ("/sessions", {"session_id": "s-ann", "agent_name": "Eve"}),
        ("/sessions", {"session_id": "s-eve", "client_pid": elsewhere}),
        ("/sessions/s-ann/names", {"name": "Eve"}),
        ("/sessions/s-ann/heartbeat", {}),
        ("/sessions/s-ann/end", {}),
        ("/sessions/s-ann/end", {"caller": person()}),
    ]
    for header in ("{}", '{"X-Corral-Session": "s-ann"}'):
        assert ask(*as_ann, header=header, **ben) == [403] * len(as_ann)
    assert ask(*as_ann[:-2], CLAUDECODE="1") == [403] * (len(as_ann) - 2), "nor one that does not say which it is"
    assert ask(acquire(), CLAUDECODE="1") == [403], "it is not the person"
    release = {"name": "release_lock", "arguments": {"file_path": "src/a.py"}}
    call = ("/mcp", {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": release})
    for header_name in ("Session", "Connection"):
        header = json.dumps({f"X-Corral-{header_name}": "s-ann", "Accept": "application/json, text/event-stream"})
        assert ask(call, header=header, **ben) == [200], "a tool's refusal is an answer"
    assert [row["locked_by"] for row in house.json("lock", "list")] == ["Ann"]

    own = {"paths": ["src/b.py"]}
    asked = [
        ("/sessions", {"session_id": "s-ben"}),
        ("/sessions/s-ben/heartbeat", {}),
        ("/sessions/s-ben/names", {"name": "B"}),
    ]
    assert ask(*asked, ("/locks/acquire", own), ("/locks/release", {"paths": []}), **ben) == [201, 200, 201, "Ben", 200]
    assert [row["locked_by"] for row in house.json("lock", "list")] == ["Ann"]
    assert ask(as_ann[4]) == [200], "a person may"
    assert house.json("lock", "list") == []
