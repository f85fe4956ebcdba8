"""One table says what a state's word means to who reads it; each face has a colour for it."""

from __future__ import annotations

from typing import get_args

import pytest

from corral.core.states import AttemptOutcome, FeatureStatus, MergeState, ReceiptStatus, ShownStatus, TaskStatus
from corral.core.tones import Tone, tone_of
from corral.faces.cli.terminal import output
from corral.faces.screen.text import STYLES
from corral.faces.web.rendering import FOLDER, tone


@pytest.mark.parametrize("states", [TaskStatus, AttemptOutcome, MergeState, ReceiptStatus, ShownStatus, FeatureStatus])
def test_every_state_of_work_has_a_tone(states: type[TaskStatus]) -> None:
    assert [state for state in states.values() if tone_of(state) == "plain"] == []


def test_every_face_has_a_colour_for_every_tone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "coloured", lambda stream: True)
    sheet = (FOLDER / "static" / "page.css").read_text(encoding="utf-8")
    tones = {}
    for state in ("landed", "running", "held", "failed", "cancelled", "no such state"):
        tones[tone_of(state)] = output.state(state) != state
        assert f"--{tone(state)}-bg:" in sheet
    assert tones == {name: name != "plain" for name in get_args(Tone)}
    assert STYLES.keys() >= tones.keys()
