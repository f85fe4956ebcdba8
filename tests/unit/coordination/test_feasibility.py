"""What may go side by side: the rule of ``corral.coordination.feasibility``, case by case."""

from __future__ import annotations

import pytest

from corral.coordination.feasibility import Ground
from corral.coordination.keys import parse_key


def judged(mine: list[str], *others: list[str]) -> str:
    ground = Ground({f"f{n}": [parse_key(text) for text in other] for n, other in enumerate(others)})
    return ground.judge([parse_key(text) for text in mine]).feasibility.value


@pytest.mark.req("FEATURE-2")
@pytest.mark.parametrize(
    ("mine", "theirs", "verdict"),
    [
        (["src/a.py", "src/b.py"], ["src/c.py"], "FULL"),
        (["api:GET /v1/users"], ["api:POST /v1/users"], "FULL"),
        (["src/a.py"], ["src/a.py/b"], "SEQUENTIAL"),
        (["src/a.py", "b", "c"], ["src/a.py", "d", "e"], "PARTIAL"),
        (["a", "b"], ["a", "c"], "PARTIAL"),
        (["a", "b", "c"], ["a", "b", "d"], "SEQUENTIAL"),
        # more than half of the smaller set, though little of the larger one
        (["a"], ["a", "b", "c", "d"], "SEQUENTIAL"),
        # one of theirs in two, but all of mine
        (["src/a", "src/b", "src/c"], ["src/**", "docs"], "SEQUENTIAL"),
        (["src/**/*.py", "x", "y"], ["src/deep/a.py", "z", "w"], "PARTIAL"),
        (["src/*.md", "x", "y"], ["src/a.py", "z", "w"], "FULL"),
        # of these there is one at a time
        (["db:schema:users", "x", "y"], ["db:schema:users", "z", "w"], "SEQUENTIAL"),
        (["contract:users-v1", "x", "y"], ["contract:users-v1", "z", "w"], "SEQUENTIAL"),
        (["feature:F-1:pause", "x", "y"], ["feature:F-1:pause", "z", "w"], "SEQUENTIAL"),
        (["feature:F-1:docs", "x", "y"], ["feature:F-1:docs", "z", "w"], "PARTIAL"),
        (["api:GET /v1/users", "x", "y"], ["api:GET /v1/users", "z", "w"], "PARTIAL"),
        # said twice is claimed once
        (["a", "./a", "b", "c"], ["a", "d", "e"], "PARTIAL"),
    ],
)
def test_the_verdict_on_two(mine: list[str], theirs: list[str], verdict: str) -> None:
    assert judged(mine, theirs) == verdict
    assert judged(theirs, mine) == verdict


def test_several_others_weigh_together_and_as_the_gravest_of_them() -> None:
    mine = ["a", "b", "c"]
    assert judged(mine, ["a", "x", "y"], ["z"]) == "PARTIAL"
    assert judged(mine, ["a", "x", "y"], ["b", "v", "w"]) == "SEQUENTIAL"
    assert judged([*mine, "d", "e"], ["a", "x", "y"], ["b"]) == "SEQUENTIAL"
    assert judged(mine) == "FULL"
