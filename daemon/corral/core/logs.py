"""The daemon's log: JSON lines, one file per UTC day, no secrets; a failure to log never fails the caller.

Every line has ``timestamp``, ``level``, ``component``, ``event`` and ``message``, then the caller's fields
(``task_id``, ``session_id``, …). Warnings and errors of other libraries go the same way, with the library as
``component`` and ``event: "log"``. Logging is per process, so this module keeps the process's one handler.
"""

from __future__ import annotations

import contextlib
import errno
import json
import logging
import math
import os
import sys
from collections.abc import Callable, Mapping
from datetime import date, datetime, timedelta
from functools import lru_cache
from pathlib import Path
from typing import Any

import structlog
from structlog.typing import EventDict

from corral.core.instants import UTC, iso
from corral.core.redaction import REDACTED, is_secret_name, may_hold_secret, may_name_secret, redact, remember_secrets

FILE = "corral.log"
"""The daemon's log, in the folder of logs."""

_CORRAL = logging.getLogger("corral")
_CORRAL.addHandler(logging.NullHandler())
_DEPTH = 10
"""Maximum nesting depth of a structure; deeper or recursive ones are written as text."""

_json_of = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode

_installed: list[logging.Handler] = []


def configure(
    log_file: Path, level: str, keep_days: int, *, stderr: bool, has_left: Callable[[], bool] = lambda: False
) -> None:
    """Send every log line of this process to a file; a second call replaces the first configuration.

    The current values of the environment's secrets are kept out of the log (see :mod:`corral.core.redaction`).

    Args:
        log_file: Today's file; its folder is created if needed, but not the folder's parents. Earlier days are
            ``<name>.YYYY-MM-DD`` in the same folder.
        level: The lowest level of Corral's own lines.
        keep_days: Days after which an earlier day's file is deleted.
        stderr: Whether to also write to standard error.
        has_left: Whether the repository was moved or deleted: then the lines go on into the open file, wherever it is now.
    """
    close()
    remember_secrets(os.environ)
    _installed.append(_DailyFile(log_file, keep_days, has_left))
    if stderr:
        _installed.append(logging.StreamHandler())
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    for handler in _installed:
        handler.setFormatter(_formatter())
        root.addHandler(handler)
    set_level(level)


def set_level(level: str) -> None:
    """Change the lowest level that is written: ``DEBUG``, ``INFO``, ``WARNING``, ``ERROR`` or ``CRITICAL``."""
    _CORRAL.setLevel(level)


def close() -> None:
    """Close the file. Later lines are dropped."""
    for handler in _installed:
        logging.getLogger().removeHandler(handler)
        handler.close()
    _installed.clear()


@lru_cache(256)  # the event log asks for one with every line
def logger(component: str) -> structlog.stdlib.BoundLogger:
    """A logger for one component of the daemon (``queue``, ``landing``, ``server``, …); silent until :func:`configure`.

    The first argument of a call is the event, a fixed snake_case word; other fields are keyword arguments, ``message``
    (a sentence for people) among them: ``log.info("task_started", message="Task 7 started.", task_id=…)``. ``bind``
    adds context.
    """
    bound: structlog.stdlib.BoundLogger = structlog.wrap_logger(
        _CORRAL.getChild(component),
        processors=[structlog.stdlib.filter_by_level, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        context_class=dict,
    ).bind(component=component)
    return bound


def _formatter() -> structlog.stdlib.ProcessorFormatter:
    return structlog.stdlib.ProcessorFormatter(
        processors=[
            _arrange,
            structlog.processors.format_exc_info,
            _render,
        ]
    )


def _arrange(_logger: Any, _method: str, fields: EventDict) -> EventDict:
    record: logging.LogRecord = fields.pop("_record")
    event, message = fields.pop("event"), fields.pop("message", None)
    if not fields.pop("_from_structlog"):
        event, message = "log", event
    return {
        "timestamp": iso(_moment(record)),
        "level": record.levelname,
        "component": fields.pop("component", record.name),
        "event": event,
        "message": str(event).replace("_", " ") if message is None else message,
        **fields,
    }


def _render(_logger: Any, _method: str, line: EventDict) -> str:
    text = _plain(line)
    if text is not None:
        return text
    return json.dumps({name: _clean(value, name, 1) for name, value in line.items()}, ensure_ascii=False)


def _plain(line: EventDict) -> str | None:
    """The JSON text of a line in which nothing has to be replaced, as in nearly all; None: something may have to be."""
    try:
        text = _json_of(line)
    except (TypeError, ValueError, RecursionError):
        return None
    # A backslash: some character is written as another, so that a secret with it would not be recognised.
    is_doubtful = "\\" in text or text.count("{") + text.count("[") > _DEPTH
    return None if is_doubtful or may_name_secret(text) or may_hold_secret(text) else text


def _clean(value: object, name: str, depth: int) -> Any:
    """Remove secrets from a JSON value; ``name`` is its key."""
    if isinstance(value, str):
        return REDACTED if is_secret_name(name) else redact(value)
    if value is None or isinstance(value, int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if depth < _DEPTH and isinstance(value, Mapping):
        return {redact(str(key)): _clean(inner, str(key), depth + 1) for key, inner in value.items()}
    if depth < _DEPTH and isinstance(value, (list, tuple, set, frozenset)):
        return [_clean(inner, name, depth + 1) for inner in value]
    return redact(str(value))


def _moment(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


class _DailyFile(logging.Handler):
    """Appends whole lines, in a new file per UTC day; survives a full disk and a deleted folder.

    Lines that cannot be written are counted, and the count is written as soon as possible.
    """

    def __init__(self, path: Path, keep_days: int, has_left: Callable[[], bool]) -> None:
        super().__init__()
        self._path = path
        self._has_left = has_left
        self._keep = timedelta(days=keep_days)
        self._fd: int | None = None
        self._day = date.min
        self._lost = 0
        self._torn = False

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._write(self.format(record), _moment(record))
        except Exception as error:  # noqa: BLE001 - whatever is wrong with the log, the caller's work goes on
            self._lost += 1
            if self._lost == 1:
                _complain(error)

    def close(self) -> None:
        self._release()
        super().close()

    def _write(self, line: str, now: datetime) -> None:
        fd = self._descriptor(now.date())
        lines = [_lost_lines(self._lost, now), line] if self._lost else [line]
        if self._torn:
            lines.insert(0, "")
        data = "".join(f"{text}\n" for text in lines).encode(errors="backslashreplace")
        self._torn = os.write(fd, data) < len(data)
        if self._torn:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._lost = 0

    def _descriptor(self, today: date) -> int:
        fd = self._open_file(today)
        if today > self._day:
            self._rotate(today)
            fd = self._open_file(today)
        return fd

    def _open_file(self, today: date) -> int:
        """The file at the path, which is reopened if somebody deleted it; after a move of the repository the open one is used."""
        if self._fd is not None and (self._is_at_path(self._fd) or self._has_left()):
            return self._fd
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(self._path, flags, 0o600)
        self._release()
        self._fd = fd
        status = os.fstat(fd)
        self._day = datetime.fromtimestamp(status.st_mtime, UTC).date() if status.st_size else today
        if status.st_mode & 0o077:
            os.fchmod(fd, 0o600)
        return fd

    def _is_at_path(self, fd: int) -> bool:
        try:
            return os.path.samestat(self._path.stat(follow_symlinks=False), os.fstat(fd))
        except OSError:
            return False

    def _rotate(self, today: date) -> None:
        """Rename the file of an earlier day and delete the oldest; if that fails, keep writing to the same file."""
        aside = self._path.with_name(f"{self._path.name}.{self._day.isoformat()}")
        self._day = today
        with contextlib.suppress(OSError):
            if not aside.exists():
                self._path.rename(aside)
            for old in self._path.parent.glob(f"{self._path.name}.????-??-??"):
                if old.name < f"{self._path.name}.{(today - self._keep).isoformat()}":
                    old.unlink()

    def _release(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None


def _lost_lines(count: int, now: datetime) -> str:
    return json.dumps(
        {
            "timestamp": iso(now),
            "level": "WARNING",
            "component": "logs",
            "event": "lines_lost",
            "message": f"{count} lines could not be written before this one.",
            "count": count,
        }
    )


def _complain(error: Exception) -> None:
    if sys.stderr is not None:
        with contextlib.suppress(OSError, ValueError):
            print(f"corral: a line could not be logged: {redact(str(error))}", file=sys.stderr)
