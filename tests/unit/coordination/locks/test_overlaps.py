"""Which locks overlap a key: the same by index, by one look at all of them, and by trying each; and what that costs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, insert

from corral.coordination.locks import overlaps as lock_overlaps
from corral.coordination.locks import table as lock_table
from corral.coordination.locks.keys import LockKey, keys_overlap, parse_key
from corral.coordination.locks.overlaps import Overlaps
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.errors import Conflict, InvalidInput, LockHeld
from corral.core.identifiers import new_id
from corral.core.instants import after, iso
from corral.store.schema import file_locks
from corral.store.table import metadata
from tests.support.examples import examples
from tests.support.locking import acquire
from tests.support.steps import only_sqlite, steps

pytestmark = pytest.mark.one_python

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for name in ("a", "b", "c"):
        session_registry.register(any_database, Arrival(session_id=name), NOW)
    return any_database


def hold(conn: Connection, keys: Sequence[str], who: str = "b", **more: Any) -> None:
    """Locks as they are stored, whether they overlap or not."""
    common = {
        "checkout": "", "session_id": who, "exclusive": True, "automatic": False, "reason": None, "task_id": None,
        "ttl_s": 600.0, "acquired_at": iso(NOW), "expires_at": after(NOW, 600),
    }  # fmt: skip
    parsed = [vars(parse_key(key)) for key in dict.fromkeys(keys)]
    distinct = {key["match_key"]: key for key in parsed}.values()
    conn.execute(insert(file_locks), [{**common, **key, "lock_id": new_id(), **more} for key in distinct])


_PARTS = ("a", "b", "ab", "a.b", "*", "a*", "*b", "?", "**", "[ab]", "d:x", "[!a]*")
_PATHS = st.lists(st.sampled_from(_PARTS), min_size=1, max_size=4).map("/".join).map("./{}".format)
_KEYS = st.one_of(_PATHS, _PATHS.map("{}/".format), st.sampled_from(("api:GET /a", "db:schema:a", "event:a.b")))


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(_KEYS, min_size=1, max_size=12), st.lists(_KEYS, min_size=1, max_size=4))
def test_what_overlaps_is_found_whichever_way_it_is_looked_for(held: list[str], asked: list[str]) -> None:
    engine = create_engine("sqlite://")
    metadata.create_all(engine)
    with engine.connect() as conn:
        session_registry.register(conn, Arrival(session_id="b"), NOW)
        hold(conn, held)
        overlaps = Overlaps(conn, ["a"], NOW)
        for text in asked:
            key = parse_key(text)
            alone = {parse_key(lock_key).match_key for lock_key in held if keys_overlap(key, parse_key(lock_key))}
            assert {row["match_key"] for row in overlaps.of(key)} == alone, text
    engine.dispose()


def test_ones_own_do_not_count_nor_what_is_shared_nor_what_is_over(conn: Connection) -> None:
    hold(conn, ["own.py", "x*"], "a")
    hold(conn, ["theirs.py"], "b")
    hold(conn, ["shared.py", "s*"], "c", exclusive=False)
    hold(conn, ["old.py", "o*"], "c", expires_at=iso(NOW))

    def found(key: str, **more: Any) -> list[str]:
        return sorted(row["file_path"] for row in Overlaps(conn, ["a"], NOW, **more).of(parse_key(key)))

    assert found("*.py") == ["s*", "shared.py", "theirs.py"]
    assert found("*.py", exclusive_only=True) == ["theirs.py"]
    assert found("theirs.py") == ["theirs.py"] and found("own.py") == found("old.py") == []


def test_of_many_the_first_to_expire_are_told(conn: Connection) -> None:
    for number in range(20):
        hold(conn, [f"f{number}.py"], expires_at=after(NOW, 1000 - number))
    for key in ("*.py", "**", "*", "**/*.py"):
        rows = Overlaps(conn, ["a"], NOW).of(parse_key(key), 3)
        assert [row["file_path"] for row in rows] == ["f19.py", "f18.py", "f17.py"]


def test_a_refusal_tells_of_some_and_of_each_path_at_least_one(conn: Connection) -> None:
    hold(conn, [f"d{number % 40}/f{number}.py" for number in range(3000)])
    with pytest.raises(LockHeld) as refused:
        acquire(conn, [parse_key(f"d{number}") for number in range(40)], Holder("a"), NOW, ttl_s=60)
    requested = [conflict["requested"] for conflict in refused.value.details["conflicts"]]
    assert len(requested) <= lock_table.MOST_IN_ALL + 40 and set(requested) == {f"d{number}" for number in range(40)}
    assert max(map(requested.count, requested)) == lock_table.MOST_TOLD


def test_more_than_can_be_compared_is_refused_by_name(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    hold(conn, [f"f{number}.py" for number in range(100)])
    keys = [parse_key(f"*.{kind}") for kind in ("rs", "go", "c")]
    assert len(acquire(conn, keys, Holder("a"), NOW, ttl_s=60)) == 3
    monkeypatch.setattr(lock_overlaps, "MOST_COMPARED", 2000)
    with pytest.raises(InvalidInput, match="too many locks") as refused:
        acquire(conn, keys, Holder("c"), NOW, ttl_s=60)
    assert "100 paths" in refused.value.cause


def test_there_are_only_so_many_globs(conn: Connection, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_table, "MOST_GLOBS", 3)
    several = [parse_key(f"d{number}/*.py") for number in range(3)]
    acquire(conn, several, Holder("a"), NOW, ttl_s=60)
    acquire(conn, several, Holder("a"), NOW, ttl_s=90)
    acquire(conn, [parse_key("e/f.py")], Holder("b"), NOW, ttl_s=60)
    with pytest.raises(Conflict, match="3 globs") as refused:
        acquire(conn, [parse_key("e/*.py")], Holder("b"), NOW, ttl_s=60)
    assert "release" in refused.value.remedy


@only_sqlite
def test_ordinary_paths_cost_as_much_among_ten_thousand_locks_as_among_a_hundred(conn: Connection) -> None:
    me, key, edited = Holder("a"), parse_key("src/mine/a.py"), parse_key("src/mine/b.py")
    actions: dict[str, Callable[[], object]] = {
        "acquire": lambda: acquire(conn, [key], me, NOW, ttl_s=60),
        "acquire a glob": lambda: acquire(conn, [parse_key("src/mine/*.rs")], me, NOW, ttl_s=60),
        "check": lambda: lock_table.overlapping(conn, key, Holder("c"), NOW),
        "edit": lambda: lock_table.hold(conn, [edited], me, "/repo", NOW, ttl_s=60),
        "release": lambda: lock_table.release(conn, [key, edited, parse_key("src/mine/*.rs")], me, NOW),
    }
    hold(conn, [f"src/d{number % 97}/f{number}.py" for number in range(100)])
    few = {name: steps(conn, action) for name, action in actions.items()}
    hold(conn, [f"src/d{number % 97}/f{number}.py" for number in range(100, 10_000)])
    many = {name: steps(conn, action) for name, action in actions.items()}
    assert all(many[name] <= 1.5 * few[name] for name in actions), (few, many)


def test_a_path_is_compared_with_the_globs_that_begin_as_it_does(conn: Connection) -> None:
    hold(conn, [f"docs/d{number}/*.md" for number in range(900)])
    wild = ["*.py", "?rc/x*", "[s]rc/y*", "\\*rc/z*", "./d:x/*", "src/*.rs", "s*/q"]
    hold(conn, wild)
    near = lock_rows.candidates(conn, "src/a.py", ["src"], "s", now=iso(NOW))
    assert {row["file_path"] for row in near} == set(wild)


@only_sqlite
def test_globs_that_may_be_anywhere_read_all_locks_once(conn: Connection) -> None:
    hold(conn, [f"src/d{number % 97}/f{number}.py" for number in range(2000)])
    of_one_pattern = steps(conn, lambda: lock_table.blockers(conn, _wild(1), Holder("a"), NOW, exclusive=True))
    ten = steps(conn, lambda: lock_table.blockers(conn, _wild(10), Holder("a"), NOW, exclusive=True))
    assert ten < of_one_pattern + 500


def _wild(many: int) -> list[LockKey]:
    return [parse_key(f"*/*/*{number}.rs") for number in range(many)]


def test_all_reservations_are_renewed_each_from_its_own_expiry(conn: Connection) -> None:
    hold(conn, [f"f{number}.py" for number in range(1500)], "a")
    hold(conn, ["later.py"], "a", expires_at=after(NOW, 900))
    renewed = lock_table.renew(conn, Holder("a"), NOW, extend_s=60)
    assert len(renewed) == 1501 and {row["old_expires_at"] for row in renewed} == {after(NOW, 600), after(NOW, 900)}
    stored = {row["file_path"]: row["expires_at"] for row in lock_rows.listing(conn, iso(NOW))}
    assert stored.pop("later.py") == after(NOW, 960) and set(stored.values()) == {after(NOW, 660)}
