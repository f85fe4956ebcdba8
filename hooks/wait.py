"""Waits beside a session that has stopped until mail for it comes, and prints the mail: with that the client wakes the session.

Claude Code runs it in the background (``asyncRewake``) at each Stop and StopFailure. Exit code 2 wakes, with what stands on
standard error, and 0 does nothing. Python itself exits with 2 where a script is missing, so it is imported, and not run as one.
``claude -p`` would wait for its end, and gets it at once. Whom it serves, and when, the daemon says; while there is none it waits
for the next one, and starts none. It ends with the client, which is its parent.
"""

from __future__ import annotations

import os
import sys
import time

LOOK_EVERY_S = 3.0
HEAD = b"POST /api/v1/hooks/Stop/wait HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"


def main() -> int:
    """Wait; returns the exit code."""
    if os.environ.get("CLAUDE_CODE_ENTRYPOINT") != "cli":
        return 0
    try:
        return told(wait(os.getppid()))
    except Exception as error:
        print(repr(error), file=sys.stderr)
        return 0


def wait(client: int) -> bytes:
    """The daemon's answer, a JSON object; empty where nothing is coordinated, and when the client is gone."""
    from hook import locate

    home = locate(os.getcwd())[1]
    note = b',"_hook":{"pid":%d,"entrypoint":"cli","source":"command"}}' % client
    body = sys.stdin.buffer.read().strip()[:-1] + note if home else b""
    while home and os.getppid() == client > 1:  # 1 inherits those whose parent was quicker
        try:
            status, answer = ask(home, b"%bContent-Length: %d\r\n\r\n%b" % (HEAD, len(body), body), client)
        except OSError:  # no daemon, or it went away
            status, answer = b"", b""
        if status[:1] in (b"2", b"4"):  # with 4 it knows nothing of waiting, being of another version
            return answer
        time.sleep(LOOK_EVERY_S)
    return b""


def ask(home: str, asked: bytes, client: int) -> tuple[bytes, bytes]:
    """Status and body of the answer, however long it takes; empty where the daemon, or the client, went away first."""
    from hook import connect

    link, reply = connect(home, False, LOOK_EVERY_S), b""
    link.sendall(asked)
    while os.getppid() == client:
        try:
            chunk = link.recv(65536)
        except TimeoutError:
            continue
        if not chunk:
            break
        reply += chunk
    return reply[9:12], reply.partition(b"\r\n\r\n")[2]


def told(answer: bytes) -> int:
    """Print what the session is to be told; returns the exit code that goes with it."""
    import json

    text = str(json.loads(answer or b"{}").get("text", ""))
    sys.stderr.buffer.write(text.encode())
    return 2 if text else 0
