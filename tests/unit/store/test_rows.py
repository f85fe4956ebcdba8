"""A row has a type: its table is declared of it, a statement returns what it says, and it is not lost on the way up."""

from __future__ import annotations

import ast
import functools
import importlib
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from sqlalchemy import JSON, Boolean, Column, Connection, Float, Integer, String
from sqlalchemy.types import NullType

import corral
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.mail.store import mailbox, messages
from corral.coordination.sessions.store import names
from corral.observe.announcements import store as announcements
from corral.observe.audit import store as audit
from corral.observe.exports import store as exports
from corral.observe.metrics import store as metrics
from corral.store import schema
from corral.store.engine.prepared import Prepared
from corral.store.rows import agents, loops, mail, merges, records, sessions, tasks
from corral.store.table import metadata
from corral.work.agents.store import choices, improvements, runs, versions
from corral.work.merges.store import runs as merge_runs
from corral.work.roadmap import store as roadmap
from corral.work.state import store as shared_state
from corral.work.swarm import store as swarm
from corral.work.tasks.store import attempts, dependencies, family, lists, work_pause
from corral.work.tasks.store import tasks as task_rows
from corral.work.worktrees import store as worktrees

pytestmark = pytest.mark.one_python

UNTYPED = {
    "store/table.py:only": "arguments of an index",
    "store/engine/prepared.py:_picker": "of a function that takes the values of a statement",
    "coordination/memory/store.py:_searchable": "values on their way in",
}
"""Functions of the store that return rows without a type, or what looks like them; each with its reason."""
PACKAGE = Path(corral.__file__).parent
ANYTHING = ("dict[str, Any]", "Mapping[str, Any]", "dict[str, object]")
TYPED = ("coordination", "work", "landing", "observe", "faces/hooks", "faces/http", "faces/mcp", "faces/web", "daemon")
"""The packages that know what a row holds: not what of them speaks to the daemon, or says how an answer is written."""
UNTYPED_PARTS = {"cli", "cli.py", "wire.py"}


def _python_type(column: Column[Any]) -> type | None:
    """What comes back of a column; None: whatever JSON can be, or it is not known."""
    kinds = {JSON: None, Boolean: bool, Integer: int, Float: float, String: str}
    return next((python for kind, python in kinds.items() if isinstance(column.type, kind)), None)


def _told(hint: Any) -> tuple[Any, bool]:
    """A type without None, and whether None was in it."""
    rest = [argument for argument in get_args(hint) if argument is not type(None)]
    is_optional = type(None) in get_args(hint)
    return (rest[0] if is_optional else hint), is_optional


def _check(name: str, column: Column[Any], hint: Any) -> None:
    expected, is_optional = _told(hint)
    wanted = _python_type(column)
    assert is_optional == bool(column.nullable), f"{name}: {column.nullable=}, but it is {hint}"
    if wanted is None:
        assert expected is Any or get_origin(expected) in (list, dict), f"{name} is JSON, and not {hint}"
    else:
        assert expected is wanted, f"{name} is {wanted.__name__}, and not {hint}"


def test_a_type_that_lacks_a_column_or_takes_none_for_granted_is_noticed() -> None:
    title, runner = schema.tasks.c.title, schema.tasks.c.runner
    for column, hint in ((title, str | None), (runner, str), (title, int), (schema.tasks.c.limits, str)):
        with pytest.raises(AssertionError):
            _check(column.name, column, hint)


# -- prepared statements


def _modules() -> Iterator[ModuleType]:
    """Whatever speaks SQL: the engine's room, and each noun's ``store``."""
    for module_info in pkgutil.walk_packages(corral.__path__, "corral."):
        if "store" in module_info.name.split(".") and "migrations" not in module_info.name:
            yield importlib.import_module(module_info.name)


PREPARED = {
    f"{module.__name__.removeprefix('corral.')}.{name}": value
    for module in _modules()
    for name, value in vars(module).items()
    if isinstance(value, Prepared)
}


@pytest.mark.parametrize("name", PREPARED)
def test_a_prepared_statement_returns_what_its_type_says(name: str) -> None:
    prepared: Any = PREPARED[name]
    (kind,) = prepared.__orig_class__.__args__
    columns = prepared.statement.exported_columns
    if kind is type(None):
        assert not columns, "it returns rows"
    elif kind is not object:
        hints = get_type_hints(kind)
        assert is_typeddict(kind) and set(columns.keys()) == set(hints)
        for column in columns:
            if isinstance(column, Column):
                hint = hints[column.key]
                is_joined = column.table is schema.attempts and kind in (tasks.TaskRow, tasks.CurrentAttempt)
                assert not is_joined or _told(hint)[1], "a task without an attempt has None there"
                _check(f"{name}: {column.key}", column, hint if column.nullable or not is_joined else _told(hint)[0])


def test_there_are_prepared_statements() -> None:
    assert {
        "work.tasks.store.tasks._BY_ID",
        "coordination.sessions.store.sessions._TOUCH",
        "coordination.locks.store.locks._RENEW",
    } <= set(PREPARED)


# -- other statements


def _statements(database: Connection, monkeypatch: pytest.MonkeyPatch) -> dict[str, type]:
    """What the functions with a select of a part or a join ask an empty database, by the type of the rows."""
    asked: dict[str, type] = {}

    def spy(module: ModuleType, fetch: Any) -> Any:
        def seen(conn: Connection, query: Any, kind: type, *arguments: Any) -> Any:
            if is_typeddict(kind):
                columns, hints = query.exported_columns, get_type_hints(kind)
                assert set(columns.keys()) == set(hints), f"{module.__name__}: {kind.__name__}"
                for column in columns:
                    wanted = _python_type(column)
                    hinted, _ = _told(hints[column.key])
                    assert wanted is None or isinstance(column.type, NullType) or hinted is wanted, (kind, column.key)
                asked[kind.__name__] = kind
            return fetch(conn, query, kind, *arguments)

        return seen

    for module in _modules():
        for name in ("fetch_all", "fetch_each", "fetch_first"):
            if hasattr(module, name) and module.__name__ != "corral.store.engine.fetch":
                monkeypatch.setattr(module, name, spy(module, getattr(module, name)))
    now, some = "2026-11-22T08:00:00.000Z", ["x"]
    calls: dict[Callable[..., object], tuple[Any, ...]] = {
        lists.listing: (), lists.dead: (), task_rows.standing: (), dependencies.unsettled_children: (some,),
        dependencies.parent_states: (some,), work_pause.current: (), worktrees.worked_in: (some,), names.by_session: (),
        announcements.attempts: ("x", 1), announcements.unseen: ("x",), announcements.batch: ("x",),
        lock_rows.listing: (now,), lock_rows.by_expiry: (now,), lock_rows.globs: (now,), lock_rows.named: (now,),
        lock_rows.others_in_checkout: ("x", some, now), mailbox.headings: ("x",),
        messages.waited_for: ([1], some, some), messages.receipt: ("x", 1),
        attempts.of_task: ("x",), task_rows.in_status: ("running",), shared_state.of_task: ("x",), swarm.members: (),
        swarm.worked_since: (now,),
        swarm.ended_since: (now,), metrics.finished: (now, 1), metrics.landed: (now,), metrics.verifications: (now,),
        metrics.targets_seen: (now,), merge_runs.ran_since: (now, 1),
        exports.ended: (), exports.named: (some,), exports.histories: (some, some, 1),
        roadmap.with_keys: ("roadmap:",), audit.listing: (), audit.work_of: (some,),
        versions.of_agent: ("x",), runs.of_agents: ("x", now), runs.merges_of: ("x", now), runs.feedback_on: ("x", now),
        runs.keep: (some,), family.steps: ("x",),
        family.ready_among: (some, now), dependencies.results_of_parents: ("x",), dependencies.last_of: ("x",),
        dependencies.stacked: ("x",),
        choices.running: (), choices.pinned_by_tasks: (), choices.tasks_of: ("x",), choices.newest: ("x", True),
        choices.unseen: (), improvements.undecided: (now,),
    }  # fmt: skip
    for call, arguments in calls.items():
        call(database, *arguments)
    list(task_rows.ready(database, now))
    return asked


def test_a_select_of_a_part_or_a_join_returns_what_its_type_says(
    any_database: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, fetched = set(_statements(any_database, monkeypatch)), _fetched()
    whole = [set(table.c.keys()) for table in metadata.tables.values()]
    parts = {
        name
        for module in (agents, loops, mail, merges, records, sessions, tasks)
        for name, kind in vars(module).items()
        if is_typeddict(kind) and set(kind.__annotations__) not in whole and name in fetched
    }
    assert parts - {"WaitingSession", "DayUse"} <= seen  # whoever waits is asked for only where somebody does


def _fetched() -> set[str]:
    """The types that ``fetch_all`` and the like are called with."""
    calls = (node for tree in _sql().values() for node in ast.walk(tree) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id.startswith("fetch_"))
    return {argument.id for call in named for argument in call.args if isinstance(argument, ast.Name)}


# -- and above


def _trees(*folders: str) -> dict[str, ast.Module]:
    files = (file for folder in folders for file in sorted((PACKAGE / folder).rglob("*.py")))
    return {str(file.relative_to(PACKAGE)): _tree(file) for file in files}


@functools.cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _sql() -> dict[str, ast.Module]:
    """Whatever speaks SQL: the engine's room, and each noun's ``store``."""
    return {file: tree for file, tree in _trees("").items() if {"store", "store.py"} & {*file.split("/")}}


def _aliases(tree: ast.Module) -> set[str]:
    """The names that a module gives to objects of anything."""
    assigned = (node for node in tree.body if isinstance(node, ast.Assign) and ast.unparse(node.value) in ANYTHING)
    return {target.id for node in assigned for target in node.targets if isinstance(target, ast.Name)}


def _untyped(tree: ast.Module, names: set[str]) -> set[str]:
    """The functions that return such objects."""
    functions = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.returns is not None:
            parts = {ast.unparse(part) for part in ast.walk(node.returns)}
            if parts & {*ANYTHING, *names}:
                functions.add(node.name)
    return functions


def test_what_the_store_returns_has_a_type() -> None:
    names = {"Payload"}.union(*(_aliases(tree) for tree in _sql().values()))
    untyped = {f"{file}:{name}" for file, tree in _sql().items() for name in _untyped(tree, names)}
    assert untyped == set(UNTYPED)


def _typed() -> dict[str, ast.Module]:
    return {file: tree for file, tree in _trees(*TYPED).items() if not UNTYPED_PARTS & {*file.split("/")}}


def test_no_module_calls_anything_a_row() -> None:
    assert {file: _aliases(tree) for file, tree in _typed().items() if _aliases(tree)} == {}


def test_a_row_of_anything_is_noticed() -> None:
    tree = ast.parse(
        "Row = dict[str, Any]\ndef a() -> list[Row]: ...\ndef b() -> dict[str, Any] | None: ...\ndef c() -> str: ..."
    )
    assert _aliases(tree) == {"Row"}
    assert _untyped(tree, _aliases(tree)) == {"a", "b"}


def test_sql_is_written_in_store_alone() -> None:
    outside = _trees("").keys() - _sql().keys()
    for file, tree in _trees("").items():
        imports = (node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and file in outside)
        taken = {name.name for node in imports if (node.module or "").startswith("sqlalchemy") for name in node.names}
        assert taken <= {"Connection"}, file


def test_one_module_asks_which_database_it_is() -> None:
    asking = {
        file
        for file, tree in _sql().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr == "name" and ast.unparse(node.value).endswith("dialect")
        if "migrations" not in file
    }
    assert asking == {"store/engine/dialect.py"}
