"""A program in place of the Claude Code client, which misbehaves as its prompt says; the real one cannot be made to."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable


def emit(**event: object) -> None:
    """Write an event."""
    print(json.dumps(event), flush=True)


def _init() -> None:
    emit(type="system", subtype="init", model="stand-in")


def _answer(words: str) -> None:
    usage = {"input_tokens": 7, "output_tokens": 3}
    emit(type="assistant", message={"id": "m", "usage": usage, "content": [{"type": "text", "text": words}]})


def garbage() -> int:
    for _ in range(500):
        os.write(1, os.urandom(4096))
    return 3


def flood() -> int:
    while True:
        os.write(1, b"x" * 65536)


def events_without_end() -> int:
    while True:
        _answer("again " * 1000)


def deaf() -> int:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    _init()
    while True:
        time.sleep(1)


def eats() -> int:
    kept = b"x" * 600_000_000
    time.sleep(600)
    return len(kept)


def silent() -> int:
    return 0


def no_result() -> int:
    _init()
    _answer("I am about to")
    return 0


def cut() -> int:
    _init()
    sys.stdout.write('{"type": "result", "subtype": "success", "is_er')
    sys.stdout.flush()
    return 0


def result(words: str, **fields: object) -> int:
    _init()
    _answer(words)
    emit(type="result", subtype="success", num_turns=1, result=words, **fields)
    return 1 if fields["is_error"] else 0


MISBEHAVIOURS: dict[str, Callable[[], int]] = {
    "garbage": garbage,
    "flood": flood,
    "events-without-end": events_without_end,
    "deaf": deaf,
    "eats": eats,
    "silent": silent,
    "no-result": no_result,
    "cut": cut,
    "does-nothing": lambda: result("Nothing to do.", is_error=False),
    "usage-limit": lambda: result("You've hit your session limit.", is_error=True, api_error_status=429),
}


def main() -> int:
    """Do what the first message says in its first word."""
    words = json.loads(sys.stdin.readline())["message"]["content"]
    return MISBEHAVIOURS[words.split()[0]]()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
