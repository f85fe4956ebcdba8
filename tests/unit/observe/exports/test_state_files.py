"""Files of JSON lines that survive everything: each line once, in order, nothing through a link."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from corral.core.errors import FolderLinked
from corral.observe.exports import state_files
from corral.observe.exports.state_files import Lines, replace

NEWEST = 10**9


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "state" / "analytics" / "lines.jsonl"


def lines(file: Path, top: Path) -> Lines:
    return Lines(file, top)


def some(*ids: int, **more: Any) -> list[dict[str, Any]]:
    return [{"event_id": event_id, **more} for event_id in ids]


def ids(file: Path) -> list[int]:
    return [json.loads(line)["event_id"] for line in file.read_text().splitlines()]


def test_a_file_says_how_far_it_has_come(file: Path, tmp_path: Path) -> None:
    assert lines(file, tmp_path).position(NEWEST) == 0
    lines(file, tmp_path).append(some(1, 4))
    mine = lines(file, tmp_path)
    assert mine.position(NEWEST) == 4
    mine.append(some(9))
    assert (mine.position(NEWEST), lines(file, tmp_path).position(NEWEST)) == (9, 9)
    assert ids(file) == [1, 4, 9]
    assert file.stat().st_mode & 0o777 == 0o600 and file.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.req("SUP-NFR1")
@pytest.mark.parametrize("cut", range(1, 40))
def test_a_torn_last_line_is_cut_off_wherever_it_tore(file: Path, tmp_path: Path, cut: int) -> None:
    lines(file, tmp_path).append(some(1, 2, 3, text="é" * 3))
    whole = file.read_bytes()
    file.write_bytes(whole[:-cut])
    mine = lines(file, tmp_path)
    position = mine.position(NEWEST)
    mine.append(some(*range(position + 1, 4), text="é" * 3))
    assert file.read_bytes() == whole


def test_what_another_changed_under_a_running_daemon_is_looked_at_again(file: Path, tmp_path: Path) -> None:
    mine = lines(file, tmp_path)
    mine.append(some(1, 2))
    file.write_text('{"event_id": 1}\n')
    assert mine.position(NEWEST) == 1
    file.unlink()
    assert mine.position(NEWEST) == 0


def test_a_last_line_that_is_none_of_ours_or_longer_than_a_look_is_no_obstacle(file: Path, tmp_path: Path) -> None:
    lines(file, tmp_path).append(some(7, text="x" * (3 * state_files.TAIL)))
    with file.open("a") as opened:
        opened.write("hello\n[1]\n\n")
    assert lines(file, tmp_path).position(NEWEST) == 7


def test_a_file_of_another_database_is_set_aside(file: Path, tmp_path: Path) -> None:
    mine = lines(file, tmp_path)
    mine.append(some(900))
    assert lines(file, tmp_path).position(12) == 0
    assert not file.exists() and ids(file.with_name("lines.jsonl.previous")) == [900]


def all_ids(file: Path) -> list[int]:
    """Of the older files too, the oldest first."""
    files = sorted(
        file.parent.glob(f"{file.name}*"), key=lambda path: -int(path.name.rpartition(".")[2].replace("jsonl", "0"))
    )
    return [event_id for each in files for event_id in ids(each)]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_files, "MOST", 60)
    monkeypatch.setattr(state_files, "KEPT", 3)


@pytest.mark.usefixtures("small")
def test_a_full_file_becomes_an_older_one_and_few_are_kept(file: Path, tmp_path: Path) -> None:
    mine = lines(file, tmp_path)
    for number in range(1, 30):
        mine.append(some(number))
        assert mine.position(NEWEST) == lines(file, tmp_path).position(NEWEST) == number
        assert file.stat().st_size < 100
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, *(f"{file.name}.{n}" for n in (1, 2, 3))]
    kept = all_ids(file)
    assert kept == list(range(kept[0], 30)) and 10 < len(kept) < 20
    file.unlink()
    position = mine.position(NEWEST)
    mine.append(some(*range(position + 1, 30)))
    assert all_ids(file) == kept, "a deleted file begins where the one before it ends"


@pytest.mark.req("SUP-NFR1")
@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("filled", range(1, 16))
@pytest.mark.parametrize("step", range(4))
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_in_the_middle_of_a_rotation_loses_and_doubles_nothing(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: int, step: int, when: str
) -> None:
    written = 0
    for _line in range(filled):
        written += 1
        lines(file, tmp_path).append(some(written))
    before, steps, real = all_ids(file), iter(range(10)), Path.replace

    def killed(path: Path, target: Path) -> Path:
        is_now = next(steps) == step
        if is_now and when == "before":
            raise KeyboardInterrupt
        renamed = real(path, target)
        if is_now:
            raise KeyboardInterrupt
        return renamed

    monkeypatch.setattr(Path, "replace", killed)
    for _line in range(4):
        try:
            lines(file, tmp_path).append(some(written + 1))
            written += 1
        except KeyboardInterrupt:
            break
    monkeypatch.undo()
    monkeypatch.setattr(state_files, "MOST", 60)
    monkeypatch.setattr(state_files, "KEPT", 3)
    assert lines(file, tmp_path).position(NEWEST) == written
    lines(file, tmp_path).append(some(*range(written + 1, 40)))
    after = all_ids(file)
    assert after == list(range(after[0], 40)) and after[0] - before[0] < 8, "at most the oldest file is gone"


@pytest.mark.usefixtures("small")
def test_older_files_of_another_database_are_set_aside_too(file: Path, tmp_path: Path) -> None:
    mine = lines(file, tmp_path)
    for number in range(900, 912):
        mine.append(some(number))
    assert lines(file, tmp_path).position(12) == 0
    assert all(path.name.endswith(".previous") for path in file.parent.iterdir())


@pytest.mark.req("SUP-NFR1")
def test_a_full_disk_leaves_a_part_that_is_repaired(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine = lines(file, tmp_path)
    mine.append(some(1))
    real = os.write

    def full(handle: int, content: Any) -> int:
        if len(content) < 30:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(handle, bytes(content)[:30])

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space"):
        mine.append(some(2, 3, text="abc"))
    monkeypatch.undo()
    position = mine.position(NEWEST)
    mine.append(some(*range(position + 1, 4), text="abc"))
    assert ids(file) == [1, 2, 3]


@pytest.mark.parametrize("part", ["state", "state/analytics", "state/analytics/lines.jsonl"])
def test_nothing_is_read_or_written_through_a_link(file: Path, tmp_path: Path, part: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "secret").write_text("mine")
    link = tmp_path / part
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere / "secret" if part.endswith("jsonl") else elsewhere)
    mine = lines(file, tmp_path)
    for attempt in (lambda: mine.position(NEWEST), lambda: replace(file, b"x", tmp_path)):
        with pytest.raises(FolderLinked):
            attempt()
    with pytest.raises((FolderLinked, OSError)):
        mine.append(some(1))
    assert [path.name for path in elsewhere.iterdir()] == ["secret"] and (elsewhere / "secret").read_text() == "mine"


def test_what_is_no_file_is_refused(file: Path, tmp_path: Path) -> None:
    file.parent.mkdir(parents=True)
    os.mkfifo(file)
    with pytest.raises(OSError, match="regular"):
        lines(file, tmp_path).position(NEWEST)


def test_a_file_is_replaced_at_once(file: Path, tmp_path: Path) -> None:
    replace(file, b"one", tmp_path)
    file.with_name(f".{file.name}.partial").write_bytes(b"left by a kill")
    replace(file, b"two", tmp_path)
    assert file.read_bytes() == b"two" and list(file.parent.iterdir()) == [file]


@pytest.mark.req("SUP-NFR2")
def test_a_line_costs_the_same_however_long_the_file_is(
    file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes and flushes are counted: nothing but the line is written, and at most the end of the file is read."""
    done: list[tuple[str, int]] = []
    write, read, flush = os.write, os.pread, os.fsync

    def counted(what: str, size: int, deed: Callable[[], Any]) -> Any:
        done.append((what, size))
        return deed()

    monkeypatch.setattr(os, "write", lambda to, data: counted("write", len(data), lambda: write(to, data)))
    monkeypatch.setattr(os, "pread", lambda of, size, at: counted("read", size, lambda: read(of, size, at)))
    monkeypatch.setattr(os, "fsync", lambda of: counted("flush", 0, lambda: flush(of)))
    mine, line = lines(file, tmp_path), some(7, text="x" * 300)
    size = len(json.dumps(line[0])) + 1
    for _length in (0, 1000):
        done.clear()
        mine.append(line)
        assert done == [("write", size), ("flush", 0)]
        done.clear()
        assert mine.position(NEWEST) == 7 and done == [], "it knows what it has written"
        assert lines(file, tmp_path).position(NEWEST) == 7, "and another finds it"
        assert done == [("read", min(file.stat().st_size, state_files.TAIL))]
        mine.append(some(*range(1000), text="y" * 300))
        mine.append(line)
    assert file.stat().st_size > 4 * state_files.TAIL
