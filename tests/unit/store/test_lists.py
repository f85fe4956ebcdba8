"""Lists that are read a part at a time: nothing twice, nothing missed, whatever changes meanwhile."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone

from sqlalchemy import Connection

from corral.config.sections.work import Tasks as TaskRules
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.work.tasks import tasks, views
from corral.work.tasks.store import tasks as task_rows
from corral.work.tasks.wire import read_submissions

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)


def test_sessions_are_read_by_when_they_began_however_they_beat(any_database: Connection) -> None:
    for number in range(300):
        session_registry.register(any_database, Arrival(f"s{number:03}"), NOW + timedelta(seconds=number // 7))
    wanted = sorted((f"s{number:03}" for number in range(300)), reverse=True)
    assert [row["session_id"] for row in session_rows.latest(any_database)] == wanted
    last = session_rows.get(any_database, wanted[100])
    assert last is not None
    session_registry.alive(any_database, Arrival(wanted[200]), NOW + timedelta(hours=1))
    behind = (last["started_at"], last["session_id"])
    assert [row["session_id"] for row in session_rows.latest(any_database, ["active"], behind)] == wanted[101:]
    assert list(session_rows.latest(any_database, ["disconnected"])) == []


def test_tasks_are_read_by_priority_and_age_whatever_becomes_of_the_one_before(any_database: Connection) -> None:
    submissions = [{"title": f"t{number}", "description": "d", "priority": number % 4} for number in range(40)]
    tasks.submit_batch(any_database, read_submissions(submissions), NOW, TaskRules())
    whole = views.listing(any_database)
    assert [row["title"] for row in whole[:3]] == ["t3", "t7", "t11"]
    place = views.cursor(whole[14])
    task_rows.transition(any_database, whole[14]["task_id"], ("pending",), {"priority": 0})
    following = views.listing(any_database, after=place, limit=10)
    assert following == whole[15:25]
    assert views.listing(any_database, after="0,nobody") == []
