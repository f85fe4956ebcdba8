"""Waits beside an idle session for mail, and prints the mail, which makes the client wake the session.

Claude Code runs it in the background (``asyncRewake``) at each Stop and StopFailure. Exit code 2 wakes the session with
the text on standard error; 0 does nothing. Python itself exits with 2 if a script is missing, so it is imported, not
run as a script. ``claude -p`` would wait for its end, so there it ends at once, as it does where another one waits. The
daemon decides which sessions it serves; without one it waits for the next, and starts none. It ends with the client, its parent.
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
    """The daemon's answer, a JSON object; empty if nothing is coordinated, another one waits, or the client has ended."""
    from hook import locate

    home = locate(os.getcwd())[1]
    if not home or not is_first(home, client):
        return b""
    note = b',"_hook":{"pid":%d,"entrypoint":"cli","source":"command"' % client
    event, lost = sys.stdin.buffer.read().strip()[:-1] + note, b""
    while os.getppid() == client > 1:  # init adopts processes whose parent has already ended
        body, began = b"%b%b}}" % (event, lost), time.time()
        try:
            status, answer = ask(home, b"%bContent-Length: %d\r\n\r\n%b" % (HEAD, len(body), body), client)
        except OSError:  # no daemon, or it went away
            status, answer = b"", b""
        if status[:1] in (b"2", b"4"):  # a daemon of another version answers 4xx: it does not support waiting
            return answer
        lost = b',"unheard":[%f,%f]' % (began, time.time())  # mail that it may have handed over just before
        time.sleep(LOOK_EVERY_S)
    return b""


def is_first(home: str, client: int) -> bool:
    """Whether no hook waits beside this client yet; the lock ends with this process."""
    import fcntl

    try:
        file = os.open(
            os.path.join(home, "run", "waiting"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
        )
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, client)  # a byte for each client
    except BlockingIOError:
        return False
    except OSError:  # where nothing can be locked, the daemon still lets one wait
        return True
    return True


def ask(home: str, asked: bytes, client: int) -> tuple[bytes, bytes]:
    """Status and body of the answer, however long it takes; empty if the daemon, or the client, ended first."""
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
    """Print the mail for the session; returns the exit code."""
    import json

    text = str(json.loads(answer or b"{}").get("text", ""))
    sys.stderr.buffer.write(text.encode())
    return 2 if text else 0
