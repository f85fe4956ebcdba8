"""The daemon's events as they happen: server-sent events over its socket. Standard library only.

A client loads the view, whose ``seq`` is the number of the last event in it, and reads on from there: it misses nothing. When the
daemon restarts, the next :meth:`EventStream.open` continues behind the last event that was read.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import time
from typing import Any

from corral.client import wire
from corral.config.paths import Project, find_socket

Event = dict[str, Any]
"""``{event_id, at, kind, task_id, session_id, merge_id, data}``"""
MOST_HEAD = 65536
"""Bytes of an answer's head."""
OPEN_TIMEOUT_S = 10.0


class EventStream:
    """One connection to the stream of one project. Not thread-safe, except for :meth:`interrupt`.

    Args:
        project: The daemon's project.
        after: The number of the last event that is known.
    """

    def __init__(self, project: Project, after: int) -> None:
        self.project = project
        self.seq = after
        self._link: socket.socket | None = None
        self._raw = bytearray()
        self._text = bytearray()

    def open(self) -> None:
        """Connect, behind the last event that was read. Starts no daemon.

        Raises:
            OSError: No daemon answers.
        """
        self.close()
        deadline = time.monotonic() + OPEN_TIMEOUT_S
        link = self._link = wire.dial(os.fspath(find_socket(self.project)), OPEN_TIMEOUT_S)
        link.sendall(wire.request("GET", f"/api/v1/events?after={self.seq}"))
        while (end := self._raw.find(b"\r\n\r\n")) < 0:
            if len(self._raw) > MOST_HEAD:
                raise ConnectionAbortedError("not an answer of the daemon")
            self._receive(wire.remaining_s(deadline))
        if not self._raw.startswith(b"HTTP/1.1 200 "):
            status = bytes(self._raw[:64]).split(b"\r\n")[0].decode("latin-1")
            self.close()
            raise ConnectionAbortedError(f"the daemon answered: {status}")
        del self._raw[: end + 4]

    @property
    def is_open(self) -> bool:
        """Whether there is a connection, as far as it is known."""
        return self._link is not None

    def read(self, timeout_s: float | None = None) -> list[Event] | None:
        """Wait for the next events.

        Args:
            timeout_s: None: until something comes; the daemon sends a heartbeat every 15 s.

        Returns:
            The events that came, in order; empty: a heartbeat of the daemon; None: nothing came in time.

        Raises:
            OSError: The connection is gone.
        """
        events = self._decode()
        while events is None:
            try:
                self._receive(timeout_s)
            except TimeoutError:
                return None
            events = self._decode()
        return events

    def close(self) -> None:
        """Close the connection."""
        link, self._link = self._link, None
        self._raw.clear()
        self._text.clear()
        if link is not None:
            link.close()

    def interrupt(self) -> None:
        """Have the thread that reads get an ``OSError``; callable from any thread."""
        link = self._link
        if link is not None:
            with contextlib.suppress(OSError):  # it is closed
                link.shutdown(socket.SHUT_RDWR)

    def _receive(self, timeout_s: float | None) -> None:
        if self._link is None:
            raise ConnectionAbortedError("the stream is closed")
        self._link.settimeout(timeout_s)
        part = self._link.recv(65536)
        if not part:
            self.close()
            raise ConnectionResetError("the daemon closed the stream")
        self._raw += part

    def _decode(self) -> list[Event] | None:
        """The events of all complete messages; None: there is no complete message yet."""
        while (end := self._raw.find(b"\r\n")) >= 0:
            size = int(bytes(self._raw[:end]).partition(b";")[0] or b"0", 16)
            if len(self._raw) < end + 2 + size + 2:
                break
            if size == 0:
                self.close()
                raise ConnectionResetError("the daemon ended the stream")
            self._text += self._raw[end + 2 : end + 2 + size]
            del self._raw[: end + 2 + size + 2]
        *messages, rest = bytes(self._text).split(b"\n\n")
        if not messages:
            return None
        self._text = bytearray(rest)
        events: list[Event] = []
        for message in messages:
            for line in message.split(b"\n"):
                if line.startswith(b"data: "):
                    event = json.loads(line[6:])
                    self.seq = event["event_id"]
                    events.append(event)
        return events
