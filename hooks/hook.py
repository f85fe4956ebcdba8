"""Carries one Claude Code hook event to the daemon and prints the daemon's answer; it knows no rule of its own.

``hook.py EVENT [--deny-when-down]``, with the event's JSON on standard input. Any fault is one line in
``.corral/logs/hook.log``, no output, exit 0: no session is ever broken. ``--deny-when-down`` (in a project's settings)
starts a daemon where none runs, and makes a fault a denial. Where no worktree comes from a daemon, plain git makes it: a
hook that prints no path breaks isolation. Nothing slow is imported: json alone doubles the time, so events travel as bytes.
"""

from __future__ import annotations

import _socket
import os
import sys
import time

DEADLINE_S = {"SessionEnd": 1.0, "WorktreeCreate": 280.0, "WorktreeRemove": 50.0}
USUAL_DEADLINE_S, START_WAIT_S = 4.0, 5.0
DENIAL = b"""{"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
"permissionDecisionReason": "Corral's daemon does not answer, so nothing is edited. Run `corral daemon start`."}}"""


def main(event: str, *options: str) -> int:
    payload, answer = sys.stdin.buffer.read().strip(), b"{}"
    strict = "--deny-when-down" in options
    top, home = locate(os.getcwd())
    if home:
        try:
            answer = ask(home, event, payload, strict)
        except Exception as error:
            log(home, f"{event}: {error!r}")
            answer = DENIAL if event == "PreToolUse" and strict else b"{}"
    if event.startswith("Worktree"):
        return worktree(top, event, payload, answer, coordinated=bool(home))
    sys.stdout.buffer.write(b"" if answer == b"{}" else answer)
    return 0


def locate(folder: str) -> tuple[str, str]:
    """The main checkout, and its ``.corral`` if it is coordinated; an empty string for each that there is not."""
    marker = os.path.join(folder, ".git")
    git_dir = os.path.join(folder, ".git" if os.path.isdir(marker) else pointer(marker, "gitdir: ") or ".git")
    if os.path.isfile(os.path.join(git_dir, "HEAD")):
        common = os.path.realpath(os.path.join(git_dir, pointer(os.path.join(git_dir, "commondir"), "")))
        parent, name = os.path.split(common)
        home = os.path.join(parent if name == ".git" else common, ".corral")
        return parent if name == ".git" else folder, home if os.path.isfile(home + "/config.yaml") else ""
    above = os.path.dirname(folder)
    return ("", "") if above == folder else locate(above)


def pointer(file: str, prefix: str) -> str:
    """What a pointer file names, or an empty string."""
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read().strip().removeprefix(prefix)
    except OSError:
        return ""


def ask(home: str, event: str, payload: bytes, strict: bool) -> bytes:
    """Post the event with ``_hook`` added, and return the JSON object that was answered."""
    if not (payload.startswith(b'{"') and payload.endswith(b"}")):
        raise ValueError("the event is not a JSON object")
    entrypoint = "".join(c for c in os.environ.get("CLAUDE_CODE_ENTRYPOINT", "") if c.isalnum() or c in "-_")
    # The parent of a hook in the settings is a shell, which is no session.
    pid = 0 if strict or event.startswith("Worktree") else os.getppid()
    note = f',"_hook":{{"pid":{pid},"entrypoint":"{entrypoint}","source":"command"}}}}'
    head = (
        f"POST /api/v1/hooks/{event} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(payload) - 1 + len(note)}\r\n\r\n"
    )
    allowed_s = DEADLINE_S.get(event, USUAL_DEADLINE_S)
    link, reply = connect(home, strict or event == "SessionStart", allowed_s), b""
    deadline = time.monotonic() + allowed_s  # beside what it took to start
    link.sendall(head.encode() + payload[:-1] + note.encode())
    while chunk := link.recv(65536):
        reply += chunk
        link.settimeout(max(0.001, deadline - time.monotonic()))
    answer = reply.partition(b"\r\n\r\n")[2].strip()
    if reply[9:12] != b"200" or not (answer.startswith(b"{") and answer.endswith(b"}")):
        raise ValueError(f"no usable answer: {reply[:200]!r}")
    return answer


def connect(home: str, starts: bool, allowed_s: float) -> _socket.socket:
    """Reach the daemon; start it if there is none and ``starts``."""
    path, patience, started = os.path.join(home, "run", "corral.sock"), time.monotonic() + START_WAIT_S, False
    while True:
        try:
            if len(os.fsencode(path)) > 100:  # as in corral/config/paths.py
                named = pointer(os.path.join(home, "run", "daemon.json"), "").partition('"socket"')[2].split('"')
                path = named[1] if len(named) > 1 else path
            link = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
            link.settimeout(allowed_s)
            link.connect(path)
            return link
        except OSError:
            if not starts or time.monotonic() > patience:
                raise
        started = started or start_daemon(os.path.dirname(home))
        time.sleep(0.02)


def start_daemon(root: str) -> bool:
    """Run ``corral daemon start``, detached: the one on the PATH, and none that a repository brings with it."""
    import subprocess as sp

    argv, io = ["corral", "daemon", "start", "--detach"], dict.fromkeys(("stdin", "stdout", "stderr"), sp.DEVNULL)
    return bool(sp.Popen(argv, cwd=root, start_new_session=True, **io))


def worktree(top: str, event: str, payload: bytes, answer: bytes, *, coordinated: bool) -> int:
    """Print the path that the daemon gave; without one, do what the client itself would have done."""
    import json
    from subprocess import DEVNULL, run

    def git(*args: str) -> int:
        environ = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
        return run(["git", "-C", top, *args], env=environ, stdin=DEVNULL, stdout=2, check=False).returncode

    asked, folder = json.loads(payload), os.path.join(top, ".claude", "worktrees")
    if event == "WorktreeRemove":
        return 0 if coordinated else git("worktree", "remove", asked["worktree_path"])
    path = (json.loads(answer).get("hookSpecificOutput") or {}).get("worktreePath")
    if not path:  # place and branch as the client names them, so that its sweep of stale worktrees finds them
        name = asked["name"].replace("/", "+")
        path, branch = os.path.join(folder, name), f"worktree-{name}"
        base = "HEAD" if git("rev-parse", "-q", "--verify", "origin/HEAD^{commit}") else "origin/HEAD"
        add, new = ("worktree", "add"), ("--no-track", "-b", branch, path, base)
        if not os.path.exists(os.path.join(path, ".git")) and git(*add, *new) and git(*add, path, branch):
            return 1
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    return 0


def log(home: str, line: str) -> None:
    try:
        os.makedirs(os.path.join(home, "logs"), exist_ok=True)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with open(os.open(os.path.join(home, "logs", "hook.log"), flags, 0o600), "a", errors="replace") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    except OSError as error:
        print(line, error, file=sys.stderr)  # a folder that cannot be written is no reason to fail a session


if __name__ == "__main__":
    try:
        sys.exit(main(*sys.argv[1:]))
    except Exception as error:
        print(repr(error), file=sys.stderr)
