"""Vulnerabilities of git that matter when untrusted branches are checked out, and the versions that first closed them."""

from __future__ import annotations

from dataclasses import dataclass

Version = tuple[int, ...]


@dataclass(frozen=True)
class Hole:
    """A group of vulnerabilities that were closed together.

    Attributes:
        names: Their CVE numbers.
        closed_in: The first fixed version of each release series, in order; every later series is fixed too.
    """

    names: tuple[str, ...]
    closed_in: tuple[Version, ...]

    def is_open(self, version: Version) -> bool:
        """Whether git's own version number is that of a vulnerable one."""
        closed = next((first for first in self.closed_in if first[:2] >= version[:2]), None)
        return closed is not None and (version[:2] < closed[:2] or version < closed)


HOLES = (
    Hole(
        ("CVE-2024-32002", "CVE-2024-32004", "CVE-2024-32465", "CVE-2024-32020", "CVE-2024-32021"),
        ((2, 39, 4), (2, 40, 2), (2, 41, 1), (2, 42, 2), (2, 43, 4), (2, 44, 1), (2, 45, 1)),
    ),
    Hole(
        ("CVE-2025-48384", "CVE-2025-48385"),
        ((2, 43, 7), (2, 44, 4), (2, 45, 4), (2, 46, 4), (2, 47, 3), (2, 48, 2), (2, 49, 1), (2, 50, 1)),
    ),
)  # fmt: skip
"""From git's release notes."""
