"""The job that seals logs later: in small parts, again where it failed, and from the notes of a killed daemon."""

from __future__ import annotations

import os
import signal
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from corral.core import sealing
from corral.core.crash import VARIABLE
from corral.core.needs import Need
from corral.observe.retention.log_sealing import AGAIN, LOOK, NEXT, LogSealer

KEY = "sk-ant-api03-" + "Ab9" * 20
NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)


@pytest.mark.req("NFR-SEC-002")
def test_a_large_log_is_sealed_in_steps_and_by_the_next_daemon_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sealing, "WINDOW", 1 << 10)
    monkeypatch.setattr(sealing, "OVERLAP", 1 << 8)
    file = tmp_path / "merges" / "m" / "1.log"
    file.parent.mkdir(parents=True)
    file.write_text(f"{KEY} {'.' * 500}\n" * 20)
    size = file.stat().st_size
    sealing.put_off(tmp_path, file)
    killed = os.fork()
    if killed == 0:
        monkeypatch.setenv(VARIABLE, "logs.window_sealed")
        LogSealer(tmp_path, {}).step(NOW)
        os._exit(0)
    assert os.waitpid(killed, 0)[1] == signal.SIGKILL
    assert 0 < file.read_text().count(KEY) < 20
    assert sealing.unsealed(tmp_path) == [file]
    after, steps = LogSealer(tmp_path, {}), 0
    while after.step(NOW) == NOW + NEXT:
        steps += 1
    assert steps > 5
    assert (file.read_text().count(KEY), file.stat().st_size, sealing.unsealed(tmp_path)) == (0, size, [])


@pytest.mark.req("NFR-SEC-002")
def test_one_that_fails_is_shown_tried_again_and_keeps_no_other_waiting(tmp_path: Path) -> None:
    bad, good = tmp_path / "a.log", tmp_path / "b.log"
    bad.mkdir()
    good.write_text(KEY)
    for file in (bad, good):
        sealing.put_off(tmp_path, file)
    faults: dict[str, Need] = {}
    job, now = LogSealer(tmp_path, faults), NOW
    assert job.step(now) == now + NEXT
    assert job.step(now) == now + NEXT
    assert job.step(now) == now + AGAIN
    assert KEY not in good.read_text()
    need = faults["log_sealing"]
    assert (str(bad) in need.what, need.since is not None) == (True, True)
    bad.rmdir()
    bad.write_text(KEY)
    now += timedelta(minutes=1)
    while (due := job.step(now)) == now + NEXT:
        pass
    assert (due, KEY in bad.read_text(), faults) == (now + LOOK, False, {})
