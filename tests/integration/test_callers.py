"""Who may ask for what: every operation, crossed with every kind of caller, each a process that shows what it is."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from corral.config.paths import find_project, socket_path
from corral.coordination.sessions.actor import person
from corral.core.errors import NotPermitted, OwnDaemon
from corral.core.routing import EVERYONE, HERE, NO_WORK, PERSON, Caller
from corral.daemon import nouns
from corral.faces.http.access import Unauthorised
from corral.faces.http.router import Operation, operations
from tests.api_story import DOCUMENT, name_of
from tests.integration.mcp.client import at
from tests.integration.mcp.test_identities import listening
from tests.integration.running import ON_LINUX
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import requires

LEFT_TO_SOME = {
    "POST /api/v1/hooks/{event}": HERE,
    "POST /api/v1/hooks/Stop/wait": HERE,
    "POST /api/v1/hooks/Mail/wait": HERE,
    "POST /api/v1/hooks/Mail/told": HERE,
    "GET /api/v1/bridge": HERE,
    "POST /api/v1/daemon/stop": NO_WORK,
    "POST /api/v1/worktrees/retire": NO_WORK,
    "POST /api/v1/verification/dry-run": NO_WORK,
    "POST /api/v1/web/links": PERSON,
    "GET /api/v1/salvage/private": PERSON,
    "POST /api/v1/worktrees/{name}/recover/all": PERSON,
    "POST /api/v1/merges/{merge_id}/approve": PERSON,
    "POST /api/v1/merges/{merge_id}/open": PERSON,
    "POST /api/v1/merges/{merge_id}/skip": PERSON,
    "POST /api/v1/merges/{merge_id}/bypass": PERSON,
    "POST /api/v1/targets/freeze": PERSON,
    "POST /api/v1/targets/thaw": PERSON,
    "POST /api/v1/rewinds/accept": PERSON,
    "POST /api/v1/agents/{name}/rollback": PERSON,
    "POST /api/v1/agents/{name}/pin": PERSON,
    "DELETE /api/v1/agents/{name}/pin": PERSON,
    "POST /api/v1/agents/{name}/rollout": PERSON,
    "DELETE /api/v1/agents/{name}/rollout": PERSON,
}
"""The operations that not everybody may ask for, and who may."""
ENDS = {"POST /worktrees/retire"}
"""It takes no body that could be a bad one: who may ask for it is not tried."""
REFUSALS = {kind.name for kind in (NotPermitted, OwnDaemon, Unauthorised)}
MARKS: dict[Caller | None, dict[str, str]] = {
    Caller.PERSON: {},
    Caller.SESSION: {"CLAUDECODE": "1"},
    Caller.WORK: {"CORRAL_TASK_ID": "0b6ff4a2-8460-4ab7-a7d5-be211917ca79"},
}
ASK = """
import http.client, json, socket, sys
address, headers = sys.argv[1], json.loads(sys.argv[2])
for method, path, body in json.load(sys.stdin):
    link = http.client.HTTPConnection("localhost" if address.startswith("/") else address, timeout=30)
    if address.startswith("/"):
        link.sock = socket.socket(socket.AF_UNIX)
        link.sock.connect(address)
    link.request(method, path, body, headers)
    answer = link.getresponse()
    print(json.dumps([answer.status, json.loads(answer.read())["error"] if answer.status >= 400 else None]))
    link.close()
"""
"""Asks what it reads, over the socket or by TCP, and prints status and error of each."""
HOLD = """
import http.client, json, socket, sys
link = http.client.HTTPConnection("localhost")
link.sock = socket.socket(socket.AF_UNIX)
link.sock.connect(sys.argv[1])
for path in map(str.strip, sys.stdin):
    link.request("POST", "/api/v1/locks/acquire", json.dumps({"paths": [path]}))
    print(json.loads(link.getresponse().read())["locks"][0]["session_id"], flush=True)
"""
"""Locks the paths that it reads, all over one connection, and tells for whom."""


@pytest.fixture
def house(coordinate: Callable[..., Coordinated]) -> Coordinated:
    return listening(coordinate)


def test_each_operation_says_who_may_ask_for_it() -> None:
    left = {
        f"{operation.route.method} {operation.path}": operation.route.callers for operation in operations(nouns.every())
    }
    assert {name: callers for name, callers in left.items() if callers != EVERYONE} == LEFT_TO_SOME


@pytest.mark.parametrize("caller", [*Caller, None])
def test_each_caller_is_refused_what_the_operation_declares_and_heard_else(
    house: Coordinated, caller: Caller | None
) -> None:
    """None: a program without the token. What takes a body is asked with a bad one, and what names something, for nothing."""
    wrong, refused = [], {}
    for operation, (status, error) in _answers(house, caller, every := operations(nouns.every())):
        name = f"{operation.route.method} {operation.path}"
        if error and error["name"] not in _documented(operation, status):
            wrong.append(f"{name}: {status} {error['name']} is not declared")
        if error and not (error["message"] and error["cause"] and error["remedy"]):
            wrong.append(f"{name}: {error}")
        if error and error["name"] in REFUSALS:
            refused[name] = (status, error["name"])
    assert not wrong, "\n".join(wrong)
    assert refused == {
        f"{operation.route.method} {operation.path}": kind
        for operation in every
        if (kind := _refusal(operation, caller))
    }
    assert house.json("daemon", "status")
    if caller in (Caller.SESSION, Caller.WORK, Caller.PROGRAM):
        eventually(lambda: {"merge.approve", "merge.bypass", "target.freeze", "agent.pin"} <= _refused_on_record(house))


def test_an_open_connection_speaks_for_the_session_that_its_process_belongs_to_now(house: Coordinated) -> None:
    argv = [sys.executable, "-c", HOLD, str(socket_path(find_project(house.root)))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as below:
        assert below.stdin and below.stdout
        notices, body = [], {"session_id": "claude-1", "client_pid": os.getpid()}
        for number, change in enumerate(("", "/sessions", "/sessions/claude-1/heartbeat", "/sessions/claude-1/end")):
            if change:
                house.ask("POST", change, body if number == 1 else {})
            print(f"src/{number}.py", file=below.stdin, flush=True)
            notices.append(below.stdout.readline().strip())
        below.stdin.close()
    assert notices == [person(), "claude-1", "claude-1", person()]


@ON_LINUX
@requires("setsid")
def test_a_task_is_no_person_where_it_has_left_its_parents_and_its_environment(house: Coordinated) -> None:
    """What it left behind, its environment cleared, still has the limit that all of a worker's processes inherit."""
    answer, asks = house.root.parent / "answer", house.root.parent / "asks.sh"
    clean = " ".join(
        f"{name}='{os.environ.get(name, '')}'" for name in ("HOME", "PATH", "PYTHONPATH", "XDG_RUNTIME_DIR")
    )
    asks.write_text(
        f"cd '{house.root}'; sleep 0.2\n"
        f"'{sys.executable}' -m corral merge freeze main --reason x > {answer}.new 2>&1; mv {answer}.new {answer}\n"
    )
    house.submit("Leave", f"(setsid env -i {clean} /bin/sh {asks} &)\nwhile [ ! -e {answer} ]; do sleep 0.1; done")
    eventually(answer.exists)
    assert "may not do this" in answer.read_text()
    assert house.ask("GET", "/targets/stopped") == []


def _answers(
    house: Coordinated, caller: Caller | None, every: list[Operation]
) -> Iterator[tuple[Operation, tuple[int, Any]]]:
    """What each operation answers this caller: the status, and the error."""
    address, headers = str(socket_path(find_project(house.root))), {"Content-Type": "application/json"}
    if caller in (Caller.PROGRAM, None):
        url, token = at(house)
        address, headers = urlsplit(url).netloc, headers | (token if caller else {})
    asked = [operation for operation in every if name_of(operation) not in ENDS or _refusal(operation, caller)]
    requests = [
        (
            operation.route.method,
            re.sub(r"\{\w+\}", "no-such", operation.path),
            '["no such body"]' if any(argument.place == "body" for argument in operation.arguments) else None,
        )
        for operation in asked
    ]
    done = subprocess.run(
        [sys.executable, "-c", ASK, address, json.dumps(headers)],
        env={**os.environ, "CORRAL_PROJECT": str(house.root), **MARKS.get(caller, {})},
        input=json.dumps(requests), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return zip(asked, map(json.loads, done.stdout.splitlines()), strict=True)


def _refusal(operation: Operation, caller: Caller | None) -> tuple[int, str] | None:
    """With which status and name it refuses this caller, as it declares it; None: it does not."""
    if caller is None:
        return Unauthorised.status, Unauthorised.name
    kind = OwnDaemon if operation.route.callers == NO_WORK else NotPermitted
    return None if caller in operation.route.callers else (kind.status, kind.name)


def _documented(operation: Operation, status: int) -> list[str]:
    """The names of the errors that the document says it answers with this status."""
    answers = DOCUMENT["paths"][operation.path][operation.route.method.lower()]["responses"]
    shape = answers.get(str(status)) or DOCUMENT["components"]["responses"][f"{status // 100}XX"]
    names: list[str] = shape["content"]["application/json"]["schema"]["properties"]["error"]["properties"]["name"][
        "enum"
    ]
    return names


def _refused_on_record(house: Coordinated) -> set[str]:
    """What was refused, and is not told of the person."""
    lines = house.ask("GET", "/audit?limit=1000")
    return {line["action"] for line in lines if "error" in line["result"] and line["session_id"] != person()}


@pytest.mark.executed
@pytest.mark.req("X4")
def test_an_agent_leaves_anothers_worktree_with_work_in_it(house: Coordinated) -> None:
    house.hook("SessionStart", "s-ann", source="startup")
    for name, owner in (("persons", {}), ("anns", {"session_id": "s-ann"})):
        place = Path(house.ask("POST", "/worktrees", {"name": name, **owner})["path"])
        (place / "half.txt").write_text("half")
        refused = house.run("worktree", "remove", name, check=False, CLAUDECODE="1")
        assert refused.returncode and f"{name} is not yours" in refused.stderr and (place / "half.txt").exists()
    house.run("worktree", "remove", "anns", CLAUDECODE="1", CORRAL_SESSION_ID="s-ann")
    (place.with_name("persons") / "half.txt").unlink()
    house.run("worktree", "remove", "persons", CLAUDECODE="1")
    assert house.json("worktree", "list") == []
