"""What one answer of a hook hands over is bounded, and can be taken back as long as nobody has heard it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

import pytest
from sqlalchemy import Connection

from corral.coordination.mail import mailing, messages
from corral.coordination.mail.addresses import Identity
from corral.coordination.mail.messages import Letter
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.instants import iso
from corral.core.states import MailWay, SessionStatus

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
LATER = NOW + timedelta(seconds=5)


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for pid, name in enumerate(("a", "b", "c"), 100):
        session_registry.register(any_database, Arrival(session_id=name, agent_name=name.upper(), client_pid=pid), NOW)
    return any_database


def send(conn: Connection, body: str, importance: str = "normal") -> None:
    letter = Letter(subject="Hello", body=body, to=("B",), importance=importance)
    messages.send(conn, Identity("a", "A"), letter, NOW)


def test_a_flood_of_notices_comes_in_parts_and_one_that_is_too_long_comes_alone(conn: Connection) -> None:
    texts = [f"{number} {'x' * 300}" for number in range(8)] + ["y" * 5000, *(f"z{number}" for number in range(30))]
    for text in texts:
        session_rows.notify(conn, "b", text, iso(NOW))
    parts = []
    while part := session_rows.take_notices(conn, "b", iso(NOW)):
        assert sum(map(len, part)) <= session_rows.NOTICES_LENGTH and len(part) <= session_rows.NOTICES_AT_ONCE
        parts.append(part)
    assert [len(part) for part in parts] == [6, 2, 1, 20, 10]
    assert [text for part in parts for text in part] == [text[: session_rows.NOTICES_LENGTH] for text in texts]
    assert not message_rows.anything_waits(conn, "b")


def test_what_was_not_heard_waits_again_and_what_was_heard_does_not(conn: Connection) -> None:
    send(conn, "early")
    mailing.deliver(conn, "b", MailWay.HOOK, NOW)
    send(conn, "late", "urgent")
    session_rows.notify(conn, "b", "a notice", iso(NOW))
    assert "| late" in str(mailing.hold(conn, "b", LATER))
    session_rows.take_notices(conn, "b", iso(LATER))
    assert mailing.hold(conn, "b", LATER) is None and not message_rows.anything_waits(conn, "b")
    message_rows.put_back(conn, "c", iso(NOW), iso(LATER))
    assert not message_rows.anything_waits(conn, "b")
    message_rows.put_back(conn, "b", iso(LATER), iso(LATER))
    assert session_rows.take_notices(conn, "b", iso(LATER)) == ["a notice"]
    held = str(mailing.hold(conn, "b", LATER))
    assert "| late" in held and "early" not in held


def test_urgent_mail_that_did_not_fit_holds_the_next_stop(conn: Connection) -> None:
    for number in range(3):
        send(conn, f"{number}{'x' * 2500}", "urgent")
    held = [str(mailing.hold(conn, "b", NOW)) for _ in range(3)]
    assert [[f"| {number}x" in text for number in range(3)] for text in held[:2]] == [
        [True] * 2 + [False],
        [False] * 2 + [True],
    ]
    assert held[2] == "None"


def test_mail_is_found_by_the_client_of_its_reader_or_where_that_is_unknown_by_the_reader(conn: Connection) -> None:
    def found(clients: list[int], session_ids: list[str], *importances: str) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in message_rows.waited_for(conn, clients, session_ids, importances)]

    send(conn, "x", "high")
    assert found([101], [], "normal", "high") == [("b", 101, "active", iso(NOW))]
    session_rows.change(conn, "b", {"status": SessionStatus.IDLE})
    assert found([101], [], "high") == [("b", 101, "idle", iso(NOW))]
    assert found([100, 102], ["b"], "high") == []
    assert found([101], [], "urgent") == found([101], []) == []
    session_rows.change(conn, "b", {"client_pid": None})
    assert found([101], ["b"], "high") == [("b", None, "idle", iso(NOW))]
    mailing.deliver(conn, "b", MailWay.HOOK, NOW)
    assert found([101], ["b"], "high") == []
