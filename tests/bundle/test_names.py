"""Plain names: a module, a class or a function is called what it is, and not by a word that was given up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = [file for top in ("daemon/corral", "hooks", "bench") for file in sorted(ROOT.glob(f"{top}/**/*.py"))]

MODULES = {
    "at_work": "in_flight",
    "bench": "verification_worktree",
    "bounces": "undeliverable",
    "departures": "session_end",
    "door": "listeners",
    "express": "fast_path",
    "guard": "self_heal",
    "harvest": "collect",
    "landfall": "land",
    "letters": "notification_templates",
    "obstacles": "blockers",
    "outlet": "stdio",
    "proof": "verification_receipts",
    "refusals": "audit",
    "retirement": "uninstall_check",
    "seats": "agent_mailboxes",
    "trial": "verification_run",
    "turns": "fair_queue",
    "witness": "runtime_state",
}
CLASSES = {
    "Bench": "VerificationWorktree",
    "Crowd": "PathIndex",
    "Door": "Listeners",
    "Express": "FastPath",
    "Ground": "ClaimIndex",
    "Grounds": "WorktreeContext",
    "Guard": "SelfHeal",
    "Harvest": "CollectedWork",
    "Post": "ResolvedAgent",
    "Room": "RunContext",
    "Site": "AttemptContext",
    "Subject": "RunSpec",
    "Trial": "VerificationRun",
    "Turns": "FairQueue",
    "Unheard": "OutputLost",
    "Wish": "LockRequest",
    "Witness": "RuntimeState",
    "_Deaf": "_NotListening",
}
FUNCTIONS = {
    "_massacre": "_refuse_mass_expiry",
    "aftermath": "auto_handoff",
    "appoint": "resolve_agent",
    "as_the_coordinator": "coordinator_answers",
    "circle": "find_deadlock",
    "come_home": "reattach_head",
    "doomed": "find_stale",
    "errand": "prompt_summary",
    "glance": "read_inline",
    "heard": "note_session",
    "harvest": "collect",
    "obstacles": "blockers",
    "place": "cursor, folder_of",
    "put_right": "roll_back",
    "say": "echo",
}
PARAMETERS = {"come_from": "from_states"}


def found(source: str, where: str) -> list[str]:
    """Each name that was given up, with its line and what to call it instead."""
    stem = Path(where).stem
    module = [f"{where}: call the module {MODULES[stem]}"] if stem in MODULES else []
    return module + [f"{where}:{line}: call {name} {instead}" for line, name, instead in _given_up(ast.parse(source))]


def _given_up(tree: ast.Module) -> Iterator[tuple[int, str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and node.name in CLASSES:
            yield node.lineno, node.name, CLASSES[node.name]
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name in FUNCTIONS:
            yield node.lineno, node.name, FUNCTIONS[node.name]
        elif isinstance(node, ast.arg) and node.arg in PARAMETERS:
            yield node.lineno, node.arg, PARAMETERS[node.arg]


@pytest.mark.parametrize("file", SOURCES, ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_and_its_parts_are_called_what_they_are(file: Path) -> None:
    assert found(file.read_text(encoding="utf-8"), str(file.relative_to(ROOT))) == []


def test_a_name_that_was_given_up_is_found_with_its_line_and_its_successor() -> None:
    source = "class Wish:\n    def harvest(self, come_from: str) -> None: ...\n\n\ndef harvested() -> None: ...\n"
    assert sorted(found(source, "work/seats.py")) == [
        "work/seats.py: call the module agent_mailboxes",
        "work/seats.py:1: call Wish LockRequest",
        "work/seats.py:2: call come_from from_states",
        "work/seats.py:2: call harvest collect",
    ]
