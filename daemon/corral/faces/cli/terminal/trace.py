"""What ``--verbose`` and ``--debug`` write on stderr: steps, requests to the daemon and, in full, their content."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from corral import __version__
from corral.client.connection import Client, Exchange
from corral.core.redaction import REDACTED, is_secret_name, redact, remember_secrets
from corral.core.visible import one_line, visible

MOST_SHOWN = 20_000
"""Characters of a request's or an answer's content."""


class Trace:
    """Writes each step and each request.

    Args:
        in_full: Also write the content of requests and answers, without secrets.
    """

    def __init__(self, *, in_full: bool) -> None:
        self.in_full = in_full

    def step(self, text: str) -> None:
        """Write an intermediate step."""
        _write(one_line(text))

    def exchanged(self, exchange: Exchange) -> None:
        """Write a request and its answer."""
        answer = _parsed(exchange.answer)
        rows = f", {len(answer)} rows" if isinstance(answer, list) else ""
        took = f"{exchange.duration_s * 1000:.1f} ms{rows}"
        _write(f"{exchange.method} {one_line(redact(exchange.target))}: {exchange.status} in {took}")
        if self.in_full:
            for mark, content in ((">", _parsed(exchange.sent)), ("<", answer)):
                if content is not None:
                    _write_content(mark, content)


def start_trace(*, in_full: bool) -> None:
    """Trace this process's steps and requests from now on."""
    if isinstance(Client.observer, Trace):
        Client.observer.in_full |= in_full
        return
    remember_secrets(os.environ)
    Client.observer = Trace(in_full=in_full)
    Client.observer.step(f"corral {__version__}, Python {sys.version.split()[0]}, process {os.getpid()}")


def _parsed(data: bytes | None) -> Any:
    try:
        return json.loads(data) if data else None
    except ValueError:
        return data.decode("utf-8", "replace") if data else None


def _write_content(mark: str, content: Any) -> None:
    text = redact(json.dumps(_without_secrets(content), indent=2, ensure_ascii=False))
    cut = len(text) > MOST_SHOWN
    for line in visible(text[:MOST_SHOWN]).split("\n"):
        _write(f"  {mark} {line}")
    if cut:
        _write(f"  {mark} and {len(text) - MOST_SHOWN:,} more characters")


def _without_secrets(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: REDACTED if inner and is_secret_name(name) else _without_secrets(inner)
            for name, inner in value.items()
        }
    return [_without_secrets(item) for item in value] if isinstance(value, list) else value


def _write(text: str) -> None:
    print(f"corral: {text}", file=sys.stderr, flush=True)
