"""Kinds of events and their payloads: each kind has a type, each type a kind, and the document lists them all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from corral.core.events import MERGE_ENDS, TASK_SETBACKS, EventKind, Kind, payload
from corral.core.states import OPEN_MERGES, MergeState, TaskStatus
from tests.support import recorded

DOCUMENT = Path(__file__).parents[3] / "docs" / "architecture.md"
KINDS = recorded.kinds()


@pytest.mark.parametrize("name", [name for name, kind in vars(EventKind).items() if not name.startswith("_")])
def test_a_kind_is_a_noun_and_what_happened_to_it(name: str) -> None:
    kind = getattr(EventKind, name)
    noun, _, verb = kind.partition(".")
    assert isinstance(kind, Kind) and noun and verb and len(kind) <= 64 and name == f"{noun}_{verb}".upper()


def test_every_kind_has_a_payload_type_and_no_type_is_unused() -> None:
    used = {shape.__name__ for shapes in KINDS.values() for shape in shapes}
    parts = {"Commit"}
    assert len(KINDS) == len({name for name in vars(EventKind) if not name.startswith("_")})
    assert used | parts == set(recorded.SHAPES)


def _fields(shape: Any) -> str:
    optional = shape.__optional_keys__
    return ", ".join(f"`{name}`" + ("?" if name in optional else "") for name in shape.__annotations__) or "–"


def _table() -> list[str]:
    """The rows of the document's table: kinds of one noun with the same payload share one."""
    rows: dict[tuple[str, str], list[str]] = {}
    for kind, shapes in KINDS.items():
        rows.setdefault((kind.partition(".")[0], " or ".join(map(_fields, shapes))), []).append(f"`{kind}`")
    return [f"| {' · '.join(kinds)} | {data} |" for (_noun, data), kinds in rows.items()]


def test_the_document_lists_every_kind_with_its_data() -> None:
    section = DOCUMENT.read_text(encoding="utf-8").partition("\n## Events\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `.*\|$", section, flags=re.M)
    assert rows == _table(), "\n".join(["It should say:", *_table()])


def test_an_end_that_is_no_success_has_a_kind_in_every_state() -> None:
    assert {f"task.{status}" for status in TASK_SETBACKS if status != TaskStatus.PENDING} == {
        str(kind) for status, kind in TASK_SETBACKS.items() if status != TaskStatus.PENDING
    }
    assert set(TaskStatus) - set(TASK_SETBACKS) == {TaskStatus.WAITING, TaskStatus.RUNNING, TaskStatus.COMPLETED}
    assert {state: str(kind) for state, kind in MERGE_ENDS.items()} == {
        state: f"merge.{state}" for state in MergeState if state not in OPEN_MERGES
    }


def test_a_payload_is_read_as_what_its_kind_says_and_as_nothing_else() -> None:
    event = {"kind": "lock.expired", "data": {"path": "a.py"}}
    assert payload(event, EventKind.LOCK_EXPIRED) == {"path": "a.py"}
    assert payload(event, EventKind.LOCK_RELEASED) is None


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("task.started", {}),
        ("task.started", {"pid": 1, "more": 2}),
        ("task.started", {"pid": "1"}),
        ("message.bounced", {"sender": "a", "reason": "b"}),
        ("session.committed", {"branch": None, "commits": [{"sha": "a"}]}),
        ("task.vanished", {}),
    ],
)
def test_an_event_that_is_not_what_its_type_says_is_found(kind: str, data: dict[str, Any]) -> None:
    assert len(recorded.faults([(kind, data), ("task.started", {"pid": 1})])) == 1
