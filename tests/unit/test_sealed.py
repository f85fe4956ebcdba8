"""The seal of the tests works: nothing of the machine's user is visible to them."""

from __future__ import annotations

import os
from pathlib import Path


def test_no_test_can_reach_the_real_home(sealed: Path) -> None:
    assert Path.home() == sealed
    assert not [name for name in os.environ if name.startswith(("CORRAL_", "CLAUDE", "ANTHROPIC_"))]
    assert {name for name in os.environ if name.startswith("GIT_")} == {"GIT_CONFIG_NOSYSTEM"}
