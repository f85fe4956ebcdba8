"""Mail to an agent: whoever does its tasks gets it, it waits while nobody does, and a crash loses none of it."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from corral.config.teams import TeamAgent
from corral.coordination.mail import mailing, messages
from corral.coordination.mail.addresses import Identity, RecipientNotFound, identity, take
from corral.coordination.mail.messages import Letter
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end
from corral.coordination.sessions.registry import Arrival
from corral.coordination.teams.holder import Teams
from corral.core.states import MailWay
from corral.observe.announcements import store as announcements
from corral.work.tasks import leases
from tests.unit.work.conftest import START, Board, at

Row = dict[str, Any]
TEAM = Teams([TeamAgent(name=name, role="builder", capabilities=[], description="x") for name in ("Boulder", "Hill")])


class Office(Board):
    """Workers of two builders, and Ann, who writes to them."""

    def begin(self, worker: str, agent: str | None = "Boulder") -> None:
        def enter(conn: Any) -> None:
            session_registry.register(conn, Arrival(session_id=worker, agent=agent), START)
            if agent is not None:
                take(conn, agent, worker, START)

        self.do(enter)

    def write(self, subject: str, *to: str) -> list[str]:
        letter = Letter(subject=subject, body="x", to=to)
        sent = self.do(lambda conn: messages.send(conn, Identity("ann", "Ann"), letter, START, roles=TEAM.members))
        assert sent.bounced == []
        return sorted(recipient["session_id"] for recipient in sent.recipients)

    def told(self, worker: str) -> list[str]:
        """What it is told now."""
        text = "\n".join(self.do(lambda conn: mailing.deliver(conn, worker, MailWay.HOOK, at(1))))
        return [part.partition('"')[0] for part in text.split(' subject="')[1:]]

    def end(self, worker: str, status: str) -> None:  # type: ignore[override]
        self.do(lambda conn: session_end.end_attempt(conn, worker, status, at(2), leases.offering(self.rules)))

    def undelivered(self, worker: str) -> list[str]:
        """What its senders are going to hear of."""
        return [row["subject"] for row in self.db.read(lambda conn: announcements.unseen(conn, worker))]


@pytest.fixture
def office(board: Board) -> Office:
    office = Office(board.db)
    office.begin("ann", None)
    return office


def test_mail_to_a_member_or_its_role_reaches_each_of_its_workers_and_whoever_goes_by_its_name(office: Office) -> None:
    for worker, agent in (("w1", "Boulder"), ("w2", "Boulder"), ("w3", "Hill")):
        office.begin(worker, agent)
    assert office.write("one", "bOULDER") == ["w1", "w2"]
    assert office.write("two", "Builder") == ["w1", "w2", "w3"]
    office.do(lambda conn: session_registry.register(conn, Arrival(session_id="person", agent_name="boulder"), START))
    assert office.write("three", "Boulder") == ["person", "w1", "w2"]
    assert (office.told("w1"), office.told("w3")) == (["one", "two", "three"], ["two"])
    with pytest.raises(RecipientNotFound):
        office.write("four", "Pebble")


def test_mail_to_a_member_who_is_not_at_work_waits_for_its_next_worker(office: Office) -> None:
    (seat,) = office.write("one", "Boulder")
    assert office.write("two", "boulder") == [seat]
    office.begin("w1")
    assert office.write("three", "Boulder") == ["w1"]
    assert office.told("w1") == ["one", "two", "three"]
    office.end("w1", "completed")
    assert office.write("four", "Boulder") == [seat]
    office.begin("w2")
    office.begin("w3")
    assert (office.told("w2"), office.told("w3")) == (["four"], [])


def test_mail_to_a_role_passes_by_who_never_came(office: Office) -> None:
    with pytest.raises(RecipientNotFound):
        office.write("one", "builder")
    office.begin("w1", "Hill")
    assert office.write("two", "builder") == ["w1"]


@pytest.mark.parametrize("status", ["completed", "cancelled", "pending", "dead", "interrupted"])
def test_what_a_worker_has_not_seen_waits_for_the_next_and_what_it_was_told_too_if_its_work_is_lost(
    office: Office, status: str
) -> None:
    office.begin("w1")
    own = office.write("told", "Boulder", "w1") and office.write("told by name", "w1")
    assert own == ["w1"] and office.told("w1") == ["told", "told by name"]
    office.write("unseen", "Boulder")
    office.write("unseen by name", "w1")
    office.do(
        lambda conn: session_end.end(conn, "w1", "other", at(2), leases.offering(office.rules))
    )  # its client says so first
    office.end("w1", status)
    lost = status not in ("completed", "cancelled")
    assert office.undelivered("w1") == ["told by name"] * lost + ["unseen by name"]
    office.begin("w2")
    assert office.told("w2") == ["told"] * lost + ["unseen"]


def test_what_another_worker_of_the_agent_has_too_comes_back_to_nobody(office: Office) -> None:
    office.begin("w1")
    office.begin("w2")
    office.write("one", "Boulder")
    office.end("w1", "dead")
    assert office.undelivered("w1") == [] and office.told("w2") == ["one"]


def test_a_worker_reads_and_writes_under_the_name_of_its_agent(office: Office) -> None:
    office.begin("w1")
    office.begin("w2")
    assert [office.do(partial(identity, session_id=who, name="boulder")).name for who in ("w1", "w2")] == [
        "Boulder",
        "Boulder",
    ]
