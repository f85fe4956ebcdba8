"""Traces of a real daemon at a real collector: approved, without secrets, through outages and a kill -9."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from corral.observe.traces import spans
from tests.conftest import git
from tests.support.collector import Collector, collector
from tests.support.coordinated import Coordinated, eventually
from tests.support.files import put

KEY = "sk-ant-api03-abcdefghijklmnop0123"
CONFIG = "{tasks: {max_retries: 0}, worktrees: {pool_min_files: 0}}"


@pytest.fixture
def far(tmp_path: Path) -> Iterator[Collector]:
    with collector(tmp_path / "otlp") as made:
        yield made


def switch_on(house: Coordinated, far: Collector) -> None:
    """In the project's own file, which nobody has approved yet."""
    file = house.root / ".corral" / "config.yaml"
    settings = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**settings, "telemetry": {"otlp_endpoint": far.url, "otlp_timeout_s": 2}}))


def needs(house: Coordinated) -> list[dict[str, Any]]:
    return [need for need in house.ask("GET", "/status")["needs_you"] if need["kind"] == "exports"]


def trace(far: Collector, task_id: str) -> list[dict[str, Any]] | None:
    """The task's trace, once the task itself is told."""
    spans_of_task = far.trace(spans.trace_id(task_id))
    return spans_of_task if "task" in [span["name"] for span in spans_of_task] else None


def send(house: Coordinated, **how: Any) -> str:
    """A letter from one session to the other; returns its id."""
    name = house.ask("GET", "/sessions/two")["agent_name"]
    body = {"session_id": "one", "to": [name], "subject": "Hello", "body": f"With {KEY}", **how}
    return str(house.ask("POST", "/messages", body)["message_id"])


def probe(house: Coordinated) -> str:
    """A task that ends at once; returns its id. The export begins with what is new at its first step after the approval."""
    task_id = str(house.ask("POST", "/tasks", {"title": "Probe", "description": "Nothing."})["task_id"])
    house.ask("POST", f"/tasks/{task_id}/cancel", {})
    return task_id


def names(spans: list[dict[str, Any]]) -> list[str]:
    return [span["name"] for span in spans]


def test_the_trace_of_a_task_from_its_submission_to_its_landing(
    coordinate: Callable[..., Coordinated], far: Collector
) -> None:
    house = coordinate(config=CONFIG, verify=("echo '3 passed'",))
    switch_on(house, far)
    house.ask("GET", "/health")
    eventually(lambda: "untrusted_commands" in [need["kind"] for need in house.ask("GET", "/status")["needs_you"]])
    unseen = house.carry_out("unseen", "true")
    assert far.requests() == [], "nothing leaves before a person has approved the address"
    house.trust()
    eventually(lambda: probe(house) and far.spans())

    for session in ("one", "two"):
        house.hook("SessionStart", session, source="startup")
    gate = house.root.parent / "gate"
    command = f"until [ -f {gate} ]; do sleep 0.05; done; echo 1 > new.txt"
    landed = house.submit(f"Add {KEY}", command, "--thread", "letters")
    eventually(lambda: house.ask("GET", f"/tasks/{landed}")["status"] == "running")
    letter = send(house, thread_id="letters")
    gate.touch()
    failed = house.submit("Fails", f"echo TOKEN={KEY}; exit 3")
    house.run("wait", landed, failed, "--timeout", "60", check=False)
    spans_of_task = eventually(lambda: trace(far, landed))
    assert sorted(names(spans_of_task)) == ["attempt", "landing", "task", "verification", "wait"]
    by_name = {span["name"]: span for span in spans_of_task}
    task = by_name["task"]
    assert task["attributes"]["corral.task.title"] == "Add [redacted]" and task["status"] == 1
    assert task["attributes"]["corral.task.outcome"] == "landed" and task["parent_id"] == ""
    assert {by_name[name]["parent_id"] for name in ("wait", "attempt", "landing")} == {task["span_id"]}
    assert by_name["verification"]["parent_id"] == by_name["landing"]["span_id"]
    assert all(
        int(task["start"]) <= int(span["start"]) <= int(span["end"]) <= int(task["end"]) for span in spans_of_task
    )
    assert by_name["attempt"]["attributes"]["corral.runner.name"] == "command"
    assert "task.started" in [event for event, _data in by_name["attempt"]["events"]]
    sha = git(house.root, "rev-parse", "main")
    assert by_name["landing"]["attributes"]["corral.merge.landed_sha"] == sha
    assert by_name["verification"]["attributes"]["corral.receipt.status"] == "passed"
    (attempt,) = [span for span in eventually(lambda: trace(far, failed)) if span["name"] == "attempt"]
    assert (attempt["status"], attempt["attributes"]["error.type"]) == (2, "command_failed")
    resource = far.requests()[0]["resource"]
    assert (resource["service.name"], resource["corral.project"]) == ("corral", house.root.name)

    # A task that is retried by hand lives again, in the same trace.
    house.run("task", "retry", failed)
    again = eventually(
        lambda: [span for span in trace(far, failed) or [] if "corral.task.is_reopened" in span["attributes"]]
    )
    (first,) = [span for span in trace(far, failed) or [] if span["name"] == "task" and not span["parent_id"]]
    assert again[0]["parent_id"] == first["span_id"]

    # A task that a session claimed; and letters link to their tasks, as tasks and attempts link to their letters.
    claimed = str(house.ask("POST", "/tasks", {"title": "By hand", "description": "Do it."})["task_id"])
    assert house.ask("POST", "/tasks/claim", {"session_id": "two"})["task_id"] == claimed
    another = send(house)
    house.ask("POST", f"/tasks/{claimed}/complete", {"session_id": "two", "success": True, "result": {}})
    attempt = next(span for span in eventually(lambda: trace(far, claimed)) if span["name"] == "attempt")
    assert attempt["attributes"]["session.id"] == "two"
    for message_id, task_id, span in ((letter, landed, task), (another, claimed, attempt)):
        assert list(spans.of_message(message_id)) in span["links"]
        (told_of,) = far.trace(spans.trace_id(message_id))
        assert (told_of["name"], told_of["kind"]) == ("message", 4)
        assert told_of["links"] == [list(spans.of_task(task_id))]
    assert not far.trace(spans.trace_id(unseen)), "nothing of the time before"
    everything = (far.folder / "received.jsonl").read_text()
    assert KEY not in everything and "echo 1 > new.txt" not in everything
    assert len({span["span_id"] for span in far.spans()}) == len(far.spans()), "each span once"


def test_a_collector_that_fails_hangs_dies_and_comes_back(
    coordinate: Callable[..., Coordinated], far: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    house = coordinate(config=CONFIG)
    switch_on(house, far)
    house.trust()
    house.ask("GET", "/health")
    ids = [house.submit("seen", "true")]
    eventually(lambda: trace(far, ids[0]))

    # It hangs: nobody waits for it.
    far.answer("hang")
    ids.append(house.submit("while it hangs", "true"))
    hanging = eventually(lambda: [request for request in far.requests() if request["mode"] == "hang"])
    house.ask("GET", "/health")
    asked = [request for request in far.requests() if request["mode"] == "hang"]
    assert asked == hanging, "the daemon answers while the collector hangs: it has not tried again yet"

    # It is killed, and a person is told; then the daemon is killed too.
    far.kill()
    ids.append(house.submit("while it is away", "true"))
    (need,) = eventually(lambda: needs(house))
    assert "do not reach the collector" in need["what"] and far.url not in need["what"]
    house.kill_daemon()
    far.answer("503")
    far.start()
    house.ask("GET", "/health")
    eventually(lambda: far.requests()[-1]["mode"] == "503")
    far.answer("200")
    for task_id in ids:
        assert sorted(names(eventually(partial(trace, far, task_id)))) == ["attempt", "task", "wait"]
    eventually(lambda: not needs(house))
    assert len({span["span_id"] for span in far.spans()}) == len(far.spans()), (
        "nothing that was acknowledged came twice"
    )

    # Killed between the acknowledgement and its record: that batch comes again, the same, and nothing is left out.
    house.stop()
    before = len(far.spans())
    monkeypatch.setenv("CORRAL_CRASH_AT", "traces.acknowledged")
    last = house.submit("at the crash", "true")
    eventually(lambda: len(far.spans()) > before)
    eventually(lambda: house.daemon_pid() is None)
    monkeypatch.delenv("CORRAL_CRASH_AT")
    house.ask("GET", "/health")
    spans_of_task = eventually(lambda: trace(far, last))
    eventually(lambda: len(far.spans()) > len({span["span_id"] for span in far.spans()}))
    assert {"attempt", "task", "wait"} == set(names(spans_of_task))
    repeated = far.spans()[before:]
    assert len({json.dumps(span, sort_keys=True) for span in repeated}) == len({span["span_id"] for span in repeated})


def test_without_the_extra_a_person_is_told_what_to_install_until_it_is_there(
    coordinate: Callable[..., Coordinated], far: Collector, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shadow = tmp_path / "shadow" / "opentelemetry" / "exporter"
    put(shadow / "__init__.py", "raise ImportError('not installed')\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "shadow"))
    house = coordinate(config=CONFIG)
    switch_on(house, far)
    house.trust()
    house.ask("GET", "/health")
    task = house.submit("unsent", "true")
    (need,) = eventually(lambda: needs(house))
    assert "the extra `otel` is not installed" in need["what"] and "pip install " in need["remedy"]
    house.run("wait", task, "--timeout", "60")
    shadow.rename(tmp_path / "installed")
    assert sorted(names(eventually(lambda: trace(far, task)))) == ["attempt", "task", "wait"]
    eventually(lambda: not needs(house))
