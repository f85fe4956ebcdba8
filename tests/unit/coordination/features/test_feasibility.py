"""What may go side by side: the rule of ``corral.coordination.features.feasibility``, case by case."""

from __future__ import annotations

import random

import pytest

from corral.coordination.features.feasibility import ClaimIndex
from corral.coordination.locks.keys import keys_overlap, parse_key


def judged(mine: list[str], *others: list[str]) -> str:
    ground = ClaimIndex({f"f{n}": [parse_key(text) for text in other] for n, other in enumerate(others)})
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


def test_no_overlap_is_missed_by_looking_only_at_what_is_near() -> None:
    rng = random.Random(7)
    parts = ["a", "b", "*", "**", "a*", "[ab]", r"\*", "db:x", "d?:x", "./"]
    texts = {"/".join(rng.choice(parts) for _ in range(rng.randint(1, 4))) for _ in range(400)}
    keys = [parse_key(text, exists=lambda _path: rng.random() < 0.2) for text in [*texts, "db:x"] if text.strip("./")]
    taken = keys[: len(keys) // 2]
    ground = ClaimIndex({str(n): [key] for n, key in enumerate(taken)})
    for key in keys:
        overlapping = {str(n) for n, other in enumerate(taken) if keys_overlap(key, other)}
        assert set(ground.judge([key]).meetings) == overlapping
        assert ground.is_near(key.file_path) or not overlapping


def test_tasks_whose_claims_share_no_file_go_side_by_side() -> None:
    claims = {"one": ["**/*.py"], "two": ["README.md", "src/Makefile"], "three": ["docs/**/*.md"]}
    keys = {name: [parse_key(text) for text in texts] for name, texts in claims.items()}
    for name, mine in keys.items():
        others = ClaimIndex({other: theirs for other, theirs in keys.items() if other != name})
        assert others.judge(mine).feasibility.value == "FULL"
