"""Keys planted in all that a person, an agent, a repository or a program writes are searched in all that comes out.

Out is: every GET of the OpenAPI document, each page of the web view, the metrics, the traces at a collector, the
bodies at a webhook, the exports, the logs, the caches, the raw bytes of the database and its WAL, arguments and
environments of Corral's processes.
"""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psutil
import pytest

from corral.config.paths import find_project, socket_path
from tests.conftest import commit_all
from tests.support.browsing import Visitor, link
from tests.support.collector import collector
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import executable, put
from tests.support.receiver import Receiver, receiver


@dataclass(frozen=True)
class Plant:
    """A key, and where it may be found.

    Attributes:
        why: Why it may be anywhere at all: it is content, which somebody wrote to be run or read. Empty: it may be nowhere.
        answers: The addresses whose answers show the content, and the pages of the web view that do.
        files: The person's own files of it, below the repository.
    """

    key: str
    why: str = ""
    answers: str = "nothing"
    files: str = "nothing"


PLANTS = {
    "prompt": Plant(
        "sk-ant-api03-prompt-0123456789abcdef", "an agent is to read it", r"/tasks/|/dead-letters|web:/tasks/"
    ),
    "commit": Plant(
        "ghp_commit00000000000000000000000000000", "the user's own commit", "nothing", r"\.git/|\.worktrees/"
    ),
    "phase": Plant(
        "sk-ant-api03-phase-0123456789abcdefgh",
        "the agent's own file, which landed",
        r"/diff$|web:/(tasks|merges)/",
        r"^[^/]+/PLAN\.md$|\.git/|\.worktrees/",
    ),
    "agent": Plant(
        "sk-ant-api03-agent-0123456789abcdefgh",
        "the user's own file, and its versions",
        r"/agents/",
        r"\.claude/agents/|\.git/",
    ),
    "template": Plant(
        "glpat-template00000000000",
        "its command is run",
        r"/tasks/|web:/tasks/|/merges/",
        r"\.corral/templates/|\.git/",
    ),
    "value": Plant("xoxb-value00000-1234567890-abcdef", "its command is run with it", r"/tasks/|web:/tasks/"),
    "message": Plant("github_pat_message00000000000000000000", "somebody is to read it", r"/messages|web:/sessions/"),
    "roadmap": Plant(
        "npm_roadmap00000000000000000000000000",
        "its command is run",
        r"/tasks/|web:/tasks/",
        r"\.corral/state/roadmap|\.git/",
    ),
    "webhook": Plant("whsec-planted-0123456789-abcdefghij"),
    "environment": Plant("an-opaque-value-of-the-environment-1"),
    "output": Plant("AKIAOUTPUT0000000000"),
    "printed": Plant("hf_printed0000000000000000000000000"),
    "criterion": Plant("sk-proj-criterion0123456789abcdefghij"),
    "verified": Plant("sk-ant-api03-verified-0123456789abcde"),
    "tool": Plant("glpat-tool000000000000000"),
    "error": Plant("ghp_error000000000000000000000000000000"),
}
DATABASE = {name for name, plant in PLANTS.items() if plant.why and name not in ("commit", "phase")}
"""Content that the database must have: docs/security.md says so."""
ROADMAP = "tasks:\n- {id: plan, title: Planned, status: pending, command: ': KEY; echo planned > planned.txt'}\n"
TEMPLATE = "name: page\nparameters:\n  PAGE: {type: string}\ncommand: 'true KEY {{ PAGE }}; echo page > page.txt'\n"
AGENT = "---\nname: reviewer\ndescription: Reviews.\n---\n\nUse KEY.\n"
HELD_OPEN = ("/bridge", "/wait", "/follow")


def key(name: str) -> str:
    return PLANTS[name].key


def split(name: str) -> str:
    """A shell word that prints a key which the command line does not contain."""
    return f"{key(name)[:12]}''{key(name)[12:]}"


def found_in(data: bytes) -> set[str]:
    return {name for name, plant in PLANTS.items() if plant.key.encode() in data}


@pytest.mark.slow("everything runs once: landings, failures, a loop, a roadmap, traces, notifications")
@pytest.mark.req("FR-CONFIG-004", "NFR-SEC-001", "NFR-SEC-002")
def test_what_is_planted_anywhere_comes_out_nowhere_but_as_content(
    coordinate: Callable[..., Coordinated], sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, planted in {"CORRAL_WEBHOOK_SECRET": "webhook", "PLANTED_API_KEY": "environment"}.items():
        monkeypatch.setenv(name, key(planted))
    with collector(tmp_path / "otlp") as traces, receiver() as letters:
        house = coordinate(
            config="tasks: {max_retries: 0}\nworktrees: {pool_min_files: 0}\nlogs: {level: DEBUG}\n"
            "alerts: {agent_failures: {threshold: 1}}\n"
            f"notifications: {{webhook_url: '{letters.url}', group_s: 0.2}}\ntelemetry: {{otlp_endpoint: '{traces.url}'}}",
            verify=(f"echo {split('verified')}; [ $(ls | grep -c '^r.d$') = 0 ]",),
        )
        plant_files(house)
        client = executable(tmp_path / "claude", f"#!/bin/sh\nenv; echo {split('output')}; exit 1\n")
        house.configure(f"runners: {{claude: {{command: {client}}}}}\n")
        house.run("daemon", "start")
        person = Visitor(0)
        work(house)
        stays = house.submit("Stays", "sleep 600")
        eventually(lambda: house.ask("GET", f"/tasks/{stays}")["status"] == "running")
        processes = eventually(lambda: with_a_worker(dict(of_processes(house))))
        eventually(lambda: news_in(letters) >= {"failed_task", "returned_merge", "agent_failures"} and traces.spans())
        answers = {**http_answers(house), **pages(house, person)}
        answers["/metrics"] = raw(house, "/metrics")
        for words in (
            ("status",),
            ("audit",),
            ("metrics",),
            ("task", "list"),
            ("config", "show"),
            ("daemon", "logs", "--lines", "5000"),
        ):
            answers[f"corral {' '.join(words)}"] = house.run(*words).stdout.encode()
        sent = json.dumps([[letter.body, letter.headers] for letter in letters.received], default=str).encode()
        payload = json.dumps(traces.requests(), default=str).encode()
        live = b"".join(file.read_bytes() for file in (house.root / ".corral").glob("corral.db*"))
        eventually(lambda: list((house.root / ".corral" / "state").rglob("PLAN.md")), 60)
        house.stop()
    files = {
        str(file.relative_to(place.parent)): file.read_bytes()
        for place in (house.root, sealed)
        for file in place.rglob("*")
        if file.is_file() and "/otlp/" not in str(file)
    }
    wrong = [
        *(f"database and WAL at work: {name}" for name in found_in(live) - DATABASE),
        *(f"{place}: {name}" for place, data in answers.items() for name in found_in(data) if not shown(name, place)),
        *(f"process {place}: {name}" for place, data in processes.items() for name in found_in(data)),
        *(f"webhook: {name}" for name in found_in(sent)),
        *(f"telemetry: {name}" for name in found_in(payload)),
        *(f"file {place}: {name}" for place, data in files.items() for name in found_in(data) if not kept(name, place)),
    ]
    assert not wrong, "\n".join(sorted(wrong))
    database = b"".join(data for place, data in files.items() if "corral.db" in place)
    assert found_in(database) >= DATABASE, "the search sees what it looks for"
    assert found_in(b"".join(answers.values())) >= {"prompt", "message", "template"}, "the answers were read"
    assert files[f"{house.root.name}/.corral/state/analytics/audit.jsonl"], "the exports were read"
    plan = next(data for place, data in files.items() if "/evidence/" in place and place.endswith("PLAN.md"))
    assert b"[redacted]" in plan, "the evidence was read"
    logs = b"".join(data for place, data in files.items() if "/logs/" in place)
    assert logs.count(b"[redacted]***") >= 4, "what programs printed was there"


def news_in(letters: Receiver) -> set[str]:
    """What came at the webhook so far, in however many letters."""
    bodies = [letter.body for letter in letters.received]
    return {need["kind"] for body in bodies for need in body["needs_you"]} | {
        alert["rule"] for body in bodies for alert in body["alerts"]
    }


def shown(name: str, place: str) -> bool:
    return bool(PLANTS[name].why and re.search(PLANTS[name].answers, place))


def kept(name: str, place: str) -> bool:
    plant = PLANTS[name]
    return bool(re.search(plant.files, place)) or (name in DATABASE and ".corral/corral.db" in place)


def plant_files(house: Coordinated) -> None:
    """The repository's own files, committed with a key in the message."""
    put(house.root / ".corral" / "templates" / "page.yaml", TEMPLATE.replace("KEY", key("template")))
    put(house.root / ".claude" / "agents" / "reviewer.md", AGENT.replace("KEY", key("agent")))
    put(house.root / ".corral" / "state" / "roadmap.yaml", ROADMAP.replace("KEY", key("roadmap")))
    commit_all(house.root, f"With {key('commit')}")


def work(house: Coordinated) -> None:
    """Let everything run: it lands, fails, is red, is repeated, is planned; sessions speak and use tools."""
    says = f"env; echo {split('output')}; echo {split('printed')} >&2"
    phase = f"echo {split('phase')} > PLAN.md"
    tasks = [
        house.submit(
            "Lands",
            f"{says}; {phase}; echo 1 > lands.txt; git add -A; git commit -qm {split('commit')}",
        ),
        house.submit("Fails", f"{says}; exit 3"),
        house.submit("Is red", f"{says}; echo 1 > red"),
        house.json("task", "submit", "--template", "page", "--set", f"PAGE={key('value')}")["task_id"],
        house.json("task", "submit", "--title", "Asks", "--prompt", f"Use {key('prompt')}.", "--agent", "reviewer")[
            "task_id"
        ],
        loop(house, says),
    ]
    house.run("supervisor", "start")
    for session in ("one", "two"):
        house.hook("SessionStart", session, source="startup")
    bash: dict[str, Any] = {"tool_name": "Bash", "tool_input": {"command": f"echo {key('tool')}"}, "tool_use_id": "u"}
    house.hook("PreToolUse", "one", **bash)
    house.hook("PostToolUseFailure", "one", error=f"curl: {key('error')}", **bash)
    name = house.ask("GET", "/sessions/two")["agent_name"]
    house.ask(
        "POST", "/messages", {"session_id": "one", "to": [name], "subject": "Hello", "body": f"See {key('message')}"}
    )
    house.run("wait", *tasks, "--timeout", "60", check=False)
    eventually(lambda: (house.root / "planned.txt").exists(), 60)
    house.hook("SessionEnd", "one", reason="prompt_input_exit")


def loop(house: Coordinated, says: str) -> str:
    until = [{"kind": "tests", "command": f"echo {split('criterion')}; false"}]
    body = {"title": "Again", "command": says, "runner": "command", "loop": {"until": until, "max_iterations": 2}}
    return str(house.ask("POST", "/tasks", body)["task_id"])


def of_processes(house: Coordinated) -> Iterator[tuple[str, bytes]]:
    """Arguments of the daemon and of all that it started, and the environment of what it started; its own is the person's."""
    pid = house.running_pid()
    own = psutil.Process(pid).cmdline()
    yield f"arguments of {pid}", "\0".join(own).encode()
    for child in psutil.Process(pid).children(recursive=True):
        with suppress(psutil.Error):  # it has ended
            # With the daemon's arguments it is the daemon still, between its fork and the program that it becomes.
            if (words := child.cmdline()) not in (own, []):
                yield f"arguments of {child.pid}", "\0".join(words).encode()
                yield f"environment of {' '.join(words)[:90]}", repr(child.environ()).encode()


def with_a_worker(processes: dict[str, bytes]) -> dict[str, bytes] | None:
    """The processes, once a worker's program is among them."""
    return processes if any("sleep 600" in place for place in processes) else None


def http_answers(house: Coordinated) -> dict[str, bytes]:
    """The answer to every GET of the document, for everything that there is."""
    document = json.loads(raw(house, "/openapi.json"))
    known = _known(house)
    answers: dict[str, bytes] = {}
    for path, operations in document["paths"].items():
        if "get" not in operations or path.endswith(HELD_OPEN):
            continue
        for place in _places(path, operations["get"].get("parameters", []), known):
            answers[place.removeprefix("/api/v1")] = raw(house, place)
    assert len(answers) > 80, "most of them have something to show"
    return answers


def _known(house: Coordinated) -> Mapping[str, list[str]]:
    def ids(path: str, field: str) -> list[str]:
        answer = house.ask("GET", path)
        rows = answer if isinstance(answer, list) else next(rows for rows in answer.values() if isinstance(rows, list))
        return [str(row[field]) for row in rows]

    return {
        "task_id": ids("/tasks", "task_id"),
        "loop_id": ids("/loops", "task_id"),
        "merge_id": ids("/merges", "merge_id"),
        "name": ["reviewer"],
        "session_id": ids("/sessions", "session_id"),
        "version": ids("/agents/reviewer/versions", "version"),
        "handoff_id": ids("/handoffs", "handoff_id"),
        "q": ["See"],
        "before": ["1"],
        "after": ["2"],
        "feature_id": ["none"],
        "message_id": ids("/messages?session_id=two", "message_id"),
        "thread_id": ["none"],
    }


def _places(path: str, parameters: list[dict[str, Any]], known: Mapping[str, list[str]]) -> Iterator[str]:
    needed = [parameter["name"] for parameter in parameters if parameter.get("required")]
    query = "&".join(f"{name}={quote(known[name][0])}" for name in needed if f"{{{name}}}" not in path)
    variable = next((name for name in needed if f"{{{name}}}" in path), None)
    for value in known[variable] if variable else [""]:
        place = path.replace(f"{{{variable}}}", quote(value, safe=""))
        for other in [name for name in needed if f"{{{name}}}" in place]:
            place = place.replace(f"{{{other}}}", quote((known[other] or ["1"])[0], safe=""))
        yield f"{place}?{query}" if query else place


def raw(house: Coordinated, path: str) -> bytes:
    """One answer as it comes over the socket; of a stream what comes within a second."""
    connection = HTTPConnection("localhost", timeout=20)
    connection.sock = line_to = socket.socket(socket.AF_UNIX)
    line_to.settimeout(20)
    line_to.connect(str(socket_path(find_project(house.root))))
    connection.request("GET", f"{path}?after=0" if path.endswith("/events") else path)
    if not path.endswith("/events"):
        data = connection.getresponse().read()
        connection.close()
        return data
    answer, data = connection.getresponse(), b""
    line_to.settimeout(1)
    try:
        while line := answer.readline():
            data += line
    except TimeoutError:
        pass
    connection.close()
    assert data.count(b"\n") > 20
    return data


def pages(house: Coordinated, person: Visitor) -> dict[str, bytes]:
    """Every page of the web view that there is a link to."""
    address = link(house)
    person.port = int(address.split(":")[2].split("/")[0])
    person.come_in(address)
    texts: dict[str, bytes] = {}
    waiting = ["/", "/tasks", "/tasks?show=failed", "/queue", "/sessions?show=all", "/timeline?span=7d"]
    while waiting:
        path = waiting.pop()
        if f"web:{path}" in texts or len(texts) > 150:
            continue
        text = person.get(path).text
        texts[f"web:{path}"] = text.encode()
        waiting += [
            link for link in re.findall(r'href="(/(?:tasks|merges|sessions)/[^"#?]+)"', text) if "/live" not in link
        ]
    assert len(texts) > 12
    return texts
