"""Sessions and locks as rows: who holds what, for how long, and what an end means."""

from __future__ import annotations

import shlex
from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Connection, select

from corral.coordination.edits import verdicts
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import literal_key, parse_key
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import sweep
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.sessions.sweep import Seen
from corral.core.errors import Conflict, InvalidInput, LockHeld
from corral.core.instants import iso
from corral.store import events, schema
from tests.support.locking import acquire

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
ENFORCE = Policy("enforce", 3600)
HERE, ELSEWHERE = "/repo", "/repo/.corral/worktrees/other"


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for name in ("a", "b", "c"):
        session_registry.register(any_database, Arrival(session_id=name, agent_name=name.upper() + "gent"), NOW)
    return any_database


def _edit(conn: Connection, who: str, path: str, checkout: str = HERE, now: datetime = NOW, **kin: Any) -> str | None:
    target = Target(literal_key(path, fold=False), checkout)
    return verdicts.before_edit(conn, Holder(who, **kin), target, ENFORCE, now).denial


def _held(conn: Connection, now: datetime = NOW) -> set[tuple[str, str]]:
    return {(row["session_id"], row["file_path"]) for row in lock_rows.listing(conn, iso(now))}


@pytest.mark.req("RESERVE-2")
def test_the_first_edit_takes_the_lock_and_the_second_session_is_refused_with_everything_it_must_know(
    conn: Connection,
) -> None:
    session_registry.change(conn, "a", {"current_task": "Fix the login"})
    assert _edit(conn, "a", "src/login.py") is None
    denial = _edit(conn, "b", "src/login.py", now=NOW + timedelta(minutes=8))
    assert denial is not None
    for part in ("src/login.py", "Agent", "Fix the login", "13:00 UTC", "52 min"):
        assert part in denial
    assert _held(conn) == {("a", "src/login.py")}


def test_an_edit_renews_its_lock(conn: Connection) -> None:
    _edit(conn, "a", "x")
    _edit(conn, "a", "x", now=NOW + timedelta(minutes=50))
    assert _edit(conn, "b", "x", now=NOW + timedelta(minutes=70)) is not None
    assert _edit(conn, "b", "x", now=NOW + timedelta(minutes=111)) is None


def test_locks_that_were_taken_together_are_listed_by_name_page_after_page(conn: Connection) -> None:
    names = [f"{letter}.py" for letter in "gcaebdf"]
    acquire(conn, [literal_key(name, fold=False) for name in names], Holder("a"), NOW, ttl_s=600)
    listed: list[str] = []
    after = None
    while rows := lock_table.listing(conn, NOW, after=after, limit=3):
        listed += [row["file_path"] for row in rows]
        after = lock_table.cursor(rows[-1])
    assert listed == sorted(names)
    first = lock_table.listing(conn, NOW, after=None, limit=1)[0]
    lock_rows.release(conn, first["session_id"], [first["file_path"]])
    rest = lock_table.listing(conn, NOW, after=lock_table.cursor(first), limit=100)
    assert [row["file_path"] for row in rest] == sorted(names)[1:], "none is left out where one is gone"


@pytest.mark.req("LOCKKEY-3", "RESERVE-3")
@pytest.mark.parametrize(
    ("held", "asked"), [("db:schema:users", "db:schema:Users"), ("src/*.py", "src/a.py"), ("x", "*")]
)
def test_a_lock_holds_until_it_expires_and_is_then_cleaned_up(conn: Connection, held: str, asked: str) -> None:
    def ask(seconds: float) -> list[str]:
        taken = acquire(conn, [parse_key(asked)], Holder("b"), NOW + timedelta(seconds=seconds), ttl_s=600)
        return [row["session_id"] for row in taken]

    acquire(conn, [parse_key(held)], Holder("a"), NOW, ttl_s=600)
    with pytest.raises(LockHeld):
        ask(599)
    assert ask(601) == ["b"], "even where nobody has cleaned up yet"
    assert lock_table.expire(conn, NOW + timedelta(seconds=602)) == NOW + timedelta(seconds=1201)
    assert [row.session_id for row in conn.execute(select(schema.file_locks))] == ["b"]
    last = events.listing(conn)[-1]
    assert (last["kind"], last["session_id"], last["data"]) == ("lock.expired", "a", {"path": held})


def test_the_same_file_in_another_checkout_is_only_a_remark(conn: Connection) -> None:
    _edit(conn, "a", "x")
    verdict = verdicts.before_edit(conn, Holder("b"), Target(literal_key("x", fold=False), ELSEWHERE), ENFORCE, NOW)
    assert verdict.denial is None
    assert "another worktree" in verdict.remarks[0]


def test_a_reservation_refuses_in_every_checkout_and_a_shared_one_only_remarks(conn: Connection) -> None:
    acquire(conn, [parse_key("docs/")], Holder("a"), NOW, ttl_s=600, reason="rewriting the docs")
    denial = _edit(conn, "b", "docs/guide/intro.md", ELSEWHERE)
    assert denial is not None
    assert "docs" in denial and "rewriting the docs" in denial
    acquire(conn, [parse_key("api/**")], Holder("a"), NOW, ttl_s=600, exclusive=False)
    assert _edit(conn, "b", "api/v1/users.py", ELSEWHERE) is None


@pytest.mark.parametrize(
    ("held", "asked", "free"),
    [
        ("src/a.py", "src/a.py", False),
        ("src", "src/deep/a.py", False),
        ("src/deep/a.py", "src", False),
        ("src/*.py", "src/a.py", False),
        ("src/a.py", "src/*.py", False),
        ("src/**/test_*.py", "src/x/y/test_a.py", False),
        ("src/*.py", "src/*.js", True),
        ("src", "src2/a.py", True),
        ("api:GET /v1/users", "api:get  /v1/users/", False),
        ("api:GET /v1/users", "api:GET /v1/users/7", True),
        ("db:schema:users", "src/db", True),
    ],
)
def test_what_overlaps_conflicts(conn: Connection, held: str, asked: str, free: bool) -> None:
    acquire(conn, [parse_key(held)], Holder("a"), NOW, ttl_s=600)
    if free:
        assert acquire(conn, [parse_key(asked)], Holder("b"), NOW, ttl_s=600)
    else:
        with pytest.raises(LockHeld):
            acquire(conn, [parse_key(asked)], Holder("b"), NOW, ttl_s=600)


def test_several_keys_are_taken_all_or_none(conn: Connection) -> None:
    acquire(conn, [parse_key("b.py")], Holder("a"), NOW, ttl_s=600)
    keys = [parse_key(path) for path in ("a.py", "b.py", "c.py")]
    with pytest.raises(LockHeld) as caught:
        acquire(conn, keys, Holder("b"), NOW, ttl_s=600)
    assert [conflict["file_path"] for conflict in caught.value.details["conflicts"]] == ["b.py"]
    assert _held(conn) == {("a", "b.py")}


def test_sharers_share_and_keep_an_exclusive_one_out(conn: Connection) -> None:
    key = [parse_key("x")]
    acquire(conn, key, Holder("a"), NOW, ttl_s=600, exclusive=False)
    acquire(conn, key, Holder("b"), NOW, ttl_s=600, exclusive=False)
    with pytest.raises(LockHeld):
        acquire(conn, key, Holder("c"), NOW, ttl_s=600)


@pytest.mark.parametrize("ttl_s", [0, -1, 0.5, 10**9])
def test_an_impossible_time_to_live_is_refused(conn: Connection, ttl_s: float) -> None:
    with pytest.raises(InvalidInput):
        acquire(conn, [parse_key("x")], Holder("a"), NOW, ttl_s=ttl_s)
    with pytest.raises(InvalidInput):
        acquire(conn, [], Holder("a"), NOW, ttl_s=600)


def test_an_edit_does_not_weaken_or_shorten_a_reservation(conn: Connection) -> None:
    acquire(conn, [parse_key("x")], Holder("a"), NOW, ttl_s=7200, reason="mine")
    _edit(conn, "a", "x")
    reserved = next(row for row in lock_rows.listing(conn, iso(NOW)) if not row["automatic"])
    assert (reserved["ttl_s"], reserved["reason"]) == (7200, "mine")
    assert _edit(conn, "b", "x", ELSEWHERE) is not None


def test_only_ones_own_locks_are_released(conn: Connection) -> None:
    acquire(conn, [parse_key("x")], Holder("a"), NOW, ttl_s=600)
    assert lock_table.release(conn, [parse_key("x")], Holder("b"), NOW) == []
    assert _held(conn) == {("a", "x")}
    assert len(lock_table.release(conn, [parse_key("x")], Holder("a"), NOW)) == 1
    assert _held(conn) == set()


def test_a_subagent_may_edit_what_its_parent_holds_but_not_what_its_sibling_holds(conn: Connection) -> None:
    for child in ("child-1", "child-2"):
        session_registry.register(conn, Arrival(session_id=child, parent_session_id="a"), NOW)
    _edit(conn, "a", "x")
    assert _edit(conn, "child-1", "x", kin=("a",)) is None
    assert _edit(conn, "child-1", "y", kin=("a",)) is None
    assert _edit(conn, "child-2", "y", kin=("a",)) is not None


def test_what_a_subagent_edited_in_its_parents_checkout_stays_with_the_parent(conn: Connection) -> None:
    session_registry.change(conn, "a", {"worktree": HERE})
    session_registry.register(conn, Arrival(session_id="child", parent_session_id="a"), NOW)
    _edit(conn, "a", "both", kin=("child",))
    for path, checkout in (("both", HERE), ("mine", HERE), ("apart", ELSEWHERE)):
        _edit(conn, "child", path, checkout, kin=("a",))
    acquire(conn, [parse_key("reserved")], Holder("child", kin=("a",)), NOW, ttl_s=600)
    ended = session_registry.end(conn, "child", "finished", NOW)
    assert ended is not None and set(ended["released"]) == {"both", "apart", "reserved"}
    assert _held(conn) == {("a", "both"), ("a", "mine")}
    assert _edit(conn, "b", "mine") is not None
    session_registry.end(conn, "a", "ended", NOW)
    assert _held(conn) == set()


def test_the_end_of_a_session_frees_what_it_and_its_subagents_hold(conn: Connection) -> None:
    session_registry.register(conn, Arrival(session_id="child", parent_session_id="a"), NOW)
    _edit(conn, "a", "x")
    _edit(conn, "child", "y", kin=("a",))
    _edit(conn, "b", "z")
    session_registry.end(conn, "a", "ended", NOW)
    assert _held(conn) == {("b", "z")}
    assert {row["session_id"] for row in session_rows.live(conn)} == {"b", "c"}
    over = [row["session_id"] for row in events.recent(conn) if row["kind"] == "session.ended"]
    assert sorted(str(session) for session in over) == ["a", "child"], "whoever wrote to either is told"
    assert session_registry.end(conn, "a", "ended", NOW) is None


def _doomed(conn: Connection, now: datetime, **over: object) -> set[str]:
    signs: dict[str, object] = {
        "awake_since": NOW,
        "is_running": lambda _pid, _started: True,
        **over,
    }
    return set(sweep.judge(conn, now, Seen(**signs), stall_after_s=900, end_after_s=1800))  # type: ignore[arg-type]


def _shown(conn: Connection) -> dict[str, str]:
    return {row["session_id"]: session_rows.shown_status(row) for row in session_rows.live(conn)}


@pytest.mark.req("HEARTBEAT-2", "HEARTBEAT-3")
def test_a_session_without_a_sign_in_its_turn_stalls_whatever_is_connected_and_is_over_after_as_long_again(
    conn: Connection,
) -> None:
    connected = frozenset({"a", "b", "c"})
    session_registry.alive(conn, Arrival(session_id="b"), NOW + timedelta(minutes=10))
    assert _doomed(conn, NOW + timedelta(minutes=16), connected=connected) == set()
    assert _shown(conn) == {"a": "stalled", "b": "active", "c": "stalled"}
    assert [row["session_id"] for row in session_rows.listing(conn, ["stalled"])] == ["a", "c"]
    assert [row["session_id"] for row in session_rows.listing(conn, ["active"])] == ["b"]
    session_registry.alive(conn, Arrival(session_id="c"), NOW + timedelta(minutes=17))
    assert _shown(conn)["c"] == "active", "a sign ends it"
    assert _doomed(conn, NOW + timedelta(minutes=31), connected=connected) == {"a"}


@pytest.mark.req("HEARTBEAT-3")
@pytest.mark.parametrize("at_rest", [{"status": "idle"}, {"waiting_for": "permission for Write"}])
def test_at_rest_a_session_with_a_process_that_lives_may_be_silent_for_ever(
    conn: Connection, at_rest: dict[str, str]
) -> None:
    session_registry.register(conn, Arrival(session_id="p", client_pid=4242, client_started=1.0), NOW)
    session_registry.register(conn, Arrival(session_id="its-child", parent_session_id="p", client_pid=4242), NOW)
    session_rows.change(conn, "p", at_rest)
    later = NOW + timedelta(days=3)
    over = _doomed(conn, later)
    assert "p" not in over and _shown(conn)["p"] == at_rest.get("status", "active")
    assert ("its-child" in over) is ("status" in at_rest), (
        "a subagent at work while its parent rests has nothing to wait for"
    )
    assert "p" in _doomed(conn, later, is_running=lambda _pid, _started: False)


def test_a_parent_waits_while_its_subagent_asks_the_person(conn: Connection) -> None:
    session_registry.register(conn, Arrival(session_id="p", client_pid=4242), NOW)
    session_registry.register(conn, Arrival(session_id="its-child", parent_session_id="p", client_pid=4242), NOW)
    session_rows.change(conn, "its-child", {"waiting_for": "permission for Bash"})
    assert not {"p", "its-child"} & _doomed(conn, NOW + timedelta(days=1))


def test_what_the_client_writes_down_is_a_sign_and_may_say_that_the_turn_is_over(conn: Connection) -> None:
    for name in ("talks", "broken-off"):
        session_registry.register(conn, Arrival(session_id=name, client_pid=4242), NOW)
    later = NOW + timedelta(minutes=40)
    wrote = {"talks": later - timedelta(minutes=1), "a": later + timedelta(hours=1)}
    over = _doomed(conn, later, output_at=wrote, resting=frozenset({"broken-off"}))
    assert over == {"a", "b", "c"}, "an instant to come is no sign"
    shown = _shown(conn)
    assert (shown["talks"], shown["broken-off"]) == ("active", "idle")


def test_a_machine_that_slept_is_not_a_massacre(conn: Connection) -> None:
    woke = NOW + timedelta(hours=8)
    session_registry.register(conn, Arrival(session_id="p", client_pid=4242), NOW)
    assert _doomed(conn, woke + timedelta(minutes=14), awake_since=woke) == set()
    assert set(_shown(conn).values()) == {"active"}, "the sleep counts for nobody"
    assert _doomed(conn, woke + timedelta(minutes=16), awake_since=woke) == {"a", "b", "c"}
    assert _shown(conn)["p"] == "stalled"
    assert _doomed(conn, woke + timedelta(minutes=31), awake_since=woke) == {"a", "b", "c", "p"}


def test_a_dead_process_ends_its_session_at_once(conn: Connection) -> None:
    session_registry.register(conn, Arrival(session_id="p", client_pid=4242, client_started=1.0), NOW)
    assert _doomed(conn, NOW, is_running=lambda pid, _started: pid != 4242) == {"p"}


def test_a_resumed_session_keeps_its_name(conn: Connection) -> None:
    first = session_registry.register(conn, Arrival(session_id="s"), NOW)
    session_registry.end(conn, "s", "ended", NOW)
    again = session_registry.register(conn, Arrival(session_id="s"), NOW + timedelta(days=1))
    assert again["agent_name"] == first["agent_name"]
    assert (again["status"], again["ended_at"], again["started_at"]) == ("active", None, first["started_at"])


def test_a_name_is_unique(conn: Connection) -> None:
    with pytest.raises(Conflict):
        session_registry.register(conn, Arrival(session_id="d", agent_name="Agent"), NOW)


def test_warn_allows_with_a_remark_and_off_says_nothing(conn: Connection) -> None:
    _edit(conn, "a", "x")
    target = Target(literal_key("x", fold=False), HERE)
    warned = verdicts.before_edit(conn, Holder("b"), target, Policy("warn", 60), NOW)
    assert warned.denial is None and "Agent" in warned.remarks[0]
    assert verdicts.before_edit(conn, Holder("c"), target, Policy("off", 60), NOW) == verdicts.Verdict()


def test_case_is_ignored_where_the_file_system_ignores_it(conn: Connection) -> None:
    verdicts.before_edit(conn, Holder("a"), Target(literal_key("Readme.md", fold=True), HERE), ENFORCE, NOW)
    other = Target(literal_key("README.MD", fold=True), HERE)
    assert verdicts.before_edit(conn, Holder("b"), other, ENFORCE, NOW).denial is not None


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(conn: Connection) -> None:
    _edit(conn, "a", "pages/[id].tsx")
    assert _edit(conn, "b", "pages/i.tsx") is None
    assert _edit(conn, "b", "pages/[id].tsx") is not None


def test_the_command_that_a_refused_session_is_told_can_be_typed(conn: Connection) -> None:
    name = "it's new; $HOME.md"
    _edit(conn, "a", name)
    denial = _edit(conn, "b", name)
    assert denial is not None
    command = denial.rpartition(" `")[2].partition("` tells")[0]
    assert shlex.split(command) == ["corral", "lock", "check", name]


def test_many_who_share_do_not_hide_one_who_does_not(conn: Connection) -> None:
    for number in range(60):
        key = [parse_key(f"d{number}/x.py")]
        acquire(conn, key, Holder("a"), NOW, ttl_s=60 + number, exclusive=number == 59)
    for everything in ("**/x.py", "*"):
        with pytest.raises(LockHeld) as refused:
            acquire(conn, [parse_key(everything)], Holder("b"), NOW, ttl_s=60, exclusive=False)
        assert [row["file_path"] for row in refused.value.details["conflicts"]] == ["d59/x.py"]
        with pytest.raises(LockHeld) as refused:
            acquire(conn, [parse_key(everything)], Holder("b"), NOW, ttl_s=60)
        assert len(refused.value.details["conflicts"]) == lock_table.MOST_TOLD


def test_an_exclusive_lock_that_expired_has_no_part_in_a_shared_one(conn: Connection) -> None:
    key, later = parse_key("src/a.py"), NOW + timedelta(seconds=61)
    (old,) = acquire(conn, [key], Holder("a"), NOW, ttl_s=60)
    (new,) = acquire(conn, [key], Holder("a"), later, ttl_s=60, exclusive=False)
    assert not new["exclusive"] and new["lock_id"] != old["lock_id"] and new["acquired_at"] == iso(later)
    assert len(acquire(conn, [key], Holder("b"), later, ttl_s=60, exclusive=False)) == 1
