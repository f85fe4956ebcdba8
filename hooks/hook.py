"""Sends one Claude Code hook event to the daemon and prints the daemon's answer; contains no rules.

``hook.py EVENT [--deny-when-down | --from-shell]``, the event's JSON on standard input. A fault is one line in ``hook.log``: no
session is ever broken. Before an edit without a daemon ``last_look.py`` decides; with ``--deny-when-down`` a fault is a denial.
``CLAUDE_PID`` is what ``--from-shell`` runs for. Nothing slow is imported (json doubles the time): events travel as bytes.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

DEADLINE_S = {"SessionEnd": 1.0, "PreToolUse": 3.0, "WorktreeCreate": 280.0, "WorktreeRemove": 50.0}
USUAL_DEADLINE_S, START_WAIT_S, EDITS = 4.0, 5.0, (b'Write"', b'Edit"')
DENIAL = b"""{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
"permissionDecisionReason": "Corral's daemon does not answer, so nothing is edited. Run `corral daemon start`."}}"""


def main(event: str, *options: str) -> int:
    payload, answer = sys.stdin.buffer.read().strip(), b"{}"
    try:
        top, home, foreign = locate(os.getcwd())
    except FileNotFoundError:  # the folder is gone, and the session goes on
        top = home = foreign = ""
    if not (home or foreign) and event in ("PreToolUse", "PostToolUse"):
        home, foreign = beside("fallbacks").from_outside(locate)
    if event == "SessionStart" and (foreign or (not home and os.path.isfile(top + "/.git"))):
        answer = beside("ownership").notice(payload, foreign, top)
    else:
        try:
            answer = told(home, event, payload, *options) if home else answer
            if event == "PreToolUse" and (b'"is_elsewhere"' in answer or not home):
                answer = beside("fallbacks").elsewhere(home, event, payload, options, locate, told)
        except Exception as failure:  # where even that fails, no edit passes
            print(repr(failure), file=sys.stderr)
            answer = DENIAL if home and event == "PreToolUse" and any(map(payload.__contains__, EDITS)) else answer
    if event.startswith("Worktree"):
        return beside("fallbacks").worktree(top, event, payload, answer, coordinated=bool(home))
    sys.stdout.buffer.write(b"" if answer == b"{}" else answer)
    return 0


def told(home: str, event: str, payload: bytes, *options: str) -> bytes:
    """The answer of a project's daemon, or what is answered without one."""
    try:
        return ask(home, event, payload, strict := "--deny-when-down" in options, "--from-shell" in options)
    except Exception as error:
        return beside("fallbacks").answer(home, event, payload, error, ask, DENIAL if strict else b"")


def locate(folder: str) -> tuple[str, str, str]:
    """The main checkout, and its ``.corral`` if it is coordinated, or what another user owns of it; empty if none."""
    marker = os.path.join(folder, ".git")
    git_dir = os.path.join(folder, ".git" if os.path.isdir(marker) else pointer(marker, "gitdir: ") or ".git")
    if os.path.isfile(os.path.join(git_dir, "HEAD")):
        common = os.path.realpath(os.path.join(git_dir, shared := pointer(git_dir + "/commondir", "")))  # a worktree's
        parent, name = os.path.split(common)
        top, main = (parent, parent) if name == ".git" else (folder, common)
        home = os.path.join(main, ".corral")  # a branch may be checked out that has no settings: the database stays
        if not (os.path.isfile(home + "/config.yaml") or os.path.isfile(home + "/corral.db")):
            return top, "", ""
        checkout, main = (folder, marker, git_dir), main if shared else folder  # the names that git uses for the two
        foreign = [p for p in (*checkout, common, main, home, *map(f"{home}/".__add__, os.listdir(home))) if not own(p)]
        refused = beside("ownership").refused(foreign, checkout, main, home) if foreign else ""
        return top, "" if refused else home, refused
    return ("", "", "") if (above := os.path.dirname(folder)) == folder else locate(above)


def own(path: str) -> bool:
    """Whether a path, and its link target, is this user's; True if it is missing."""
    try:
        return is_own(os.lstat(path).st_uid) and is_own(os.stat(path).st_uid)
    except OSError:
        return True


def is_own(uid: int) -> bool:  # for root, the caller of sudo is no stranger, as in git
    return uid == os.geteuid() or (os.geteuid() == 0 and str(uid) == os.environ.get("SUDO_UID"))


def pointer(file: str, prefix: str) -> str:
    """The target of a pointer file, or an empty string."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read(8192).strip().removeprefix(prefix)
    except OSError:
        return ""


def ask(home: str, event: str, payload: bytes, strict: bool = False, shell: bool = False) -> bytes:
    """Post the event with ``_hook`` added, and return the JSON object of the answer."""
    if not (payload.startswith(b'{"') and payload.endswith(b"}")):
        raise ValueError("the event is not a JSON object")
    entrypoint = "".join(c for c in os.environ.get("CLAUDE_CODE_ENTRYPOINT", "") if c.isalnum() or c in "-_")
    client = os.environ.get("CLAUDE_PID", "") if shell else str(os.getppid())  # a shell is no session
    pid = int(client) if client.isdecimal() and not (strict or event.startswith("Worktree")) else 0
    body = payload[:-1] + f',"_hook":{{"pid":{pid},"entrypoint":"{entrypoint}","source":"command"}}}}'.encode()
    head = f"POST /api/v1/hooks/{event} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: application/json\r\n"
    allowed_s = DEADLINE_S.get(event, USUAL_DEADLINE_S)
    link, reply = connect(home, strict or event in ("SessionStart", "WorktreeCreate"), allowed_s), b""
    deadline = time.monotonic() + allowed_s  # in addition to the start of the daemon
    link.sendall(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    while chunk := link.recv(65536):
        reply += chunk
        link.settimeout(max(0.001, deadline - time.monotonic()))
    answer = reply.partition(b"\r\n\r\n")[2].strip()
    if reply[9:12] != b"200" or not (answer.startswith(b"{") and answer.endswith(b"}")):
        raise ValueError(f"no usable answer: {reply[:200]!r}")
    return answer


def connect(home: str, starts: bool, allowed_s: float) -> _socket.socket:
    """Connect to this user's daemon; start a missing one if ``starts``."""
    path, started = os.path.join(home, "run", "corral.sock"), None
    patience = time.monotonic() + max(START_WAIT_S, allowed_s / 5)
    while True:
        try:
            path = (
                len(os.fsencode(path)) > 100 and beside("ownership").short_socket(home)
            ) or path  # as config/paths.py
            link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            link.settimeout(allowed_s)
            link.connect(path)
            break
        except OSError:
            if not starts or time.monotonic() > patience or (started and started.poll()):
                raise
        started = started or beside("fallbacks").start_daemon(os.path.dirname(home))
        time.sleep(0.02)
    option = (_socket.SOL_SOCKET, _socket.SO_PEERCRED, 12) if sys.platform == "linux" else (0, 1, 76)  # as wire.py
    uid = int.from_bytes(link.getsockopt(*option)[4:8], sys.byteorder)
    if not (own(path) and is_own(uid)) or (os.lstat(path).st_nlink > 1 and link.getpeername() != path):
        raise PermissionError(f"another user's socket, or another repository's, served by uid {uid}: {path}")
    return link


def beside(name: str):  # type: ignore[no-untyped-def]
    sys.dont_write_bytecode = True  # the plugin's folder stays unchanged
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    return __import__(name)


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Exception as error:
        print(repr(error), file=sys.stderr)
