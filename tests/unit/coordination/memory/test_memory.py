"""Memory as rows: what is kept, what counts as the same, and what is found in which order."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from sqlalchemy import Connection

from corral.coordination.memory import memory
from corral.coordination.memory import store as memory_rows
from corral.coordination.memory.memory import Memory, Question
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions.registry import Arrival
from corral.core.errors import InvalidInput
from corral.core.instants import iso
from corral.store.rows.records import MemoryRow
from tests.support.steps import only_sqlite, steps

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)


@pytest.fixture
def conn(any_database: Connection) -> Connection:
    for name in ("a", "b"):
        session_registry.register(any_database, Arrival(session_id=name, agent_name=name.upper()), NOW)
    return any_database


def tell(conn: Connection, summary: str, who: str = "a", days: float = 0, **more: Any) -> tuple[MemoryRow, bool]:
    row, is_new = memory.remember(
        conn, session_registry.find(conn, who), Memory(summary, **more), NOW - timedelta(days=days)
    )
    return row, is_new


def found(conn: Connection, query: str = "", **more: Any) -> list[str]:
    return [row["summary"] for row in memory.recall(conn, Question(query, **more), NOW)]


def test_a_secret_in_a_memory_is_not_kept(conn: Connection) -> None:
    secret = "sk-ant-api03-" + "Ab1" * 8
    tell(conn, f"It is {secret}.", outcome=secret, lessons=[f"export KEY={secret}"], details={"of": [secret]})
    (row,) = memory.recall(conn, Question(), NOW)
    assert row["summary"] == "It is [redacted]." and row["details"] == {"of": ["[redacted]"]}
    assert secret not in str(row)


def test_what_is_told_is_found_again_whole(conn: Connection) -> None:
    tell(
        conn, "  The tests need a database. ", event_type="Error", details={"port": 5432}, outcome="green",
        lessons=["Run `make db` first", " "], tags=["Tests", "db", "db"],
    )  # fmt: skip
    (row,) = memory.recall(conn, Question("database"), NOW)
    assert {key: row[key] for key in row if key not in ("memory_id", "created_at", "seen_at")} == {
        "agent_name": "A", "session_id": "a", "event_type": "error", "summary": "The tests need a database.",
        "details": {"port": 5432}, "outcome": "green", "lessons": ["Run `make db` first"], "tags": ["tests", "db"],
        "times": 1, "relevance": 1.0,
    }  # fmt: skip


def test_the_same_within_an_hour_is_one_memory_that_was_told_twice(conn: Connection) -> None:
    first, is_new = tell(conn, "The build is slow", lessons=["use ccache"], tags=["build"], days=0.03)
    assert is_new
    again, is_new = tell(conn, "The build   is slow\n", lessons=["buy disks"], tags=["build", "ci"], details={"s": 90})
    assert (is_new, again["memory_id"], again["times"]) == (False, first["memory_id"], 2)
    assert (again["lessons"], again["tags"], again["details"]) == (
        ["use ccache", "buy disks"],
        ["build", "ci"],
        {"s": 90},
    )
    assert found(conn, tags=["ci"]) == found(conn, "disks") == ["The build is slow"]


@pytest.mark.parametrize(("change", "days"), [({"who": "b"}, 0), ({"event_type": "error"}, 0), ({}, 0.05)])
def test_another_agent_another_kind_or_an_hour_later_is_another_memory(
    conn: Connection, change: dict[str, Any], days: float
) -> None:
    tell(conn, "The build is slow", days=days)
    _, is_new = tell(conn, "The build is slow", **change)
    assert is_new and len(found(conn)) == 2


def test_words_count_by_how_many_of_them_occur(conn: Connection) -> None:
    tell(conn, "Run the tests with pytest -q", days=2)
    tell(conn, "The linter is ruff")
    tell(conn, "Unrelated: zebras")
    assert found(conn, "how do we run the tests?") == ["Run the tests with pytest -q", "The linter is ruff"]
    assert found(conn, "pytes") == ["Run the tests with pytest -q"], "the beginning of a word is enough"
    assert found(conn, "run tests", min_relevance=0.9) == [], "two days old: 0.82"
    assert found(conn, "run tests", min_relevance=0.8) == ["Run the tests with pytest -q"]
    assert found(conn, "nowhere") == found(conn, '?!*"') == []


def test_lessons_are_searched_in_every_script(conn: Connection) -> None:
    tell(conn, "Umlaute", lessons=["Immer prüfen: Größe", "テストは遅い"])
    assert found(conn, "größe") == found(conn, "テストは遅い") == ["Umlaute"]


def test_what_is_old_sinks_and_what_is_told_again_rises(conn: Connection) -> None:
    tell(conn, "old", days=30)
    tell(conn, "older", days=40)
    tell(conn, "new")
    assert found(conn) == ["new", "old", "older"]
    tell(conn, "older")
    assert found(conn, limit=2)[0:2] == ["older", "new"] or found(conn, limit=2) == ["new", "older"]
    (row,) = memory.recall(conn, Question("old", limit=1), NOW + timedelta(days=10))
    assert row["summary"] == "older" and row["relevance"] == pytest.approx(2.718**-1, abs=1e-3)


def test_tags_and_types_narrow_it_down(conn: Connection) -> None:
    tell(conn, "both", tags=["x", "y"], days=1)
    tell(conn, "one", tags=["X"])
    tell(conn, "none", event_type="decision")
    assert found(conn, tags=["x", "Y"]) == ["both", "one"], "who has more of the tags comes first"
    assert found(conn, tags=["z"]) == []
    assert found(conn, event_type="Decision") == ["none"]
    assert found(conn, "one none", event_type="decision", tags=["x"]) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"summary": ""}, {"summary": " \n"}, {"summary": "x" * 32_001}, {"summary": "x", "event_type": ""},
        {"summary": "x", "event_type": "two words"}, {"summary": "x", "event_type": "e" * 33},
        {"summary": "x", "details": {"n": float("nan")}}, {"summary": "x", "details": {"s": "\ud800"}},
        {"summary": "x", "details": {"big": "y" * 32_000}}, {"summary": "x", "tags": ["t" * 129]},
        {"summary": "x", "tags": [str(n) for n in range(33)]}, {"summary": "x", "lessons": ["y" * 20_000] * 2},
    ],
    ids=lambda wrong: "-".join(wrong),
)  # fmt: skip
def test_what_cannot_be_kept_is_refused(conn: Connection, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput) as caught:
        tell(conn, **wrong)
    assert caught.value.remedy and len(str(caught.value)) < 200
    assert found(conn) == []


@pytest.mark.parametrize(
    "wrong", [{"limit": 0}, {"limit": 101}, {"min_relevance": -0.1}, {"min_relevance": float("nan")}]
)
def test_an_impossible_question_is_refused(conn: Connection, wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        found(conn, **wrong)


def test_what_is_told_again_and_again_does_not_grow_without_end(conn: Connection) -> None:
    for number in range(60):
        row, _ = tell(conn, "The build is slow", tags=[f"t{number}", "build"], lessons=[f"{number}" + "x" * 2000])
    assert row["times"] == 60 and len(row["tags"]) == memory.MAX_TAGS
    assert set(row["tags"]) == {"build", *(f"t{number}" for number in range(60 - memory.MAX_TAGS + 1, 60))}
    assert sum(map(len, row["lessons"])) <= memory.LIMIT and row["lessons"][-1].startswith("59")
    assert found(conn, tags=["t59"]) == ["The build is slow"] and found(conn, tags=["t0"]) == []


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(memory_rows, "LOOKED_AT", 100)
    return memory_rows.LOOKED_AT


def many(conn: Connection, number: int, what: str = "The build") -> None:
    """So many memories, one a minute, each with the same words."""
    common = {"agent_name": "B", "session_id": "b", "event_type": "discovery", "details": None, "outcome": None,
              "lessons": ["use ccache"], "tags": ["build"], "times": 1}  # fmt: skip
    for index in range(number):
        at, name = iso(NOW - timedelta(minutes=number - index)), f"{what} {index}"
        memory_rows.create(conn, {**common, "memory_id": name, "digest": name, "summary": f"{name} is slow",
                           "created_at": at, "seen_at": at})  # fmt: skip


def test_among_many_the_one_with_all_the_words_and_the_rare_one_come_first(conn: Connection, looked_at: int) -> None:
    tell(conn, "The slow build is the linker's fault", days=3)
    tell(conn, "Zebras are slow", days=3, tags=["Build", "zoo"])
    many(conn, looked_at + 50)
    assert found(conn, "slow build linker")[0] == "The slow build is the linker's fault"
    assert found(conn, "zebras") == ["Zebras are slow"] and "Zebras are slow" in found(conn, "zebras slow", limit=1)
    assert found(conn, "zebras", tags=["build"]) == ["Zebras are slow"], "older than all that are looked at for the tag"
    assert found(conn, tags=["zoo", "garden"], limit=1) == ["Zebras are slow"]
    assert found(conn, "is the fault", limit=1) == ["The slow build is the linker's fault"]
    assert found(conn, "build", limit=2) == ["The build 149 is slow", "The build 148 is slow"]
    assert found(conn, limit=2, tags=["build"]) == found(conn, limit=2) == found(conn, "build", limit=2)
    assert found(conn, limit=2, tags=["build"], event_type="discovery") == found(conn, limit=2)


def test_who_has_more_of_the_tags_is_found_behind_many_that_have_one(conn: Connection) -> None:
    tell(conn, "Zebras", days=3, tags=["build", "zoo"])
    many(conn, 50)
    assert found(conn, tags=["build", "zoo"], limit=2) == ["Zebras", "The build 49 is slow"]


@only_sqlite
@pytest.mark.parametrize(
    "asked",
    [
        Question("the build is slow"), Question(tags=["build"]), Question(tags=["build", "ci"]),
        Question("the build is slow", tags=["build"]), Question(tags=["build"], event_type="discovery"),
        Question(event_type="discovery"), Question(),
    ],
    ids=repr,
)  # fmt: skip
def test_a_question_looks_at_so_many_memories_however_many_there_are(
    conn: Connection, looked_at: int, asked: Question
) -> None:
    def recall() -> None:
        assert len(memory.recall(conn, asked, NOW)) == asked.limit

    many(conn, looked_at)
    few = steps(conn, recall)
    many(conn, looked_at * 3, "The build of another")
    assert steps(conn, recall) < few * 1.3
