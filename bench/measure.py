"""A measurement, and the table of all of them."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Measure:
    """One line of the table.

    Attributes:
        what: The operation.
        measured: In ``unit``.
        unit: ``ms``, ``s``, ``MB``, ``/s``, ``%`` or ``""``.
        floor: The same operation with as little as possible around it, in the same unit, measured in the same run; None
            if there
            is nothing to compare with.
        limit: The budget, in the same unit; None if only the ratio counts.
        ratio: The budget as a ratio of measured to floor; None if only the figure counts.
        above: Whether ``limit`` applies to the difference from the floor.
        note: Further figures.
        proves: The requirement that the budget is of, such as ``NFR-PERF-001``; several are separated by a space.
    """

    what: str
    measured: float
    unit: str
    floor: float | None = None
    limit: float | None = None
    ratio: float | None = None
    above: bool = False
    note: str = ""
    proves: str = ""

    @property
    def quotient(self) -> float | None:
        """Measured to floor; None without a floor."""
        return self.measured / self.floor if self.floor else None

    @property
    def verdict(self) -> str:
        """``met`` or ``MISSED``; ``-`` without a budget."""
        rate = self.unit == "/s"
        checks = []
        if self.limit is not None:
            shown = self.measured - (self.floor or 0.0) if self.above else self.measured
            checks.append(shown >= self.limit if rate else shown <= self.limit)
        if self.ratio is not None and self.quotient is not None:
            checks.append(self.quotient >= self.ratio if rate else self.quotient <= self.ratio)
        return "-" if not checks else "met" if all(checks) else "MISSED"

    @property
    def budget(self) -> str:
        """The budget as text."""
        sign = ">=" if self.unit == "/s" else "<="
        parts = []
        if self.limit is not None:
            parts.append(f"{sign} {'floor + ' if self.above else ''}{_figure(self.limit, self.unit)}")
        if self.ratio is not None:
            parts.append(f"{sign} {self.ratio:.3g} x floor")
        return ", ".join(parts) or "-"

    def cells(self) -> tuple[str, ...]:
        """The columns of the table."""
        floor = "-" if self.floor is None else _figure(self.floor, self.unit)
        ratio = "-" if self.quotient is None else f"{self.quotient:.2f}"
        figures = self.budget, floor, _figure(self.measured, self.unit), ratio
        return self.what, *figures, self.verdict, self.proves or "-", self.note


HEADINGS = ("what", "budget", "floor", "measured", "ratio", "verdict", "requirement", "")


def table(measures: Sequence[Measure]) -> str:
    """The table, as text."""
    lines = [HEADINGS, *(measure.cells() for measure in measures)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEADINGS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def _figure(value: float, unit: str) -> str:
    digits = 0 if abs(value) >= 100 else 1 if abs(value) >= 10 else 2
    return f"{value:,.{digits}f} {unit}".rstrip()


def timed(action: Callable[[], object]) -> float:
    """The duration of a call, ms."""
    began = time.perf_counter()
    action()
    return (time.perf_counter() - began) * 1000


def in_turns(times: int, *actions: Callable[[], object]) -> list[list[float]]:
    """Time several actions alternately, so that noise affects all of them; ms per action and round."""
    taken: list[list[float]] = [[] for _ in actions]
    for _ in range(times):
        for samples, action in zip(taken, actions, strict=True):
            samples.append(timed(action))
    return taken


def p95(samples: Sequence[float]) -> float:
    """The 95th percentile."""
    return sorted(samples)[min(len(samples) - 1, int(len(samples) * 0.95))]


def p50(samples: Sequence[float]) -> float:
    """The median."""
    return statistics.median(samples)


def spread(samples: Sequence[float]) -> str:
    """Minimum and median, for a note."""
    return f"min {min(samples):.3g}, median {p50(samples):.3g}, n={len(samples)}"
