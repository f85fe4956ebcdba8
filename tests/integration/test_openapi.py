"""The HTTP interface is what its document says: schemathesis asks every operation, with what fits and with what does not."""

from __future__ import annotations

import contextlib
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from corral.core.errors import InvalidInput
from tests.support.coordinated import Coordinated

EXAMPLES = 5
LONGEST_WAIT_S = 25
"""What the document allows; a longer one is refused."""
LEFT_OUT = {
    "POST /api/v1/daemon/stop": "it ends the daemon that is asked",
    "POST /api/v1/worktrees/retire": "it gives every worktree back, as uninstalling does",
    "POST /api/v1/worktrees": "each call makes a checkout: its refusals are tested where worktrees are",
    "GET /api/v1/bridge": "it is held open for as long as a session lives",
    "GET /api/v1/events": "it never ends",
    "GET /api/v1/wait": "it waits, by design",
}


@pytest.fixture
def idle(coordinate: Callable[..., Coordinated]) -> Coordinated:
    """No worker starts: what is submitted here is nonsense, and a command is a command."""
    house = coordinate(config="supervisor: {max_agents: 0}\ndaemon: {tcp: true}")
    house.run("daemon", "start")
    return house


def fetch(port: int, token: str) -> dict[str, Any]:
    """The document, as a client gets it."""
    asked = urllib.request.Request(
        f"http://127.0.0.1:{port}/openapi.json", headers={"Authorization": f"Bearer {token}"}
    )
    with urllib.request.urlopen(asked, timeout=20) as answer:
        described = json.load(answer)
    assert isinstance(described, dict)
    return described


def do_not_wait(case: schemathesis.Case[Any]) -> None:
    """Ask for an answer at once where a request may be held open, longer than this test's own patience."""
    wait_s = (case.query or {}).get("wait_s")
    if isinstance(wait_s, (int, float)) and 0 < wait_s <= LONGEST_WAIT_S:
        case.query["wait_s"] = 0


def ask(operation: Any, mode: GenerationMode, port: int, token: str) -> int:
    """Send requests for one operation and check each answer; returns how many."""
    asked = 0
    checks = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=(Phase.explicit, Phase.generate),
        suppress_health_check=list(HealthCheck),
    )
    def send(case: schemathesis.Case[Any]) -> None:
        nonlocal asked
        asked += 1
        do_not_wait(case)
        case.call_and_validate(
            base_url=f"http://127.0.0.1:{port}",
            headers={"Authorization": f"Bearer {token}"},
            checks=checks,
            timeout=20,
        )

    with contextlib.suppress(Unsatisfiable):  # nothing that could be wrong with it
        send()
    return asked


def operations(described: dict[str, Any]) -> Iterator[Any]:
    for outcome in schemathesis.openapi.from_dict(described).get_all_operations():
        assert isinstance(outcome, Ok), outcome
        operation = outcome.ok()
        if operation.label not in LEFT_OUT:
            yield operation


@pytest.mark.slow("Some thousand generated requests against one daemon.")
@pytest.mark.timeout(420)
def test_no_request_breaks_the_daemon_or_the_promise_of_its_document(idle: Coordinated) -> None:
    content = json.loads((idle.root / ".corral/run/daemon.json").read_text())
    token = (idle.root / ".corral/run/token").read_text().strip()
    described = fetch(content["port"], token)
    failures: list[str] = []
    asked = 0
    for operation in operations(described):
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                asked += ask(operation, mode, content["port"], token)
            except Exception as failure:  # noqa: BLE001 - every operation is asked, and all that fail are named
                causes = getattr(failure, "exceptions", ())  # of what failed only once, which the text leaves out
                failures.append(f"{operation.label} ({mode.value}): {failure} {[*map(repr, causes)]}"[:1500])
    assert not failures, "\n\n".join(failures)
    assert asked > len(described["paths"]) * EXAMPLES / 2
    assert idle.daemon_pid() == content["pid"]


def test_every_operation_documents_its_errors_and_no_number_is_too_large(idle: Coordinated) -> None:
    content = json.loads((idle.root / ".corral/run/daemon.json").read_text())
    token = (idle.root / ".corral/run/token").read_text().strip()
    described = fetch(content["port"], token)
    seen = 0
    for operation in operations(described):
        for status, answered in operation.definition.raw["responses"].items():
            answered = described["components"]["responses"][status] if "$ref" in answered else answered
            refers = answered["content"].get("application/json", {"schema": {}})["schema"].get("$ref", "")
            assert status.startswith("2") or refers == "#/components/schemas/Refusal", operation.label
        for parameter in operation.definition.raw.get("parameters", ()):
            kinds = [parameter["schema"], *parameter["schema"].get("anyOf", ())]
            if parameter["in"] != "query" or not {"integer", "number"} & {kind.get("type") for kind in kinds}:
                continue
            seen += 1
            path = operation.path.replace("{", "").replace("}", "")
            for number in (2**70, -(2**70)):
                with pytest.raises(InvalidInput):
                    idle.ask(operation.method.upper(), f"{path.removeprefix('/api/v1')}?{parameter['name']}={number}")
    assert seen > 5
