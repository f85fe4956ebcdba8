"""Ask a daemon over its socket and over TCP, and keep each answer under a name that says what was asked."""

from __future__ import annotations

import http.client
import json
import re
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from corral.client import wire
from corral.client.connection import Exchange
from corral.config.paths import find_project, find_socket
from tests.golden.plain import plain

PREFIX = "/api/v1"
_HEADERS = {"content-type", "link", "www-authenticate", "cache-control", "retry-after", "location"}


@dataclass
class Answers:
    """What was answered, by what was asked.

    Attributes:
        folders: See :func:`tests.golden.plain.plain`.
    """

    folders: dict[str, str]
    kept: dict[str, Any] = field(default_factory=dict)

    def keep(self, name: str, answer: Any) -> None:
        """Keep an answer; the second one of a name gets a number."""
        number, free = 1, name
        while free in self.kept:
            number += 1
            free = f"{name} #{number}"
        self.kept[free] = plain(answer, self.folders)

    def keep_first(self, name: str, answer: Any) -> None:
        """Keep an answer unless there is one of this name."""
        if name not in self.kept:
            self.kept[name] = plain(answer, self.folders)


class Listener:
    """Hears every request of the clients of this process; keeps the first answer of each kind, and all that was asked.

    Args:
        templates: The paths of all operations, as the OpenAPI document has them, without the prefix.
    """

    def __init__(self, answers: Answers, templates: list[str]) -> None:
        self._answers = answers
        self._known = [(re.compile(re.sub(r"\{\w+\}", "[^/]+", path) + "$"), path) for path in templates]
        self.asked: list[tuple[str, str, str, bytes | None]] = []

    def step(self, text: str) -> None:
        """Nothing that an answer could say."""

    def exchanged(self, done: Exchange) -> None:
        """Keep what was answered."""
        target = done.target.removeprefix(PREFIX)
        name = f"{done.method} {self.operation(target)}"
        answer = body_of(done.answer)
        self._answers.keep_first(f"http {name}: {done.status} {error_of(answer)}".rstrip(), answer)
        self.asked.append((name, done.method, target, done.sent))

    def operation(self, target: str) -> str:
        """The path of the operation that a target asks for."""
        path = target.partition("?")[0]
        exact = [known for _pattern, known in self._known if known == path]
        return next(iter(exact + [known for pattern, known in self._known if pattern.match(path)]), path)


def body_of(data: bytes) -> Any:
    """An answer's JSON, or its text."""
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode("utf-8", "replace")


def error_of(answer: Any) -> str:
    """The name of the error that an answer is; empty for another answer."""
    error = answer.get("error") if isinstance(answer, dict) else None
    return str(error.get("name", "")) if isinstance(error, dict) else ""


class Door:
    """The daemon's TCP door."""

    def __init__(self, root: Path) -> None:
        self.project = find_project(root)

    def ask(self, method: str, target: str, body: Any = None, **headers: str | None) -> dict[str, Any]:
        """Status, headers and body of an answer.

        Args:
            headers: More headers, or others; None leaves one out.
        """
        port = json.loads(self.project.daemon_json.read_text())["port"]
        token = self.project.token_file.read_text().strip()
        sent = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}
        sent.update({name.replace("_", "-"): value for name, value in headers.items() if value is not None})
        for name, value in headers.items():
            if value is None:
                sent.pop(name.replace("_", "-"), None)
        data = None if body is None else json.dumps(body).encode()
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=40)
        try:
            link.request(method, PREFIX + target, data, sent)
            answer = link.getresponse()
            named_headers = {name.lower(): value for name, value in answer.getheaders() if name.lower() in _HEADERS}
            return {"status": answer.status, "headers": named_headers, "body": body_of(answer.read())}
        finally:
            link.close()

    def call(self, profile: str, method: str, params: dict[str, Any], session: str | None = None) -> Any:
        """One message of MCP, over the socket as the bridge sends it."""
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = {"Accept": "application/json, text/event-stream"}
        if session is not None:
            headers["X-Corral-Session"] = session
        with wire.dial(str(find_socket(self.project)), 30) as link:
            sent = wire.request("POST", f"/mcp?profile={profile}", json.dumps(message).encode(), headers)
            return body_of(wire.exchange(link, sent, time.monotonic() + 30).body)
