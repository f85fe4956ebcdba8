"""The last look: whether an edit may pass while no daemon answers.

The bridge asks here, and ``hooks/hook.py``, which finds this file beside itself in an installed bundle, else in the source: so
it is the standard library alone, and nothing of Corral. It is the one exception to "only the daemon opens the database", which
it reads, through the view ``live_holds``, and never writes.

A file that a living session holds does not pass. A free one is marked in ``run/holds`` first, so that of two sessions one
passes; the daemon makes locks of the marks. What cannot be looked at does not pass while another client lives in the checkout,
unless a person let edits pass for a while (``corral guard allow``).
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
import unicodedata
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from typing import Any, NamedTuple

Json = dict[str, Any]
EDIT_TOOLS = frozenset({"Write", "Edit", "MultiEdit", "NotebookEdit"})
_PATHS = ("file_path", "notebook_path")
PATHS_OF_SERVERS = (
    *(*_PATHS, "path", "filepath", "filename", "relative_path", "target_file", "destination"),
    *("filePath", "absolute_path", "pathInProject", "target_filepath", "target_path", "new_path"),
)
"""The parameters in which edit tools, and tools of other MCP servers, name the file that they write."""
_MOVED = {"destination": "source", "new_path": "old_path"}
"""Of those, the ones to which a file is moved, and the parameter that names it before."""
_OURS = ("mcp__plugin_corral_corral__", "mcp__corral__")
BUSY_S = 0.5
"""Seconds that a read waits for the database, and a mark for another process that looks at it."""
MARK_S = 3600.0
"""Seconds after which the mark of a session that edited nothing since stands in nobody's way."""
SAME_START_S = 0.05
"""A process that started so much later is another one with its id."""
UNIX_S = 1e9
"""As in ``corral/coordination/sessions/processes.py``."""
LONGEST_BACKOFF_S = 60.0
"""Seconds between two starts of a daemon that fails, at most; see ``corral/config/crashes.py``."""
CAUSE_S = 600.0
"""Seconds for which the cause of a failed start counts."""
CLIENTS, HOLDS, ALLOWED, SETTINGS, START = "clients", "holds", "edits-allowed", "settings.json", "start.json"
"""In ``.corral/run``: a file for each bridge, locked while it lives; the marks; the time until which a person lets edits pass;
the last valid settings; and how the last start of a daemon ended (see ``corral/config/crashes.py``)."""

_PREFIXED = re.compile(r"[a-z]+:")
_OWN_PROCESS = re.compile(r"\A//?proc/(thread-)?self(?=/)")
_TRIMMED = "\t\n\v\f\r \u00a0\u1680\u2028\u2029\u202f\u205f\u3000\ufeff" + "".join(map(chr, range(0x2000, 0x200B)))
"""What JavaScript takes for white space at the ends of a text."""
_WILD = re.compile(r"[*?\[\\]")
_HELD = """SELECT match_key, is_pattern, agent_name, client_pid, client_started, expires_at, checkout,
"exclusive" AND NOT automatic FROM live_holds WHERE expires_at > ? AND session_id NOT IN (?, ?) ORDER BY expires_at DESC"""


class Target(NamedTuple):
    """The file of an edit: its checkout's top folder, its key in ``live_holds``, its real path, and the shown one."""

    checkout: str
    key: str
    path: str
    shown: str


def is_edit(event: Mapping[str, Any]) -> bool:
    """Whether an event comes before an edit tool, or before another MCP server's tool that writes a file."""
    name = str(event.get("tool_name"))
    return event.get("hook_event_name") == "PreToolUse" and (
        name in EDIT_TOOLS or (is_others(name) and any(paths(event)))
    )


def is_others(tool: str) -> bool:
    """Whether it is the tool of an MCP server that is not Corral's own."""
    return tool.startswith("mcp__") and not tool.startswith(_OURS)


def paths(event: Mapping[str, Any]) -> tuple[str, str]:
    """The path that a tool call writes, and the one from which it moves a file there, as they are given; empty: none."""
    sent = event.get("tool_input")
    about = {name: value for name, value in sent.items() if isinstance(value, str)} if isinstance(sent, dict) else {}
    of_server = is_others(str(event.get("tool_name")))
    name = next((name for name in (PATHS_OF_SERVERS if of_server else _PATHS) if about.get(name)), "")
    return about.get(name, ""), about.get(_MOVED.get(name, ""), "")


def call_of(event: Mapping[str, Any]) -> str:
    """Which call an event is about, and of what: the same only while nobody rewrote its path or command. Empty without an id.

    The daemon and the bridge compare it: what was asked about by the client's mod needs no second answer.
    """
    from hashlib import sha256

    sent = event.get("tool_input")
    about = sent if isinstance(sent, dict) else {}
    text = str(about.get("file_path") or about.get("notebook_path") or about.get("command") or "")
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{event.get('session_id')}:{event['tool_use_id']}:{digest}" if event.get("tool_use_id") else ""


def as_written(path: str, cwd: str, client: int) -> str:
    """An absolute path as the client writes to it: without white space around it, `..` taken by the names alone, and
    `/proc/self` as its own process."""
    path = path.strip(_TRIMMED)
    path = os.path.expanduser(path) if path.startswith("~/") else path
    path = os.path.normpath(os.path.join(cwd, path))
    return _OWN_PROCESS.sub(f"/proc/{client}", path) if client else path


def decide(home: str, event: Mapping[str, Any], database: str = "") -> Json:
    """The answer to the event before an edit, for the client. Never raises for anything on the disk.

    Args:
        home: The ``.corral`` folder.
        event: The payload of the hook.
        database: Its path; empty: the usual one.

    Returns:
        What the hook prints; or ``{is_elsewhere: True}``, as the daemon does, where the file is in no checkout of this project.
    """
    written = real_paths(event)
    targets = [target for path in written if (target := _target(home, path)) is not None]
    if written and not targets:
        return {"is_elsewhere": True}
    enforcement = _enforcement(home)
    answers = [_decide(home, event, target, enforcement, database) for target in targets if enforcement != "off"]
    return next(filter(denies, answers), answers[0] if answers else {})


def _decide(home: str, event: Mapping[str, Any], target: Target, enforcement: str, database: str) -> Json:
    away = f"Corral's daemon does not answer{cause(home)}."
    session = str(event.get("session_id"))
    me = str(event.get("agent_id") or session)
    try:
        database = database or _usual_database(home)
        holder = _holder(home, database, target, me, session) or _mark(home, target, me, session)
    except (OSError, ValueError, TypeError, ImportError) as error:
        return _blind(home, target, away, error)
    if holder is None:
        return _note(f"{away} {target.shown} is held by nobody, and is marked as yours until it does.")
    held = f"{target.shown} is held by {holder}, as Corral knew it last. {away}"
    if enforcement != "enforce":
        return _note(f"Note: {held}")
    return _denial(
        f"{held} The edit was not made. Work on something else first and try again later, or leave this file out and say so in "
        "your report; do not write it another way. `corral daemon start` starts the daemon, or says why it cannot."
    )


def denies(answer: Mapping[str, Any]) -> bool:
    """Whether an answer refuses the edit."""
    return "permissionDecision" in answer.get("hookSpecificOutput", {})


def unguarded(home: str) -> Json:
    """The answer to the start of a session without a daemon, in one line for its person and for the model."""
    last = _read_file(home, START, "error")
    remedy = str((last.get("error") or {}).get("remedy") or "") if last is not None and cause(home) else ""
    remedy = remedy or "Type `corral daemon start`, which says why it does not start."
    remedy += "" if "`" in remedy else " Then type `corral daemon start`."
    text = f"Corral does not guard this session: its daemon does not answer{cause(home)}. {_printable(remedy)}"
    text += " Until then an edit passes if nobody held the file before."
    return {"systemMessage": text, "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": text}}


def may_start(home: str) -> bool:
    """Whether a daemon may be started: no start has just failed."""
    last = _read_file(home, START, "next_at")
    if last is None or not isinstance(last["next_at"], float):
        return True
    return not 0 < last["next_at"] - time.time() <= LONGEST_BACKOFF_S  # more, and a clock was set back


def cause(home: str) -> str:
    """Why the last start of a daemon failed, as the end of a sentence: ``: …``; empty where that is not known."""
    last = _read_file(home, START, "error", "at")
    if last is None or not isinstance(last["error"], dict) or time.time() - last["at"] > CAUSE_S:
        return ""
    text = " ".join(str(last["error"].get(part) or "") for part in ("message", "cause")).strip().rstrip(".")
    return f": {_printable(text)}"


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:500]


def _holder(home: str, database: str, target: Target, me: str, session: str) -> str | None:
    """The name of the living session that holds a file, and until when; None if nobody does.

    Raises:
        OSError: The database cannot be read.
    """
    import sqlite3  # hook.py may be run by a Python without it
    from urllib.parse import quote

    if not os.path.lexists(database):
        return None  # nothing was ever held
    instant = time.time()
    now = f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(instant))}.{int(instant % 1 * 1000):03}Z"
    uri = f"file:{quote(os.fsencode(database))}?mode=ro"  # never `immutable`, which does not read the log
    try:
        with closing(sqlite3.connect(uri, uri=True, timeout=BUSY_S, isolation_level=None)) as conn:
            conn.execute("PRAGMA query_only=ON").close()
            rows = conn.execute(_HELD, (now, me, session)).fetchall()
    except sqlite3.Error as error:
        raise OSError(f"the database cannot be read: {error}") from error
    for key, is_pattern, name, pid, started, until, checkout, is_everywhere in rows:
        if not (_covers(key, bool(is_pattern), target.key) and (is_everywhere or _is_same(checkout, target.checkout))):
            continue
        if _lives(home, pid, started):
            return f"{name} until {until[11:16]} UTC"
    return None


def _is_same(folder: object, other: str) -> bool:
    """Whether two paths are one folder: it has several where it is mounted twice, or where the case of names is folded."""
    if folder == other:
        return True
    try:
        return os.path.samefile(str(folder), other)
    except OSError:
        return False


def _covers(held: str, is_pattern: bool, key: str) -> bool:
    """Whether a key covers a file; of a glob, whether what stands before its first wildcard fits."""
    if is_pattern:
        return key.removeprefix("./").startswith(_WILD.split(held.removeprefix("./"), maxsplit=1)[0])
    folder = held.removesuffix("/")
    return key == folder or key.startswith(f"{folder}/")


def _blind(home: str, target: Target, away: str, error: Exception) -> Json:
    """The answer where it cannot be known who holds a file."""
    unknown = f"{away} Whether {target.shown} is held cannot be said ({error})."
    if _allowed_until(home) > time.time():
        return _note(f"{unknown} A person lets edits pass for now.")
    mine = _own_processes()
    if any(client["pid"] not in mine and _may_work_in(client, target.checkout) for client in living(home)):
        return _denial(
            f"{unknown} Another session works in this checkout, so the edit was not made. A person, not an agent, lets edits "
            "pass: `corral guard allow --for 1h`. `corral daemon start` starts the daemon, or says why it cannot."
        )
    return _note(f"{unknown} No other session works in this checkout, so the edit passes. Run `corral doctor`.")


def _may_work_in(client: Json, checkout: str) -> bool:
    """Whether a client was started in a checkout; one that could not write down where, on a full disk, may have been."""
    return "checkout" not in client or _is_same(client["checkout"], checkout)


def _denial(reason: str) -> Json:
    output = {"hookEventName": "PreToolUse", "permissionDecision": "deny", "permissionDecisionReason": reason}
    return {"hookSpecificOutput": output}


def _note(text: str) -> Json:
    return {"systemMessage": text, "hookSpecificOutput": {"hookEventName": "PreToolUse", "additionalContext": text}}


# -- the file


def real_paths(event: Mapping[str, Any]) -> list[str]:
    """The files of an edit where the client's process writes them, through links."""
    named = os.environ.get("CLAUDE_PID", "")
    client, cwd = int(named) if named.isdecimal() else os.getppid(), str(event.get("cwd") or "")
    return [os.path.realpath(as_written(path, cwd, client)) for path in paths(event) if path and "\0" not in path]


def _target(home: str, real: str) -> Target | None:
    """What a file is to the project; None if it is in no checkout of it."""
    top = os.path.dirname(real)
    while not os.path.isfile(os.path.join(git_dir := _git_dir(top), "HEAD")):
        top, below = os.path.dirname(top), top
        if top == below:
            return None
    common = os.path.realpath(os.path.join(git_dir, _pointer(os.path.join(git_dir, "commondir"))))
    if not any(_is_same(home, os.path.join(place, ".corral")) for place in (common, os.path.dirname(common))):
        return None
    relative = os.path.relpath(real, top)
    text = os.fsencode(relative).decode("utf-8", "backslashreplace")
    key = unicodedata.normalize("NFC", text)
    if os.path.exists(os.path.join(common, "CoNfIg")):  # as git finds out whether names are folded
        key = unicodedata.normalize("NFC", key.casefold())
    key = (
        f"./{key}" if _PREFIXED.match(key.casefold()) else key
    )  # as in corral/coordination/locks/keys.py; a test compares
    return Target(top, key, real, _printable(text))


def _git_dir(folder: str) -> str:
    marker = os.path.join(folder, ".git")
    return (
        marker if os.path.isdir(marker) else os.path.join(folder, _pointer(marker).removeprefix("gitdir: ") or ".git")
    )


def _pointer(file: str) -> str:
    try:
        with open(file, encoding="utf-8", errors="surrogateescape") as opened:
            return opened.read(8192).strip()
    except OSError:
        return ""


def _usual_database(home: str) -> str:
    database = os.path.join(home, "corral.db")
    if len(os.fsencode(database)) > 480:  # as in corral/config/paths.py
        raise OSError("the database is not in the project's folder")
    return database


# -- clients


def enter(home: str, client: int, checkout: str) -> int | None:
    """Announce a bridge for as long as this process lives; returns the descriptor of its locked file, None if there is none.

    Args:
        client: The client's process.
        checkout: The top folder in which it was started.
    """
    with suppress(OSError), _folder(home, CLIENTS) as folder:
        descriptor = _open(f"{client}.{os.getpid()}", folder)
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # another process may look at it just now
        _write(descriptor, {"pid": client, "started": _started_at(client), "checkout": checkout, "answered": ""})
        return descriptor
    return None


def heard(descriptor: int) -> None:
    """Say in a bridge's announcement that its client's hooks reach it: the hook in the settings then waits for its answers."""
    with suppress(OSError):
        os.fchmod(descriptor, 0o700)


def answered(descriptor: int, calls: Iterable[str]) -> None:
    """Say in a bridge's announcement which calls it answered, the last one first: only those are left to it."""
    with suppress(OSError):
        _write(descriptor, {**(_read(descriptor) or {}), "answered": f" {' '.join(calls)} "})


def leave(home: str, client: int) -> None:
    """Take back the announcement of this process."""
    with suppress(OSError):
        os.unlink(os.path.join(home, "run", CLIENTS, f"{client}.{os.getpid()}"))


def living(home: str) -> list[Json]:
    """The living clients that a bridge announced: ``pid``, ``started``, ``checkout``. Files of dead ones are removed."""
    clients = []
    try:
        with _folder(home, CLIENTS, makes=False) as folder:
            for name in os.listdir(folder):
                client, is_held = _look_at(name, folder)
                if client is None and is_held and (pid := name.partition(".")[0]).isdecimal():
                    client = {"pid": int(pid)}  # there was no room for more than its name
                if (
                    client is not None
                    and isinstance(client["pid"], int)
                    and (is_held or _runs(client["pid"], client.get("started")))
                ):
                    clients.append(client)
                elif not is_held:
                    with suppress(OSError):
                        os.unlink(name, dir_fd=folder)
    except OSError:  # there is no such folder
        return clients
    return clients


def _look_at(name: str, folder: int) -> tuple[Json | None, bool]:
    """What a bridge announced, and whether it lives."""
    try:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None, False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return _read(descriptor, "pid"), False
    except OSError:
        return _read(descriptor, "pid"), True
    finally:
        os.close(descriptor)


def _lives(home: str, pid: int | None, started: float | None) -> bool:
    """Whether the client of a session lives. Nothing says that one is dead of which no process is known."""
    return pid is None or _runs(pid, started) or any(client["pid"] == pid for client in living(home))


def _runs(pid: int, started: float | None) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # another user's
        pass
    state, began = _process(pid)
    return state not in ("Z", "X") and (
        None in (started, began) or started > UNIX_S or abs(began - started) < SAME_START_S  # type: ignore[operator]
    )


def _started_at(pid: int) -> float | None:
    return _process(pid)[1]


def _process(pid: int) -> tuple[str, float | None]:
    """The state of a process and when it started (seconds since the boot); empty and None where no file of the system says it."""
    try:
        fields = _stat(pid)
        return fields[0], int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError):
        return "", None


def _stat(pid: int) -> list[str]:
    with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
        return file.read().rpartition(")")[2].split()


def _own_processes() -> list[int]:
    """The client, where it is named, and the processes that this one is a descendant of: the client is among them."""
    named = os.environ.get("CLAUDE_PID", "")
    own, pid = [int(named)] if named.isdecimal() else [], os.getppid()
    while pid > 1 and pid not in own:
        own.append(pid)
        with suppress(OSError, ValueError, IndexError):
            pid = int(_stat(pid)[1])
    return own


# -- marks, and what else lies in run/


def _mark(home: str, target: Target, me: str, session: str) -> str | None:
    """Mark a file as a session's; or returns whose it is, if a living one was first.

    Raises:
        OSError: It cannot be marked.
    """
    from hashlib import sha256

    top = os.stat(target.checkout)
    name = sha256(os.fsencode(f"{top.st_dev}:{top.st_ino}\0{target.key}")).hexdigest()[:32]
    mine, announced = _own_processes(), {client["pid"] for client in living(home)}
    client = next((pid for pid in mine if pid in announced), mine[0] if mine else os.getppid())
    mark = {**target._asdict(), "actor": me, "session": session, "client": client, "started": _started_at(client)}
    with _folder(home, HOLDS) as folder:
        while True:
            descriptor = _open(name, folder)
            try:
                _lock(descriptor)
                if not _is_at(name, folder, descriptor):
                    continue  # the daemon took it
                before = _read(descriptor, "actor", "session", "client", "at")
                is_others = before is not None and before["actor"] not in (me, session)
                is_fresh = before is not None and time.time() - before["at"] < MARK_S
                if before and is_others and is_fresh and _lives(home, before["client"], before.get("started")):
                    return f"the session {str(before['session'])[:36]}, which was allowed to edit it meanwhile,"
                _write(descriptor, {**mark, "at": time.time()})
                return None
            finally:
                os.close(descriptor)


def marks(home: str) -> dict[str, Json]:
    """The marks of files that sessions were allowed to edit, by name; for the daemon."""
    marks_by_name = {}
    with suppress(OSError), _folder(home, HOLDS, makes=False) as folder:
        for name in os.listdir(folder):
            with suppress(OSError):
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                mark = _read(descriptor, "path", "actor", "session", "client", "at")
                os.close(descriptor)
                if mark is not None:
                    marks_by_name[name] = mark
    return marks_by_name


def drop(home: str, taken: Mapping[str, Json]) -> None:
    """Remove marks that the daemon took over, but for those that were renewed meanwhile."""
    with suppress(OSError), _folder(home, HOLDS, makes=False) as folder:
        for name, mark in taken.items():
            with suppress(OSError):
                descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
                try:
                    _lock(descriptor)
                    if _read(descriptor, "at") == mark:
                        os.unlink(name, dir_fd=folder)
                finally:
                    os.close(descriptor)


def allow(home: str, until: float) -> None:
    """Let edits pass that cannot be looked at, until a Unix time: that of the file's last change, which a full disk stores too.

    Raises:
        OSError: It cannot be written down.
    """
    with _folder(home) as folder:
        descriptor = _open(ALLOWED, folder)
        try:
            os.utime(descriptor, (until, until))
        finally:
            os.close(descriptor)


def _allowed_until(home: str) -> float:
    """The Unix time until which a person lets edits pass; 0: nobody does."""
    with suppress(OSError), _folder(home, makes=False) as folder:
        return os.stat(ALLOWED, dir_fd=folder, follow_symlinks=False).st_mtime
    return 0.0


def _enforcement(home: str) -> str:
    """``locks.enforcement`` of the last valid settings."""
    settings = _read_file(home, SETTINGS, "enforcement")
    return str(settings["enforcement"]) if settings is not None else "enforce"


def _read_file(home: str, name: str, *fields: str) -> Json | None:
    with suppress(OSError), _folder(home, makes=False) as folder:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        try:
            return _read(descriptor, *fields)
        finally:
            os.close(descriptor)
    return None


@contextmanager
def _folder(home: str, name: str = "", *, makes: bool = True) -> Iterator[int]:
    """A descriptor of ``run/``, or of a folder in it, which are this user's own and no links."""
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    run = os.path.join(home, "run")
    if makes:
        with suppress(FileExistsError):
            os.mkdir(run, 0o700)
    descriptor = os.open(run, flags)
    try:
        if name:
            if makes:
                with suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=descriptor)
            outer, descriptor = descriptor, os.open(name, flags, dir_fd=descriptor)
            os.close(outer)
        yield descriptor
    finally:
        os.close(descriptor)


def _open(name: str, folder: int) -> int:
    return os.open(name, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)


def _is_at(name: str, folder: int, descriptor: int) -> bool:
    try:
        return os.path.samestat(os.stat(name, dir_fd=folder, follow_symlinks=False), os.fstat(descriptor))
    except FileNotFoundError:
        return False


def _lock(descriptor: int) -> None:
    """Lock an open file against other processes that look at it.

    Raises:
        OSError: One did not let go of it.
    """
    deadline = time.monotonic() + BUSY_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            if time.monotonic() > deadline:
                raise
        time.sleep(0.01)


def _read(descriptor: int, *fields: str) -> Json | None:
    """The JSON object in a file; None if it is none with these fields: it is just being written, or was not written whole."""
    try:
        content = json.loads(os.pread(descriptor, 65536, 0))
    except (OSError, ValueError):
        return None
    return content if isinstance(content, dict) and all(field in content for field in fields) else None


def _write(descriptor: int, content: Json) -> None:
    data = json.dumps(content).encode()
    if os.pwrite(descriptor, data, 0) < len(data):
        raise OSError("it was not written whole")
    os.ftruncate(descriptor, len(data))
