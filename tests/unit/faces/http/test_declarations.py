"""What a declaration says of an operation, and what an error that it does not say comes to."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from corral.core import logs
from corral.core.errors import Conflict, LockHeld
from corral.core.routing import EVERYONE, MACHINE, PREFIX, PROJECT, Routes
from corral.daemon import nouns
from corral.faces.http.router import Router, operations
from tests.support.recorded import undeclared_in

OF_THE_PROJECT = (
    "agents contacts dead-letters features handoffs locks loops memory merges messages rewinds supervisor targets tasks teams "
    "templates"
)
OF_THIS_MACHINE = (
    "alerts audit daemon events gc hooks keys metrics runners sessions statusline swarm trust verification web "
    "worktrees"
)


OF_THE_MACHINE_ALL_THE_SAME = {
    "POST /agents/{name}/rollback",
    "POST /locks/check-commit",
    "POST /merges/{merge_id}/open",
    "GET /merges/{merge_id}/log",
    "POST /tasks/{task_id}/attach",
    "GET /tasks/{task_id}/follow",
    "GET /tasks/{task_id}/log",
}
"""Operations that make or read a file of this machine, of nouns that are the project's."""


def test_each_noun_belongs_to_the_project_or_to_this_machine() -> None:
    scopes = {
        (router.path.removeprefix(PREFIX).strip("/").partition("/")[0] or router.tag, router.scope)
        for router in nouns.every()
    }
    assert scopes == {(noun, PROJECT) for noun in OF_THE_PROJECT.split()} | {
        (noun, MACHINE) for noun in OF_THIS_MACHINE.split()
    }
    others = {
        f"{route.method} {router.path}{route.path}".replace(PREFIX, "")
        for router in nouns.every()
        for route in router.declared
        if route.scope != router.scope
    }
    assert others == OF_THE_MACHINE_ALL_THE_SAME


def test_what_does_not_say_to_what_it_belongs_is_refused() -> None:
    with pytest.raises(TypeError, match="scope"):
        Routes("tasks", callers=EVERYONE)  # type: ignore[call-arg]


def test_only_what_changes_something_is_noted_unless_it_says_so() -> None:
    noted = {
        operation.route.action
        for operation in operations(nouns.every())
        if operation.route.action and not operation.route.changes
    }
    assert noted == {"lock.check_commit"}  # that a commit was let pass is told


@pytest.mark.parametrize("raised", [Conflict("It has ended."), LockHeld("Cedar has it.")])
def test_an_error_that_is_not_declared_is_answered_and_stands_in_the_log(raised: Conflict, tmp_path: Path) -> None:
    routes = Routes("tasks", scope=PROJECT, callers=EVERYONE, prefix="")

    @routes.get("/task", errors=(LockHeld,))
    async def task(_services: Any) -> str:
        """Fail."""
        raise raised

    statuses: list[int] = []

    async def send(message: Any) -> None:
        statuses.append(message.get("status", 0))

    async def receive() -> Any:
        return {"type": "http.request", "body": b"", "more_body": False}

    services: Any = None
    scope = {"type": "http", "method": "GET", "path": "/task", "query_string": b"", "headers": []}
    logs.configure(tmp_path / "corral.log", "INFO", 30, stderr=False)
    try:
        asyncio.run(Router(services, [routes], list)(scope, receive, send))
    finally:
        logs.close()
    assert statuses[0] == 409
    assert [raised.name in line for line in undeclared_in(tmp_path)] == ([] if isinstance(raised, LockHeld) else [True])
