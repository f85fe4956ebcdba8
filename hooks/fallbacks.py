"""Fallbacks of hook.py without a daemon: start one, decide on an edit, and create and remove worktrees with plain git.

Plain git checks the repository's owner itself, as it is given no ``--git-dir``.
"""

from __future__ import annotations

import json
import os
import sys
import time
from subprocess import DEVNULL, Popen, run

GUARD_S = 3.0
AWAY = (FileNotFoundError, ConnectionError)
REFUSED = 3
"""The exit code where Corral refuses a worktree; with any other, the project's hook makes a plain one."""


def from_outside(locate) -> tuple[str, str]:  # type: ignore[no-untyped-def]
    """Home and foreign, as ``locate`` says, of where the session began: a call may be made in a folder outside of the project."""
    began = os.environ.get("CLAUDE_PROJECT_DIR", "")
    return locate(began)[1:] if os.path.isabs(began) else ("", "")


def home_of_edit(payload: bytes, locate, own: str = "") -> str:  # type: ignore[no-untyped-def]
    """The ``.corral`` folder of the project in whose checkout the file of an edit is, wherever the session is.

    Empty if there is none, or if it is the session's ``own``, whose daemon knows no such file.
    """
    import last_look

    written = last_look.real_paths(json.loads(payload))
    return next((home for path in written if (home := locate(os.path.dirname(path))[1]) not in ("", own)), "")


def elsewhere(home: str, event: str, payload: bytes, options, locate, ask) -> bytes:  # type: ignore[no-untyped-def]
    """The answer of the project that the file of an edit is in, where that is another than the session's own."""
    there = home_of_edit(payload, locate, home)
    return ask(there, event, payload, *options) if there else b"{}"


def answer(home: str, event: str, payload: bytes, error: Exception, ask, denial: bytes) -> bytes:  # type: ignore[no-untyped-def]
    """Before an edit the answer of the daemon that this starts, else the last look's; to a new session that nothing guards it.

    Args:
        denial: What a call is answered with instead; empty: the last look decides.
    """
    log(home, f"{event}: {error!r}")
    if denial and event == "PreToolUse":
        return denial
    import last_look

    if event == "SessionStart":
        return json.dumps(last_look.unguarded(home)).encode()
    if event != "PreToolUse" or not last_look.is_edit(fields := json.loads(payload)):
        return b"{}"
    deadline, tries = time.monotonic() + GUARD_S, isinstance(error, AWAY) and last_look.may_start(home)
    starter = start_daemon(os.path.dirname(home)) if tries else None
    while starter and time.monotonic() < deadline and starter.poll() in (None, 0):
        try:
            return ask(home, event, payload)
        except (OSError, ValueError) as again:  # one that has just started may be slow, or serve nothing yet
            error = again
            time.sleep(0.05)
    decided = last_look.decide(home, fields)
    if isinstance(error, AWAY) and not last_look.denies(decided):
        try:  # a daemon that came back may have answered another session meanwhile; it takes the mark over
            return ask(home, event, payload)
        except (OSError, ValueError):
            pass
    return json.dumps(decided).encode()


def log(home: str, line: str) -> None:
    """Add a line to ``hook.log``."""
    try:
        os.makedirs(logs := os.path.join(home, "logs"), exist_ok=True)
        folder, flags = os.open(logs, os.O_NOFOLLOW), os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW
        with open(os.open("hook.log", flags, 0o600, dir_fd=folder), "a", errors="replace") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime())} {line}\n")
    except OSError as error:
        print(line, error, file=sys.stderr)  # a folder that cannot be written must not fail a session


def start_daemon(root: str) -> Popen[bytes]:
    """Run ``corral daemon start``, detached: the plugin's own command, never one from the repository."""
    launcher = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin", "corral")
    command = ["/bin/sh", launcher] if os.path.isfile(launcher) else ["corral"]
    argv, io = [*command, "daemon", "start", "--detach"], dict.fromkeys(("stdin", "stdout", "stderr"), DEVNULL)
    return Popen(argv, cwd=root, start_new_session=True, **io)


def worktree(top: str, event: str, payload: bytes, answer: bytes, *, coordinated: bool) -> int:
    """Print the path that the daemon gave; where nothing is coordinated, do what the client itself would have done."""

    def git(*args: str) -> int:
        environ = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE")}
        return run(["git", "-C", top, *args], env=environ, stdin=DEVNULL, stdout=2, check=False).returncode

    asked, folder = json.loads(payload), os.path.join(top, ".claude", "worktrees")
    if event == "WorktreeRemove":
        return 0 if coordinated else git("worktree", "remove", asked["worktree_path"])
    answered = json.loads(answer)
    path = (answered.get("hookSpecificOutput") or {}).get("worktreePath")
    if coordinated and not path:  # a worktree beside Corral's would split the work of one name over two folders
        why = answered.get("systemMessage") or "Corral's daemon gives no worktree. `corral doctor` says why."
        sys.stderr.buffer.write(os.fsencode(why) + b"\n")
        return REFUSED
    if not path:  # path and branch as the client names them, so that its clean-up of stale worktrees finds them
        name = asked["name"].replace("/", "+")
        path, branch = os.path.join(folder, name), f"worktree-{name}"
        base = "HEAD" if git("rev-parse", "-q", "--verify", "origin/HEAD^{commit}") else "origin/HEAD"
        add, new = ("worktree", "add"), ("--no-track", "-b", branch, path, base)
        if not os.path.exists(os.path.join(path, ".git")) and git(*add, *new) and git(*add, path, branch):
            return 1
    sys.stdout.buffer.write(os.fsencode(path) + b"\n")
    return 0
