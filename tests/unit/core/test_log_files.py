"""Logs of several processes stay bounded, and lose no line but the oldest."""

from __future__ import annotations

import fcntl
import subprocess
import sys
from pathlib import Path

import psutil

from corral.core import log_files
from tests.support.coordinated import eventually

WRITER = """
import sys
from pathlib import Path
from corral.core import log_files
log_files.LIMIT = 20_000
for number in range(3000):
    log_files.append_line(Path(sys.argv[1]), f"{sys.argv[2]} {number:05} " + "x" * 20)
"""


def test_a_log_with_two_writers_is_bounded_and_its_lines_are_whole_and_in_order(tmp_path: Path) -> None:
    path, source = tmp_path / "bridge.log", Path(__file__).resolve().parents[2] / "daemon"
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(path), name], env={"PYTHONPATH": str(source)})
        for name in ("a", "b")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    kept = [path, path.with_name("bridge.log.1")]
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in kept}
    assert sum(file.stat().st_size for file in kept) < 45_000
    lines = "".join(file.read_text() for file in reversed(kept)).splitlines()
    assert len(lines) > 20_000 / 30, "the old log is a whole one, and no second rotation replaced it with a short one"
    assert all(len(line) == 28 for line in lines)
    for name in ("a", "b"):
        numbers = [int(line.split()[1]) for line in lines if line.startswith(name)]
        assert numbers == sorted(numbers) and (not numbers or numbers == list(range(numbers[0], numbers[-1] + 1)))
    assert lines[-1].split()[1] == "02999"


def test_a_log_that_another_process_has_just_put_aside_is_not_put_aside_again(tmp_path: Path) -> None:
    path, source = tmp_path / "bridge.log", Path(__file__).resolve().parents[2] / "daemon"
    path.write_text("old\n" * 10_000)
    with path.open() as old:
        fcntl.flock(old, fcntl.LOCK_EX)
        code = WRITER.replace("range(3000)", "range(1)")
        late = subprocess.Popen([sys.executable, "-c", code, str(path), "late"], env={"PYTHONPATH": str(source)})
        eventually(lambda: any(str(path) == opened.path for opened in psutil.Process(late.pid).open_files()))
        path.replace(path.with_name("bridge.log.1"))
        path.write_text("new\n")
    assert late.wait(60) == 0
    assert path.with_name("bridge.log.1").read_text().startswith("old\n")
    assert path.read_text().splitlines()[0] == "new" and "late 00000" in path.read_text()


def test_a_log_that_is_short_or_a_link_is_left_alone(tmp_path: Path) -> None:
    short, link = tmp_path / "hook.log", tmp_path / "link.log"
    short.write_text("line\n")
    link.symlink_to(short)
    log_files.shorten(short)
    log_files.shorten(link)
    log_files.shorten(tmp_path / "none.log")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["hook.log", "link.log"]
