"""Which git versions are reported, by the first version of each series without the hole."""

from __future__ import annotations

import pytest

from corral.git import doctor


@pytest.mark.req("X19")
@pytest.mark.parametrize(
    ("version", "open_holes"),
    [
        ((2, 38, 9), 2), ((2, 39, 3), 2), ((2, 39, 4), 1), ((2, 39, 5), 1), ((2, 42, 9), 1), ((2, 43, 4), 1), ((2, 43, 7), 0),
        ((2, 45, 0), 2), ((2, 45, 1), 1), ((2, 45, 4), 0), ((2, 46), 1), ((2, 46, 4), 0), ((2, 50, 0), 1), ((2, 50, 1), 0),
        ((2, 50, 1, 5), 0), ((2, 51, 0), 0), ((3, 0), 0),
    ],
)  # fmt: skip
def test_a_version_has_the_holes_that_its_series_had_not_closed_yet(version: tuple[int, ...], open_holes: int) -> None:
    assert sum(hole.is_open(version) for hole in doctor.HOLES) == open_holes
