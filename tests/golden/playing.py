"""What is asked, from the declarations of routes, tools and commands."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corral.client.connection import Client
from corral.faces.cli.app import run as corral
from corral.faces.cli.terminal.context import Common
from corral.faces.mcp import resources
from corral.faces.mcp.profiles import TOOLS
from tests import api_story, schema_story
from tests.commands_page import with_json
from tests.conftest import commit, git
from tests.golden.asking import PREFIX, Answers, Door, Listener, error_of
from tests.support.coordinated import Coordinated

ENDS_THE_DAEMON = {"POST /daemon/stop", "POST /worktrees/retire"}
HELD_OPEN = {"GET /bridge", "POST /hooks/Stop/wait", "POST /hooks/Mail/wait"}
"""Operations that answer when something happens."""
NOT_RUN_BADLY = {"mcp", "demo", "uninstall", "daemon stop", "daemon restart", "init"}
"""Commands that do more than answer whatever they are given."""
WRONG: tuple[tuple[str, Any], ...] = (("an object", {"no": "such"}), ("a list", [[]]), ("a text", "no such"))
CALLERS = {"task_id": "no-such-task", "session_id": "s-2"}
"""The fields by which a worker and a session say who they are, each with one."""
TOOL_ARGUMENTS: dict[str, dict[str, Any]] = {
    "acquire_lock": {"file_path": "src/a.py", "reason": "mine"},
    "release_lock": {"file_path": "src/a.py"},
    "check_locks": {"file_paths": ["src/"]},
    "register_feature": {"feature_id": "FEAT-9", "resource_claims": ["lib/**"], "title": "Search"},
    "deregister_feature": {"feature_id": "FEAT-9"},
    "get_feature": {"feature_id": "FEAT-9"},
    "analyze_feature_conflicts": {"candidate_claims": ["lib/a.py"]},
    "write_handoff": {"summary": "Half done.", "completed_work": ["this"], "next_steps": ["that"]},
    "send_message": {"to": ["Cedar"], "subject": "Hello", "body_md": "Some text."},
    "reply_message": {"message_id": 1, "body_md": "Yes."},
    "fetch_inbox": {"include_bodies": True},
    "mark_message_read": {"message_id": 1},
    "acknowledge_message": {"message_id": 1},
    "search_messages": {"query": "text"},
    "ensure_project": {"human_key": "<root>"},
    "register_agent": {"program": "sh", "model": "m", "name": "Ash"},
    "create_agent_identity": {"program": "sh", "model": "m", "name_hint": "Elm"},
    "whois": {"agent_name": "Ash"},
    "request_contact": {"to_agent": "Cedar"},
    "respond_contact": {"from_agent": "Cedar"},
    "set_contact_policy": {"policy": "open"},
    "macro_contact_handshake": {"requester": "Birch", "target": "Cedar"},
    "macro_start_session": {"human_key": "<root>", "program": "sh", "model": "m", "agent_name": "Ash"},
    "macro_prepare_thread": {"project_key": "<root>", "thread_id": "1", "program": "sh", "model": "m"},
    "macro_file_reservation_cycle": {"paths": ["src/c.py"], "auto_release": True},
    "submit_work": {"task_type": "review", "description": "Review it."},
    "complete_work": {"task_id": "<task>", "success": True},
    "get_task": {"task_id": "<task>"},
    "cancel_task_convention": {"task_id": "<spare>", "reason": "not needed"},
    "request_merge": {"branch": "side"},
    "revert_merge": {"merge_id": "<merge>"},
    "file_reservation_paths": {"paths": ["src/b.py"]},
    "release_file_reservations": {"paths": ["src/b.py"]},
    "renew_file_reservations": {"paths": ["src/b.py"]},
    "force_release_file_reservation": {"file_reservation_id": 1},
    "check_file_reservation_conflicts": {"paths": ["src/b.py"]},
    "remember": {"summary": "The tests are slow.", "lessons": ["Run few."]},
    "recall": {"query": "tests"},
    "set_state": {"key": "schema", "value": {"version": 1}, "task_id": "<task>"},
    "get_state": {"key": "schema", "task_id": "<task>"},
    "list_state": {"task_id": "<task>"},
    "delete_state": {"key": "schema", "task_id": "<task>"},
}
"""What each tool that needs arguments is called with when it is to succeed."""
TOOLS_IN_ORDER = ("register_session", "submit_work", "get_work", "set_state", "get_state", "list_state", "delete_state")
"""These first: the others need what they make."""


def document() -> dict[str, Any]:
    """The OpenAPI document."""
    return api_story.DOCUMENT


def keep_document(answers: Answers) -> None:
    """Each operation of the document by itself, with what it refers to in its place."""
    made = document()

    def whole(value: Any, inside: tuple[str, ...] = ()) -> Any:
        if isinstance(value, dict):
            kind, _, name = value.get("$ref", "").removeprefix("#/components/").partition("/")
            if kind == "schemas":
                schema = {**made["components"][kind][name], **value}
                del schema["$ref"]
                return f"<{name}>" if name in inside else whole(schema, (*inside, name))
            return {key: whole(inner, inside) for key, inner in value.items() if key not in ("title", "operationId")}
        return [whole(inner, inside) for inner in value] if isinstance(value, list) else value

    answers.keep("document", whole({kind: made["components"][kind] for kind in ("responses", "examples")}))
    for path, verbs in made["paths"].items():
        for method, operation in verbs.items():
            answers.keep(f"document {method.upper()} {path.removeprefix(PREFIX)}", whole(operation))


def templates() -> list[str]:
    """The paths of all operations."""
    return [path.removeprefix(PREFIX) for path in document()["paths"]]


def ask_by_http(house: Coordinated, answers: Answers) -> None:
    """Play the story of the API; ask everything once more; then ask each operation badly and as a stranger."""
    listener = Listener(answers, templates())
    Client.observer = listener
    try:
        api_story.play(house)
    finally:
        Client.observer = None
    door = Door(house.root)
    for name, method, target, sent in [*listener.asked]:
        if name.startswith("GET /audit"):
            house.await_audit()
        if name not in HELD_OPEN | ENDS_THE_DAEMON and "timeout_s" not in target and "wait_s" not in target:
            answer = door.ask(method, target, None if sent is None else json.loads(sent))
            answers.keep_first(f"again {name}: {answer['status']} {error_of(answer['body'])}".rstrip(), answer)
    for name in sorted(api_story.TYPES):
        method, _, path = name.partition(" ")
        nowhere = re.sub(r"\{\w+\}", "no-such", path)
        body = api_story.BODIES.get(name)
        answers.keep(f"stranger {name}", door.ask(method, nowhere, body, Authorization=None))
        if name in HELD_OPEN | ENDS_THE_DAEMON:
            continue
        if nowhere != path:
            answers.keep(f"nowhere {name}", door.ask(method, nowhere, body))
        for what, bad in _bad_bodies(body) if isinstance(body, dict) else ():
            answers.keep(f"bad {name} [{what}]", door.ask(method, nowhere, bad))
    for name, operation in _operations():
        for field, who in CALLERS.items():
            if field in _fields(operation) and name not in HELD_OPEN | ENDS_THE_DAEMON:
                method, _, path = name.partition(" ")
                body = {**(api_story.BODIES.get(name) or {}), field: who}
                answers.keep(f"caller {name} [{field}]", door.ask(method, re.sub(r"\{\w+\}", "no-such", path), body))
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "query" and name not in HELD_OPEN | ENDS_THE_DAEMON:
                method, _, path = name.partition(" ")
                target = f"{re.sub(r'{.*?}', 'no-such', path)}?{parameter['name']}=no%20such"
                answers.keep(f"bad {name} [?{parameter['name']}]", door.ask(method, target, None))
    for what, headers in {"a page": {"Origin": "http://x.test"}, "another host": {"Host": "x.test"}}.items():
        answers.keep(f"stranger [{what}]", door.ask("GET", "/status", None, **headers))
    answers.keep("stranger [no JSON]", door.ask("POST", "/pause", {}, Content_Type="text/plain"))


def be_refused(house: Coordinated, answers: Answers) -> None:
    """Play the story of the API, and ask for what it is refused after that."""
    Client.observer = Listener(answers, templates())
    try:
        api_story.refuse(api_story.play(house))
    finally:
        Client.observer = None


def _fields(operation: dict[str, Any]) -> set[str]:
    """The fields of an operation's body."""
    fields: set[str] = set()
    for content in operation.get("requestBody", {"content": {}})["content"].values():
        named = content["schema"].get("$ref", "").rpartition("/")[2]
        fields |= set(document()["components"]["schemas"].get(named, content["schema"]).get("properties", {}))
    return fields


def _operations() -> Iterator[tuple[str, dict[str, Any]]]:
    for path, verbs in document()["paths"].items():
        for method, operation in verbs.items():
            yield f"{method.upper()} {path.removeprefix(PREFIX)}", operation


def _bad_bodies(body: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    yield "a list", [body]
    yield "another field", {**body, "no_such_field": 1}
    for field, value in body.items():
        yield f"without {field}", {key: inner for key, inner in body.items() if key != field}
        for what, bad in WRONG:
            if not isinstance(bad, type(value)):
                yield f"{field}: {what}", {**body, field: bad}


def call_tools(house: Coordinated, answers: Answers) -> None:
    """Call every tool: as it is meant, without arguments, and with each argument of another type."""
    door = Door(house.root)
    for profile in ("core", "mail", "queue", "full"):
        answers.keep(f"tools of {profile}", door.call(profile, "tools/list", {}))
    answers.keep("resources", door.call("full", "resources/list", {}))
    for session, name in (("tooled", "Birch"), ("other", "Cedar")):
        house.ask("POST", "/sessions", {"session_id": session, "agent_name": name})
    task = house.ask("POST", "/tasks", {"title": "Review", "task_type": "review"})["task_id"]
    spare = house.ask("POST", "/tasks", {"title": "Not needed"})["task_id"]
    house.ask("POST", "/messages", {"session_id": "other", "to": ["Birch"], "subject": "Hello", "body": "Some text."})
    for branch in ("side", "landed"):
        git(house.root, "switch", "-q", "-c", branch, "main")
        commit(house.root, {f"{branch}.txt": "new\n"})
        git(house.root, "switch", "-q", "main")
    merge = house.ask("POST", "/merges", {"branch": "landed"})["merge_id"]
    house.ask("GET", "/wait", query={"merge": [merge]})
    house.ask("POST", "/targets/freeze", {"target": "main", "reason": "so that the queue stays as it is"})
    stands_for = {"<root>": str(house.root), "<task>": task, "<spare>": spare, "<merge>": merge}

    def call(name: str, arguments: dict[str, Any], session: str | None = "tooled") -> Any:
        filled = {
            key: stands_for.get(value, value) if isinstance(value, str) else value for key, value in arguments.items()
        }
        return door.call("full", "tools/call", {"name": name, "arguments": filled}, session)

    for name in [*TOOLS_IN_ORDER, *(name for name in TOOLS if name not in TOOLS_IN_ORDER)]:
        arguments = TOOL_ARGUMENTS.get(name, {})
        answers.keep(f"tool {name}", call(name, arguments))
        answers.keep(f"tool {name} [again]", call(name, arguments))
        answers.keep(f"tool {name} [nobody]", call(name, arguments, None))
        if arguments:
            answers.keep(f"tool {name} [without arguments]", call(name, {}))
        answers.keep(f"tool {name} [another argument]", call(name, {**arguments, "no_such": 1}))
        for key, value in arguments.items():
            for what, bad in WRONG:
                if not isinstance(bad, type(value)):
                    answers.keep(f"tool {name} [{key}: {what}]", call(name, {**arguments, key: bad}))
    for uri in resources.RESOURCES:
        if "{" not in uri:
            answers.keep(f"resource {uri}", door.call("full", "resources/read", {"uri": uri}, "tooled"))


def play_commands(root: Path, answers: Answers) -> None:
    """Play the story of the commands, which ends with the end of Corral in that repository."""
    listener = Listener(answers, templates())
    Client.observer = listener
    try:
        for command, answer in schema_story.play(root):
            answers.keep(f"command {command}", answer)
    finally:
        Client.observer = None


def not_provoked(kept: dict[str, Any]) -> Iterator[str]:
    """What the recorded answers lack, a line each: a success, a refused caller, an error of any kind."""
    for name, _ in _operations():
        if not _any(kept, f"http {name}: 2", f"again {name}: 2"):
            yield f"{name}: no success"
        if f"stranger {name}" not in kept:
            yield f"{name}: no refused caller"
        if not _any(
            kept, f"http {name}: 4", f"again {name}: 4", f"bad {name} [", f"nowhere {name}", f"caller {name} ["
        ):
            yield f"{name}: no error but that of a stranger"
    for operation in api_story.OPERATIONS:
        name = api_story.name_of(operation)
        for error in sorted(operation.route.errors, key=lambda kind: kind.name):
            if f"http {name}: {error.status} {error.name}" not in kept:
                yield f"{name}: no {error.name}"
    for name in TOOLS:
        results = [kept[key]["result"] for key in (f"tool {name}", f"tool {name} [again]")]
        if all(result["isError"] or result["structuredContent"].get("success") is False for result in results):
            yield f"{name}: no success"
    for name in sorted(with_json()):
        if not any(key == f"command {name}" or key.startswith(f"command {name} #") for key in kept):
            yield f"corral {name}: no success"
        if name in NOT_RUN_BADLY:
            yield f"corral {name}: no error"


def _any(kept: dict[str, Any], *beginnings: str) -> bool:
    return any(key.startswith(beginnings) for key in kept)


def run_badly(root: Path, answers: Answers) -> None:
    """Run each command with nothing, with words that nothing is called, and with an option that there is not."""
    for command in sorted(with_json() - NOT_RUN_BADLY):
        if command == "audit":
            Coordinated(root).await_audit()
        for what, words in {"nothing": [], "words": ["no-such", "no-such"], "option": ["--no-such-option"]}.items():
            answers.keep(f"command {command} [{what}]", run(root, [*command.split(), *words]))


def run(root: Path, words: list[str]) -> dict[str, Any]:
    """Run a command in this process; its exit code, and what it printed."""
    Common.directory, Common.output = "", None
    out, err, folder = io.StringIO(), io.StringIO(), Path.cwd()
    code: Any = 0
    os.chdir(root)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = corral([*words, "--json"])
    except SystemExit as ended:
        code = ended.code
    finally:
        os.chdir(folder)
    return {"exit": code or 0, "stdout": out.getvalue(), "stderr": err.getvalue()}
