"""The log says what happened as JSON lines, a file per day, without secrets, and never fails its caller."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

import corral
from corral.core import logs

UTC = timezone.utc
Lines = Callable[[], list[dict[str, Any]]]
NOON = datetime(2031, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def log_file(tmp_path: Path) -> Path:
    return tmp_path / "logs" / "corral.log"


@pytest.fixture
def lines(log_file: Path) -> Iterator[Lines]:
    """The log is on; calling the fixture's value reads what is in today's file."""
    logs.configure(log_file, "INFO", 30, stderr=False)
    yield lambda: read(log_file)
    logs.close()


def read(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def say(text: str, at: datetime) -> None:
    """One line of another library, at any time one likes."""
    logging.getLogger("clock").handle(
        logging.makeLogRecord(
            {"name": "clock", "levelno": 30, "levelname": "WARNING", "msg": text, "created": at.timestamp()}
        )
    )


def test_a_line_says_when_how_grave_who_what_and_about_what(lines: Lines) -> None:
    before = datetime.now(UTC)
    log = logs.logger("queue").bind(task_id="t-1")
    log.info("task_started", message="Task t-1 started.", session_id="s-1", attempt=2)
    log.warning("task_slow")
    first, second = lines()
    moment = datetime.strptime(first.pop("timestamp"), "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    assert abs(moment - before) < timedelta(seconds=60)
    assert list(first.items()) == [
        ("level", "INFO"),
        ("component", "queue"),
        ("event", "task_started"),
        ("message", "Task t-1 started."),
        ("task_id", "t-1"),
        ("session_id", "s-1"),
        ("attempt", 2),
    ]
    assert (second["level"], second["message"], second["task_id"]) == ("WARNING", "task slow", "t-1")


def test_the_level_is_respected_and_can_be_changed_while_running(lines: Lines) -> None:
    log = logs.logger("queue")
    for level in ("INFO", "DEBUG", "ERROR"):
        logs.set_level(level)
        for method in (log.debug, log.info, log.warning, log.error, log.critical):
            method("said", while_at=level)
    assert [(line["while_at"], line["level"]) for line in lines()] == [
        ("INFO", "INFO"), ("INFO", "WARNING"), ("INFO", "ERROR"), ("INFO", "CRITICAL"),
        ("DEBUG", "DEBUG"), ("DEBUG", "INFO"), ("DEBUG", "WARNING"), ("DEBUG", "ERROR"), ("DEBUG", "CRITICAL"),
        ("ERROR", "ERROR"), ("ERROR", "CRITICAL"),
    ]  # fmt: skip


def test_other_libraries_go_the_same_way(lines: Lines) -> None:
    logging.getLogger("uvicorn.error").error("port %d is taken", 80)
    logging.getLogger("sqlalchemy.pool").warning("100% busy")
    logging.getLogger("uvicorn.access").info("GET /health")
    logging.getLogger("watchdog").debug("in-event")
    assert [(line["component"], line["event"], line["message"]) for line in lines()] == [
        ("uvicorn.error", "log", "port 80 is taken"),
        ("sqlalchemy.pool", "log", "100% busy"),
    ]


def test_an_exception_is_told_whole(lines: Lines) -> None:
    try:
        raise ValueError("the cause")
    except ValueError:
        logs.logger("queue").exception("step_failed")
        logging.getLogger("uvicorn.error").exception("failed")
    for line in lines():
        assert line["level"] == "ERROR"
        assert line["exception"].startswith("Traceback")
        assert line["exception"].endswith("ValueError: the cause")


def test_values_of_any_kind_become_json(lines: Lines) -> None:
    circle: dict[str, Any] = {}
    circle["again"] = circle
    logs.logger("queue").info(
        "said",
        path=Path("/a"),
        pair=(1, {2}),
        key={(1, 2): None},
        nan=float("nan"),
        circle=circle,
        text="naïve 😀 \udc80\n",
    )
    (line,) = lines()
    assert (line["path"], line["pair"], line["key"], line["nan"]) == ("/a", [1, [2]], {"(1, 2)": None}, "nan")
    assert "again" in line["circle"]
    assert line["text"] == "naïve 😀 \udc80\n"


def test_before_it_is_configured_it_is_silent(capfd: pytest.CaptureFixture[str]) -> None:
    logs.logger("queue").error("said")
    assert capfd.readouterr() == ("", "")


def test_standard_error_gets_the_same_lines(log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    logs.configure(log_file, "INFO", 30, stderr=True)
    logs.logger("queue").info("said", api_key="canary")
    logs.close()
    assert stream.getvalue() == log_file.read_text()
    assert "canary" not in stream.getvalue()


def test_configuring_again_moves_the_log(lines: Lines, tmp_path: Path) -> None:
    logs.logger("queue").info("one")
    logs.configure(tmp_path / "other.log", "INFO", 30, stderr=False)
    logs.logger("queue").info("two")
    assert [line["event"] for line in lines()] == ["one"]
    assert [line["event"] for line in read(tmp_path / "other.log")] == ["two"]


class TestSecrets:
    """Nothing that is secret reaches the file, wherever in a line it stands."""

    @pytest.mark.req("NFR-SEC-002")
    def test_no_secret_is_found_in_the_file(self, log_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SOME_API_KEY", "canary'from the\nenvironment")
        logs.configure(log_file, "DEBUG", 30, stderr=False)
        secrets = [
            "sk-ant-api03-canary",
            "ghp_canary0123456789abcdef",
            "canary'from the\nenvironment",
            "Bearer canary0123456789",
        ]
        log = logs.logger("queue").bind(bound=secrets[0])
        for secret in secrets:
            log.info(f"event {secret}", message=f"message {secret}", deep={"a": [{"b": (secret, {secret})}], secret: 1})
            log.info("said", value=Path(secret), error=ValueError(secret))
            log.info("said", headers={"password": "canary", "Authorization": "canary"}, api_key="canary", tokens=5)
            logging.getLogger("uvicorn.error").error("its args %s", secret)
            try:
                try:
                    raise KeyError(secret)
                except KeyError as error:
                    raise RuntimeError(f"after {secret}") from error
            except RuntimeError:
                log.exception("failed")
                logging.getLogger("other").exception("failed")
        logs.close()
        text = log_file.read_text()
        assert len(text.splitlines()) == 6 * len(secrets)
        assert "canary" not in text
        assert '"tokens": 5' in text

    def test_files_are_for_the_owner_alone(self, lines: Lines, log_file: Path) -> None:
        logs.logger("queue").info("said")
        assert log_file.stat().st_mode & 0o777 == 0o600
        assert log_file.parent.stat().st_mode & 0o777 == 0o700

    def test_a_file_that_others_could_read_is_closed_to_them(self, lines: Lines, log_file: Path) -> None:
        log_file.parent.mkdir()
        log_file.touch(mode=0o644)
        logs.logger("queue").info("said")
        assert log_file.stat().st_mode & 0o777 == 0o600

    def test_a_link_is_not_followed(
        self, lines: Lines, log_file: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "precious").write_text("mine")
        log_file.parent.mkdir()
        log_file.symlink_to(tmp_path / "precious")
        logs.logger("queue").info("said")
        assert (tmp_path / "precious").read_text() == "mine"
        assert "a line could not be logged" in capfd.readouterr().err


class TestDays:
    """A file per UTC day, kept as long as was asked for."""

    def test_the_first_line_of_a_day_starts_a_file(self, lines: Lines, log_file: Path) -> None:
        say("evening", NOON.replace(hour=23, minute=59, second=59))
        say("night", NOON.replace(hour=0) + timedelta(days=1))
        say("next noon", NOON + timedelta(days=1))
        assert [line["message"] for line in read(log_file.with_name("corral.log.2031-03-01"))] == ["evening"]
        assert [line["message"] for line in lines()] == ["night", "next noon"]
        assert log_file.with_name("corral.log.2031-03-01").stat().st_mode & 0o777 == 0o600

    def test_a_file_of_an_earlier_run_is_put_aside_under_its_own_day(self, lines: Lines, log_file: Path) -> None:
        log_file.parent.mkdir()
        log_file.write_text('{"message": "old"}\n')
        os.utime(log_file, (NOON.timestamp(), NOON.timestamp()))
        say("new", NOON + timedelta(days=3))
        assert [line["message"] for line in read(log_file.with_name("corral.log.2031-03-01"))] == ["old"]
        assert [line["message"] for line in lines()] == ["new"]

    def test_a_month_is_kept_and_nothing_of_others_is_touched(self, lines: Lines, log_file: Path) -> None:
        for day in range(40):
            say(f"day {day}", NOON + timedelta(days=day))
        beside = log_file.with_name("corral.log.2001-01-01.gz")
        beside.touch()
        say("day 40", NOON + timedelta(days=40))
        kept = sorted(file.name for file in log_file.parent.iterdir())
        days = [(NOON + timedelta(days=day)).date().isoformat() for day in range(10, 40)]
        assert kept == sorted(["corral.log", beside.name, *(f"corral.log.{day}" for day in days)])

    def test_a_clock_that_goes_back_loses_nothing(self, lines: Lines, log_file: Path) -> None:
        say("one", NOON + timedelta(days=1))
        say("two", NOON)
        say("three", NOON + timedelta(days=2))
        say("four", NOON)
        assert [line["message"] for line in read(log_file.with_name("corral.log.2031-03-02"))] == ["one", "two"]
        assert [line["message"] for line in lines()] == ["three", "four"]

    def test_a_day_that_was_put_aside_is_not_overwritten(self, lines: Lines, log_file: Path) -> None:
        log_file.parent.mkdir()
        log_file.with_name("corral.log.2031-03-01").write_text("precious\n")
        say("one", NOON)
        say("two", NOON + timedelta(days=1))
        assert log_file.with_name("corral.log.2031-03-01").read_text() == "precious\n"
        assert [line["message"] for line in lines()] == ["one", "two"]


class TestFaults:
    """A log that cannot be written stops nobody, says so once, and goes on as soon as it can."""

    @pytest.mark.req("NFR-REL-002")
    def test_a_deleted_folder_is_made_again(self, lines: Lines, log_file: Path) -> None:
        logs.logger("queue").info("one")
        log_file.unlink()
        log_file.parent.rmdir()
        logs.logger("queue").info("two")
        assert [line["event"] for line in lines()] == ["two"]

    def test_a_project_that_is_gone_is_not_brought_back(self, tmp_path: Path) -> None:
        logs.configure(tmp_path / "gone" / "logs" / "corral.log", "INFO", 30, stderr=False)
        logs.logger("queue").info("said")
        logs.close()
        assert not (tmp_path / "gone").exists()

    def test_the_log_of_a_repository_that_moved_goes_with_it(self, log_file: Path) -> None:
        left: list[bool] = []
        logs.configure(log_file, "INFO", 30, stderr=False, has_left=lambda: bool(left))
        logs.logger("queue").info("one")
        moved = log_file.parent.rename(log_file.parent.with_name("moved"))
        left.append(True)
        logs.logger("queue").info("two")
        logs.close()
        assert [line["event"] for line in read(moved / log_file.name)] == ["one", "two"]
        assert not log_file.parent.exists(), "nothing is put back where it was"

    def test_a_moved_file_is_not_written_any_more(self, lines: Lines, log_file: Path) -> None:
        logs.logger("queue").info("one")
        log_file.rename(log_file.with_name("taken-away"))
        logs.logger("queue").info("two")
        assert [line["event"] for line in lines()] == ["two"]

    @pytest.mark.req("NFR-REL-002")
    def test_lost_lines_are_counted_and_told(
        self, lines: Lines, log_file: Path, capfd: pytest.CaptureFixture[str]
    ) -> None:
        log_file.parent.write_text("in the way")
        for _ in range(3):
            logs.logger("queue").error("lost")
        assert capfd.readouterr().err.count("a line could not be logged") == 1
        log_file.parent.unlink()
        logs.logger("queue").info("found")
        lost, line = lines()
        assert (lost["event"], lost["count"], lost["level"]) == ("lines_lost", 3, "WARNING")
        assert line["event"] == "found"

    def test_a_value_that_cannot_be_shown_costs_its_line_only(
        self, lines: Lines, capfd: pytest.CaptureFixture[str]
    ) -> None:
        class Rude:
            def __str__(self) -> str:
                raise RuntimeError("no")

        logs.logger("queue").info("said", value=Rude())
        logs.logger("queue").info("after")
        assert [line["event"] for line in lines()] == ["lines_lost", "after"]

    @pytest.mark.req("NFR-REL-002")
    def test_a_full_disk_stops_nobody_and_tears_one_line_at_most(self, tmp_path: Path) -> None:
        """The limit on a file's size does to a process what a full disk does: a short write, then refusals."""
        script = """
import resource, sys
from pathlib import Path
from corral.core import logs
logs.configure(Path(sys.argv[1]), "INFO", 30, stderr=False)
log = logs.logger("queue")
log.info("before")
log.info("second")
resource.setrlimit(resource.RLIMIT_FSIZE, (Path(sys.argv[1]).stat().st_size + 50, resource.RLIM_INFINITY))
for _ in range(5):
    log.info("lost")
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
log.info("after")
print("still here")
"""
        file = tmp_path / "corral.log"
        source = Path(corral.__file__).parents[1]
        done = subprocess.run(
            [sys.executable, "-c", script, str(file)],
            env={**os.environ, "PYTHONPATH": str(source)},
            capture_output=True,
            text=True,
        )
        assert done.stdout == "still here\n", done.stderr
        before, second, torn, notice, after = file.read_text().splitlines()
        assert [json.loads(line)["event"] for line in (before, second, after)] == ["before", "second", "after"]
        assert len(torn) == 50
        assert json.loads(notice)["count"] == 5
