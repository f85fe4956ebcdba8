"""What a row of the table is, and the whole table."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from dataclasses import dataclass

AREAS = (
    "queue",
    "coordination",
    "agents",
    "git_areas",
    "pool",
    "loops",
    "landing",
    "security",
    "supervisor_files",
    "surfaces",
    "web",
    "alerts",
    "audit",
    "templates",
    "upkeep",
    "workflows",
)
"""The modules of this package that have rows, by area."""


@dataclass(frozen=True)
class Mutation:
    """One defect put into the sources, and the tests that must notice it.

    Attributes:
        name: What is taken out, in a few words; unique.
        file: The file that is changed, from the top folder.
        old: A text that stands in it exactly once.
        new: What stands there instead.
        tests: Node ids from ``tests/``; one of them must fail.
        reqs: The requirements that these tests prove, by their marks; none: a promise that no document asks for.
    """

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]
    reqs: tuple[str, ...]


def rows(file: str, *given: tuple[str, str, str, str | tuple[str, ...], str]) -> tuple[Mutation, ...]:
    """Mutations of one file.

    Args:
        file: From the top folder.
        given: ``(name, old, new, test or tests, requirements apart by spaces)``.
    """
    made = []
    for name, old, new, tests, reqs in given:
        named = (tests,) if isinstance(tests, str) else tests
        made.append(Mutation(name, file, old, new, named, tuple(reqs.split())))
    return tuple(made)


def table(wanted: Iterable[str] = ()) -> list[Mutation]:
    """The mutations in their order; of areas, or whose name contains a word, where such are wanted.

    Raises:
        SystemExit: A word that selects nothing.
    """
    by_area = {area: importlib.import_module(f"tests.mutations.{area}").MUTATIONS for area in AREAS}
    every = [mutation for area in AREAS for mutation in by_area[area]]
    chosen: list[Mutation] = []
    for word in wanted:
        found = list(by_area.get(word, ())) or [one for one in every if word in one.name or word in one.reqs]
        if not found:
            raise SystemExit(
                f"{word!r} is no area ({', '.join(AREAS)}), no requirement, and part of no mutation's name."
            )
        chosen += [one for one in found if one not in chosen]
    return chosen or every
