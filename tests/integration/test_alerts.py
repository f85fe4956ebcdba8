"""Alerts and notifications of a real daemon: raised, told to a real webhook, seen, resolved, through a kill -9."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import yaml

from tests.integration.refusals import refused
from tests.support.coordinated import Coordinated, eventually
from tests.support.receiver import SECRET, Receiver, receiver

KEY = "sk-ant-api03-abcdefghijklmnop0123"
CONFIG = """
tasks: {max_retries: 0}
worktrees: {pool_min_files: 0}
alerts: {agent_failures: {threshold: 2}}
notifications: {group_s: 0.2, webhook_timeout_s: 3}
"""


@pytest.fixture
def far() -> Iterator[Receiver]:
    with receiver() as made:
        yield made


def change(house: Coordinated, **changes: dict[str, Any]) -> None:
    """Change the project's own configuration, which nobody approves."""
    file = house.root / ".corral" / "config.yaml"
    settings = yaml.safe_load(file.read_text())
    for section, values in changes.items():
        settings[section] = {**settings.get(section, {}), **values}
    file.write_text(yaml.safe_dump(settings))


def kinds(house: Coordinated) -> list[str]:
    return [need["kind"] for need in house.ask("GET", "/status")["needs_you"]]


def logged(house: Coordinated, event: str) -> list[dict[str, Any]]:
    lines = (house.root / ".corral" / "logs" / "corral.log").read_text().splitlines()
    return [line for line in map(json.loads, lines) if line["event"] == event]


@pytest.mark.req("FR-MONITOR-005")
def test_an_alert_from_its_rule_to_a_person_and_its_end(
    coordinate: Callable[..., Coordinated], far: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CORRAL_WEBHOOK_SECRET", SECRET)
    house = coordinate(config=CONFIG)
    change(house, notifications={"webhook_url": far.url})
    for number in (1, 2):
        house.submit(f"fails {number} with {KEY}", "exit 3")

    # Raised, once, and shown; nothing leaves before a person has approved the address.
    (alert,) = eventually(lambda: house.ask("GET", "/alerts"))
    assert (alert["rule"], alert["subject"], alert["state"], alert["times"]) == (
        "agent_failures",
        "command",
        "raised",
        1,
    )
    assert alert["reason"] == "Tasks of command failed 2 times within 1 hour."
    assert house.json("alert", "list") == [alert]
    assert alert["reason"] in house.run("alert", "list").stdout
    assert {"alert", "untrusted_commands"} <= set(kinds(house))
    (line,) = eventually(lambda: logged(house, "alert_raised"))
    assert line["level"] == "ERROR" and line["message"] == f"Alert agent_failures raised: {alert['reason']}"
    done = house.run("alert", "test", "--json", check=False)
    assert done.returncode == 1
    assert json.loads(done.stdout)["webhook"]["state"] == "not_approved"
    assert far.received == []

    # Approved: the news is told in one message, signed and without secrets; a webhook that hangs blocks nothing.
    far.answers = ["hang"]
    house.trust()
    eventually(lambda: far.received)
    house.ask("GET", "/health")
    assert len(far.received) == 1, "the daemon answers while the webhook hangs: it has not tried again yet"
    first, again = eventually(lambda: far.received if len(far.received) == 2 else None)
    assert first.body == again.body and first.is_signed and again.is_signed
    body = again.body
    assert (body["version"], body["project"], body["test"], body["left_out"]) == (1, house.root.name, False, 0)
    assert [alert["alert_id"] for alert in body["alerts"]] == [alert["alert_id"]]
    assert [need["kind"] for need in body["needs_you"]].count("failed_task") == 2
    assert "alert" not in [need["kind"] for need in body["needs_you"]], "told once, as an alert"
    assert KEY not in json.dumps(body) and SECRET not in json.dumps(body) and "[redacted]" in json.dumps(body)
    assert body["delivery_id"] == again.headers["X-Corral-Delivery"]
    answer = house.json("alert", "test")
    assert (answer["webhook"]["state"], answer["desktop"]["state"], answer["bell"]) == ("delivered", "off", False)
    assert far.received[-1].body["test"] is True
    number = len(far.received)

    # A daemon that is killed raises nothing again and tells nothing again.
    house.kill_daemon()
    assert [shown_alert["alert_id"] for shown_alert in house.json("alert", "list")] == [alert["alert_id"]]
    house.submit("works", "true")
    house.run("wait", "--all", "--timeout", "60", check=False)

    # Seen: it needs nobody any more, and is still open.
    acknowledged = house.json("alert", "ack", alert["alert_id"][:8])
    assert acknowledged["state"] == "acknowledged" and acknowledged["acknowledged_at"]
    assert house.json("alert", "ack", alert["alert_id"]) == acknowledged
    assert "alert" not in kinds(house) and house.json("alert", "list") == [acknowledged]
    code, error = refused(house, "alert", "ack", "0000")
    assert code == 3 and "alert list --all" in error["remedy"]
    code, error = refused(house, "alert", "ack", alert["alert_id"], CORRAL_TASK_ID="1")
    assert error["message"] == "Acknowledging an alert needs a person."

    # Its cause is gone: it resolves by itself, and that is told.
    change(house, alerts={"agent_failures": {"threshold": 50}})
    eventually(lambda: house.ask("GET", "/alerts") == [])
    (resolved,) = house.json("alert", "list", "--all")
    assert resolved["state"] == "resolved" and resolved["times"] == 1
    last = eventually(lambda: far.received[-1].body if len(far.received) > number else None)
    assert [(resolved["alert_id"], resolved["state"]) for resolved in last["alerts"]] == [
        (alert["alert_id"], "resolved")
    ]
    assert last["needs_you"] == []
    assert len(logged(house, "alert_raised")) == 1
    eventually(lambda: logged(house, "alert_acknowledged") and logged(house, "alert_resolved"))
    log = (house.root / ".corral" / "logs" / "corral.log").read_text()
    assert SECRET not in log and "room=4" not in log
