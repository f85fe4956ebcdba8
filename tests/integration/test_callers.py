"""Who may ask for what: every operation, crossed with every kind of caller, each a process that shows what it is."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.config.paths import find_project, socket_path
from corral.coordination.sessions.actor import person
from corral.core.routing import EVERYONE, Caller
from corral.daemon import nouns
from corral.faces.http.router import operations
from tests.integration.mcp.test_identities import Plain, listening
from tests.integration.running import ON_LINUX
from tests.support.coordinated import Coordinated, eventually
from tests.support.programs import requires

PERSON = {Caller.PERSON}
NO_WORK = {Caller.PERSON, Caller.SESSION, Caller.PROGRAM}
LEFT_TO_SOME = {
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
MARKS = {
    Caller.PERSON: {},
    Caller.SESSION: {"CLAUDECODE": "1"},
    Caller.WORK: {"CORRAL_TASK_ID": "0b6ff4a2-8460-4ab7-a7d5-be211917ca79"},
}
ASK = """
import json, sys
from corral.client.connection import Client
from corral.core.errors import CorralError
root, names = sys.argv[1], json.loads(sys.argv[2])
from pathlib import Path
from corral.config.paths import find_project
client, refused = Client(find_project(Path(root))), []
for name in names:
    method, _, path = name.partition(" ")
    try:
        client.request(method, path.removeprefix("/api/v1"), ["no such body"])
    except CorralError as error:
        if error.code == "CORRAL-ERR-011":
            refused.append(name)
print(json.dumps(refused))
"""

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
    left = {f"{one.route.method} {one.path}": one.route.callers for one in operations(nouns.every())}
    assert {name: callers for name, callers in left.items() if callers != EVERYONE} == LEFT_TO_SOME


@pytest.mark.parametrize("caller", Caller)
def test_those_who_may_not_are_refused_and_the_others_are_heard(house: Coordinated, caller: Caller) -> None:
    changing = [
        f"{one.route.method} {one.path}".replace("{", "no-").replace("}", "")
        for one in operations(nouns.every())
        if one.route.method != "GET" and any(argument.place == "body" for argument in one.arguments)
    ]
    only = {
        name.replace("{", "no-").replace("}", "") for name, callers in LEFT_TO_SOME.items() if caller not in callers
    }
    asked = sorted({*changing, *only})
    if caller is Caller.PROGRAM:
        of_hooks = {name for name in asked if "/hooks/" in name}
        assert _refused_over_tcp(house, asked) == only | of_hooks
    else:
        done = subprocess.run(
            [sys.executable, "-c", ASK, str(house.root), json.dumps(asked)],
            env={**os.environ, "CORRAL_PROJECT": str(house.root), **MARKS[caller]},
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert {*json.loads(done.stdout)} == only
    assert house.json("daemon", "status")
    if only:
        eventually(lambda: {"merge.approve", "merge.bypass", "target.freeze", "agent.pin"} <= _refused_on_record(house))


def test_an_open_connection_speaks_for_the_session_that_its_process_belongs_to_now(house: Coordinated) -> None:
    argv = [sys.executable, "-c", HOLD, str(socket_path(find_project(house.root)))]
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as below:
        assert below.stdin and below.stdout
        told, body = [], {"session_id": "claude-1", "client_pid": os.getpid()}
        for number, change in enumerate(("", "/sessions", "/sessions/claude-1/heartbeat", "/sessions/claude-1/end")):
            if change:
                house.ask("POST", change, body if number == 1 else {})
            print(f"src/{number}.py", file=below.stdin, flush=True)
            told.append(below.stdout.readline().strip())
        below.stdin.close()
    assert told == [person(), "claude-1", "claude-1", person()]


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


def _refused_over_tcp(house: Coordinated, names: list[str]) -> set[str]:
    program, refused = Plain(house), set()
    for name in names:
        method, _, path = name.partition(" ")
        status, answer, _ = program.send(method, path, ["no such body"])
        if status == 403 and answer["error"]["code"] == "CORRAL-ERR-011":
            refused.add(name)
    return refused


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
