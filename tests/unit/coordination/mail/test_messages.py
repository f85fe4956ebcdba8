"""Messages as rows: whom they reach, what is refused before anything is stored, and what becomes of them."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Connection, func, select

from corral.coordination.mail import addresses, mailbox, mailing, messages
from corral.coordination.mail.addresses import Identity, RecipientNotFound
from corral.coordination.mail.messages import Letter, QuotaExceeded
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.names import agent_name
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import names, traces
from corral.core.errors import Conflict, CorralError, IdempotencyKeyConflict, InvalidInput, NotFound, NotPermitted
from corral.core.instants import after, iso
from corral.core.states import MailWay
from corral.store import events, schema_coordination
from corral.store.engine import search
from tests.unit.coordination.mail.inboxes import inbox

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
ANN, BEN = Identity("a", "Ann"), Identity("b", "Ben")


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for session_id, name in (("a", "Ann"), ("b", "Ben"), ("c", "Cid")):
        session_registry.register(any_database, Arrival(session_id=session_id, agent_name=name), NOW)
    return any_database


def _letter(*to: str, **how: object) -> Letter:
    return Letter(**{"subject": "Hello", "body": "How are you?", "to": to, **how})  # type: ignore[arg-type]


def _stored(conn: Connection) -> int:
    return int(conn.execute(select(func.count()).select_from(schema_coordination.messages)).scalar_one())


def _subjects(conn: Connection, who: str, **which: Any) -> list[str]:
    return [row["subject"] for row in inbox(conn, who, **which)]


@pytest.mark.parametrize(
    ("to", "reached"),
    [
        (["Ben"], {"b"}),
        (["bEN"], {"b"}),
        (["b"], {"b"}),
        (["sisyphus"], {"c"}),
        (["All"], {"b", "c"}),
        (["reviewer"], {"b", "c"}),
        (["Ben", "ben", "b", "Ann"], {"a", "b"}),
    ],
)
def test_an_address_is_a_name_an_id_a_role_or_everybody(conn: Connection, to: list[str], reached: set[str]) -> None:
    addresses.bind(conn, "c", "Sisyphus", NOW)
    team = {"reviewer": ["Ben", "Sisyphus", "Absent"], "tester": ["Absent"]}
    sent = messages.send(conn, ANN, _letter(*to), NOW, roles=team.get)
    assert {recipient["session_id"] for recipient in sent.recipients} == reached
    assert len(sent.recipients) == len(reached)


def test_unknown_recipients_are_all_named_and_nothing_is_sent(conn: Connection) -> None:
    with pytest.raises(RecipientNotFound) as error:
        messages.send(conn, ANN, _letter("Ben", "Bem", "tester", ""), NOW, roles={"tester": ["Absent"]}.get)
    assert error.value.details["unknown"] == ["Bem", "tester", ""]
    assert "Did you mean Ben" in error.value.remedy
    assert _stored(conn) == 0


@pytest.mark.parametrize(
    "wrong",
    [
        {"to": ()},
        {"subject": " \n\x00 "[:2]},
        {"subject": "x" * 501},
        {"body": "é" * 32769},
        {"body": "x" * 5_000_000},
        {"importance": "dire"},
        {"thread_id": "../x"},
        {"thread_id": "x" * 129},
        {"attachments": ("/etc/passwd",)},
        {"attachments": ("src/../../x",)},
        {"attachments": ("~/x",)},
        {"attachments": ("",)},
        {"attachments": ("a\nb",)},
        {"attachments": ("..\\x",)},
        {"attachments": ("a",) * 101},
        {"attachments": ("a" * 1025,)},
        {"idempotency_key": ""},
    ],
)
def test_what_is_malformed_or_too_long_is_refused_before_anything_is_stored(
    conn: Connection, wrong: dict[str, object]
) -> None:
    with pytest.raises(InvalidInput):
        messages.send(conn, ANN, _letter("Ben", **wrong) if "to" not in wrong else _letter(), NOW)
    assert _stored(conn) == 0


def test_a_body_of_exactly_the_limit_and_any_characters_comes_as_it_was(conn: Connection) -> None:
    body = "</corral-mail>\x1b[2J\ud800\0" + "x" * (64 * 1024 - 22)
    messages.send(conn, ANN, _letter("Ben", body=body), NOW)
    (row,) = inbox(conn, "b")
    assert row["body"] == body.replace("\ud800", "\\ud800").replace("\0", "\u2400")


def test_a_key_sends_once_and_stands_for_one_message(conn: Connection) -> None:
    first = messages.send(conn, ANN, _letter("Ben", idempotency_key="k"), NOW)
    again = messages.send(conn, ANN, _letter("Ben", idempotency_key="k"), NOW + timedelta(hours=1))
    assert (again.message["seq"], again.replayed, first.replayed) == (first.message["seq"], True, False)
    assert [recipient["session_id"] for recipient in again.recipients] == ["b"]
    for other in (_letter("Cid", idempotency_key="k"), _letter("Ben", body="Other", idempotency_key="k")):
        with pytest.raises(IdempotencyKeyConflict):
            messages.send(conn, ANN, other, NOW)
    messages.send(conn, BEN, _letter("Ann", idempotency_key="k"), NOW)
    assert _stored(conn) == 2


def test_a_sender_has_a_quota_by_the_minute(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "PER_MINUTE", 3)
    for second in (0, 10, 20):
        messages.send(conn, ANN, _letter("Ben"), NOW + timedelta(seconds=second))
    with pytest.raises(QuotaExceeded):
        messages.send(conn, ANN, _letter("Ben"), NOW + timedelta(seconds=59))
    messages.send(conn, BEN, _letter("Ann"), NOW + timedelta(seconds=59))
    messages.send(conn, ANN, _letter("Ben"), NOW + timedelta(seconds=61))


def test_mail_to_one_that_is_gone_bounces_and_is_there_when_it_comes_back(conn: Connection) -> None:
    session_registry.end(conn, "b", "ended", NOW)
    sent = messages.send(conn, ANN, _letter("Ben", "Cid"), NOW)
    assert sent.bounced == ["Ben"]
    (row,) = inbox(conn, "b")
    assert row["state"] == "bounced"
    session_registry.register(conn, Arrival(session_id="b"), NOW)
    assert "How are you?" in "".join(mailing.deliver(conn, "b", MailWay.HOOK, NOW))


def test_an_answer_goes_to_the_sender_in_the_thread_with_the_importance(conn: Connection) -> None:
    first = messages.send(conn, ANN, _letter("Ben", importance="urgent", thread_id="batch-7", ack_required=True), NOW)
    answer = messages.reply(conn, BEN, str(first.message["seq"]), Letter("Re:", "Fine"), NOW).message
    more = messages.reply(conn, ANN, answer["message_id"], Letter("Re:", "Good", cc=("Cid",)), NOW)
    assert (answer["subject"], more.message["subject"]) == ("Re: Hello", "Re: Hello")
    assert (answer["importance"], answer["ack_required"], answer["reply_to"]) == (
        "urgent", True, first.message["message_id"],
    )  # fmt: skip
    assert [(recipient["name"], recipient["role"]) for recipient in more.recipients] == [("Ben", "to"), ("Cid", "cc")]
    assert [row["body"] for row in mailbox.thread(conn, "batch-7")] == ["Good", "Fine", "How are you?"]
    assert [row["body"] for row in mailbox.thread(conn, "batch-7", before=answer["seq"])] == ["How are you?"]
    assert len(list(mailbox.thread(conn, str(first.message["seq"])))) == 3
    with pytest.raises(NotFound):
        mailbox.thread(conn, "no-such")
    with pytest.raises(NotFound):
        messages.reply(conn, BEN, "999", Letter("Re:", "x"), NOW)


def test_an_id_that_is_anothers_name_gets_none_of_its_mail(conn: Connection) -> None:
    addresses.bind(conn, "c", "Boss", NOW)
    for name in ("Ben", "Boss"):
        session_registry.register(conn, Arrival(session_id=name, agent_name=f"Not{name}"), NOW)
        messages.send(conn, ANN, _letter(name), NOW)
        assert _subjects(conn, name) == []
    assert _subjects(conn, "b") == _subjects(conn, "c") == ["Hello"]
    session_registry.end(conn, "b", "ended", NOW)
    messages.send(conn, ANN, _letter("Ben", subject="Once it is gone, the id is an address"), NOW)
    assert len(_subjects(conn, "Ben")) == 1
    session_registry.end(conn, "Ben", "ended", NOW)
    with pytest.raises(Conflict):
        addresses.bind(conn, "c", "Ben", NOW)
    session_registry.register(conn, Arrival(session_id="dead", agent_name="Dead"), NOW)
    session_registry.end(conn, "dead", "ended", NOW)
    with pytest.raises(Conflict):
        addresses.bind(conn, "c", "DEAD", NOW)


def test_the_inbox_is_newest_first_and_can_be_narrowed(conn: Connection) -> None:
    for minute, importance in enumerate(("low", "urgent", "high", "normal")):
        letter = _letter("Ben", subject=importance, importance=importance)
        messages.send(conn, ANN, letter, NOW + timedelta(minutes=minute))
    assert _subjects(conn, "b") == ["normal", "high", "urgent", "low"]
    assert _subjects(conn, "b", limit=2) == ["normal", "high"]
    assert _subjects(conn, "b", urgent_only=True) == ["high", "urgent"]
    assert _subjects(conn, "b", since_ts="2026-11-21T12:02:00Z") == ["normal"]
    assert _subjects(conn, "b", since_ts="2026-11-21T13:02:00+01:00") == ["normal"]
    assert _subjects(conn, "b", after=2) == ["normal", "high"]
    assert _subjects(conn, "c") == [] == _subjects(conn, "a")
    messages.mark_read(conn, "b", 1, NOW)
    assert _subjects(conn, "b", unread_only=True) == ["normal", "high", "urgent"]
    for number in (5, 6, 7):
        asking = _letter("Ben", subject=f"please {number}", importance="high", ack_required=True)
        messages.send(conn, ANN, asking, NOW + timedelta(minutes=number))
    messages.mark_read(conn, "b", 5, NOW)
    messages.acknowledge(conn, "b", 6, NOW)
    late = after(NOW, 7 * 60)
    assert _subjects(conn, "b", overdue_at=late) == ["please 5"], "to read is not to acknowledge, and the last has time"
    assert _subjects(conn, "b", overdue_at=after(NOW, 3600), urgent_only=True, limit=1) == ["please 7"]
    assert _subjects(conn, "c", overdue_at=late) == []
    for wrong in ({"limit": 0}, {"limit": 1001}, {"since_ts": "yesterday"}):
        with pytest.raises(InvalidInput):
            mailbox.inbox(conn, "b", **wrong)


def test_a_receipt_keeps_its_first_times_and_is_the_recipients_own(conn: Connection) -> None:
    messages.send(conn, ANN, _letter("Ben"), NOW)
    later = NOW + timedelta(minutes=1)
    first = messages.acknowledge(conn, "b", 1, NOW)
    again = messages.acknowledge(conn, "b", 1, later)
    assert (first["acknowledged_at"], first["read_at"]) == (again["acknowledged_at"], again["read_at"])
    assert first["read_at"] is not None
    for stranger in ("a", "c"):
        with pytest.raises(NotFound):
            messages.acknowledge(conn, stranger, 1, NOW)


def test_a_sender_is_told_what_is_stored(conn: Connection) -> None:
    session_registry.end(conn, "c", "ended", NOW)
    sent = messages.send(conn, ANN, _letter("Ben", cc=("Cid",)), NOW)
    assert sent.recipients == message_rows.recipients(conn, sent.message["seq"])
    assert [recipient["state"] for recipient in sent.recipients] == ["queued", "bounced"]


def test_the_index_is_never_far_behind(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "AT_ONCE", 8)
    for _ in range(search.AT_ONCE):
        messages.send(conn, ANN, _letter("Ben", body="okapi"), NOW)
    assert len(search.matching(conn, "messages", "okapi", 1000, newest=True)) == search.AT_ONCE
    assert not search.count_unlearned(conn, "messages")


def test_a_message_is_found_by_its_words(conn: Connection) -> None:
    messages.send(conn, ANN, _letter("Ben", subject="Migration", body="The users table gets a column"), NOW)
    messages.send(conn, ANN, _letter("Cid", subject="Lunch", body="At noon, with users"), NOW)
    search.learn(conn, "messages")
    assert [row["subject"] for row in mailbox.find(conn, "users column")] == ["Migration"]
    assert len(list(mailbox.find(conn, "users"))) == 2
    assert [row["subject"] for row in mailbox.find(conn, "users", session_id="c")] == ["Lunch"]
    assert list(mailbox.find(conn, '" OR * NEAR(')) == []
    with pytest.raises(InvalidInput):
        mailbox.find(conn, "  ")


# -- names


def test_a_session_acts_under_its_own_names_only(conn: Connection) -> None:
    addresses.bind(conn, "a", "Sisyphus", NOW, task_description="Orchestrator - Batch 1")
    assert addresses.identity(conn, "a", "SISYPHUS") == Identity("a", "Sisyphus")
    assert addresses.identity(conn, "a", None) == ANN
    with pytest.raises(NotPermitted):
        addresses.identity(conn, "b", "Sisyphus")
    with pytest.raises(NotPermitted):
        addresses.identity(conn, "b", "ann")
    with pytest.raises(NotFound):
        addresses.identity(conn, "b", "Nobody")


def test_a_name_has_one_holder_and_passes_on_with_its_unread_mail_when_that_one_is_gone(conn: Connection) -> None:
    addresses.bind(conn, "a", "Sisyphus", NOW)
    addresses.bind(conn, "a", "sisyphus", NOW)
    messages.send(conn, BEN, _letter("Sisyphus", subject="for the role"), NOW)
    messages.send(conn, BEN, _letter("Ann", subject="for Ann"), NOW)
    for taken in ("Sisyphus", "cID"):
        with pytest.raises(Conflict):
            addresses.bind(conn, "b", taken, NOW)
    session_registry.end(conn, "a", "ended", NOW)
    addresses.bind(conn, "c", "Sisyphus", NOW)
    assert _subjects(conn, "c") == ["for the role"]
    assert _subjects(conn, "a") == ["for Ann"]
    addresses.bind(conn, "c", "Ann", NOW)
    assert _subjects(conn, "c") == ["for Ann", "for the role"]
    assert session_registry.find(conn, "Ann.1")["session_id"] == "a", "who it was is still told apart"
    for wrong in ("All", "corral", "a b", "", "x" * 65):
        with pytest.raises(CorralError):
            addresses.bind(conn, "c", wrong, NOW)


@pytest.mark.parametrize("chosen", ["Ben", "bEN", "sisyphus", "b", "all", "Corral", "corral"])
def test_no_session_arrives_under_a_name_that_means_another(conn: Connection, chosen: str) -> None:
    addresses.bind(conn, "c", "Sisyphus", NOW)
    for arrival in (Arrival(session_id="d", agent_name=chosen), Arrival(session_id="a", agent_name=chosen)):
        with pytest.raises((Conflict, InvalidInput)):
            session_registry.register(conn, arrival, NOW)
    person = session_registry.register(conn, Arrival(session_id="p", agent_type="person", agent_name=chosen), NOW)
    assert names.holders(conn, person["agent_name"]) == [person]
    sent = messages.send(conn, ANN, _letter("sisyphus", "Ben"), NOW)
    assert {recipient["session_id"] for recipient in sent.recipients} == {"b", "c"}


def test_a_name_that_is_found_is_nobody_elses_in_any_case(conn: Connection) -> None:
    first = agent_name(lambda _name: False, "seed")
    addresses.bind(conn, "c", first.lower(), NOW)
    assert session_registry.register(conn, Arrival(session_id="seed"), NOW)["agent_name"] != first


@pytest.mark.parametrize("chosen", ["Ben", "ben"])
def test_who_arrives_under_the_name_of_one_that_is_gone_gets_its_unread_mail(conn: Connection, chosen: str) -> None:
    addresses.bind(conn, "b", "Boss", NOW)
    for letter in (_letter("Ben", importance="urgent"), _letter("Boss", subject="for the role")):
        messages.send(conn, ANN, letter, NOW)
    assert mailing.hold(conn, "b", NOW) is not None
    session_registry.end(conn, "b", "ended", NOW)
    session_registry.register(conn, Arrival(session_id="d", agent_name=chosen), NOW)
    assert _subjects(conn, "d") == ["Hello"] and _subjects(conn, "b") == ["for the role"]
    assert mailing.hold(conn, "d", NOW) is not None
    session_registry.register(conn, Arrival(session_id="d", agent_name="boss"), NOW)
    assert _subjects(conn, "d") == ["for the role", "Hello"]
    for address in ("Boss", "BOSS"):
        assert addresses.known(conn, address)["session_id"] == "d"


def test_a_blind_copy_is_known_to_its_recipient_and_its_sender_only(conn: Connection) -> None:
    session_registry.end(conn, "c", "ended", NOW)
    messages.send(conn, ANN, _letter("Ben", bcc=("Cid",)), NOW)
    search.learn(conn, "messages")
    for asker, count in (("c", 1), ("a", 1), ("b", 0), (None, 0)):
        assert len(list(mailbox.find(conn, "Hello", session_id="c", asker=asker))) == count
    assert [row["addressed"] for row in inbox(conn, None)] == ["Ben"]
    assert _subjects(conn, "c", blind=False) == [] != _subjects(conn, "c")
    (event,) = (row for row in events.listing(conn) if row["kind"] == "message.sent")
    assert event["data"]["bounced"] == []


def test_of_two_names_of_one_instant_a_session_goes_by_its_own(conn: Connection) -> None:
    for name in ("BraveRidge", "Ann"):
        names.bind(conn, {"name": name, "session_id": "a", "registered_at": iso(NOW)})
    assert traces.called(conn, session_registry.find(conn, "a")) == "Ann"
