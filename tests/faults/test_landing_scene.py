"""Forty branches, four of them broken, land while chance, kills and a person do what they can."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.faults import landing_scene
from tests.faults.landing_scene import LandingScene
from tests.faults.storm import seed_of_this_run
from tests.support.coordinated import Coordinated

pytestmark = [pytest.mark.faults, pytest.mark.timeout(900)]


@pytest.mark.slow("Seventy verifications of four seconds, and the restarts after ten kills.")
@pytest.mark.req("I1", "I4", "I5", "I7", "I9")
def test_of_forty_branches_what_is_good_lands_and_only_that(
    coordinate: Callable[..., Coordinated], tmp_path: Path
) -> None:
    seed = seed_of_this_run()
    print(f"STORM_SEED={seed}")
    folder = tmp_path / "scene"
    folder.mkdir()
    scene = LandingScene(coordinate(config=landing_scene.config(folder)), folder, seed)
    scene.play()
    scene.check()
    print(scene)
    assert scene.kills == landing_scene.KILLS and len(scene.own) == landing_scene.COMMITS
    assert scene.units <= scene.allowed_units, scene
