"""Changes made while no daemon ran: examined after a start, and again with each session's first event after that.

Memory only: the next daemon examines everything since the last sign of life of this one.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import Connection

from corral.client.last_look import EDIT_TOOLS
from corral.config.paths import Checkout, Project, find_checkout
from corral.coordination.edits import unannounced
from corral.coordination.edits.unannounced import Claim, Command, Edit, Evidence, Unannounced
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.locks.keys import literal_key
from corral.coordination.services import Services
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.shell.reading import is_read_only
from corral.core.errors import GitFailed
from corral.core.events import EventKind
from corral.core.instants import UTC, iso, parse
from corral.core.logs import logger
from corral.core.states import WorktreePurpose
from corral.core.steps import Step
from corral.core.visible import embedded
from corral.faces.hooks.payloads import HookEvent
from corral.faces.hooks.tool_targets import target_at
from corral.git.checkouts import status
from corral.git.checkouts.status import Signature
from corral.git.process.command import open_checkout
from corral.store import events
from corral.store.rows.sessions import SessionLife, SessionRow
from corral.work.worktrees import store as worktrees

FIRST_LOOK_S = 2.5
"""Maximum time that an edit waits for the first examination, seconds."""
LOOK_AGAIN = timedelta(seconds=10)
"""Between two checks of files with unannounced changes."""
MOST_CHECKOUTS = 50
MOST_FILES = 500
"""Files per checkout that are examined, the last changed ones."""

log = logger("unannounced")


@dataclass(frozen=True)
class _Changed:
    """A file that differs from HEAD; ``at`` is None where it is gone."""

    target: Target
    path: str
    signature: Signature
    at: datetime | None


class UnannouncedChanges:
    """Step: examine what sessions did while no daemon ran, and drop shown changes that are settled."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._indexes: dict[Path, Signature] = {}

    def step(self, now: datetime) -> datetime | None:
        """Examine what is due; returns when to look again, while unannounced changes remain."""
        memory = self._services.unannounced
        heard = memory.take_due()
        if heard is not None:
            try:
                if self._services.settings().locks.enforcement != "off":
                    self._look(now)
            except BaseException:
                memory.put_back()
                raise
            finally:
                memory.first_look.set()
            memory.looked_at(heard)
        for top, files in memory.files().items():
            memory.keep_only(top, self._still_unannounced(Path(top), files))
        return now + LOOK_AGAIN if memory.files() else None

    def _look(self, now: datetime) -> None:
        services, memory = self._services, self._services.unannounced
        living = services.db.read(session_rows.live)
        known = [row for row in living if row["session_id"] in memory.silent_since and _is_client_running(row)]
        if not known:
            return
        evidence = self._evidence(known, living, now)
        new_claims: list[Claim] = []
        loose: list[_Changed] = []
        at_work = {row["worktree"] for row in known}
        for checkout in self._checkouts(known, evidence):
            for changed in self._changes(checkout):
                claims = unannounced.claims(changed.target, changed.at, evidence)
                new_claims += [claim for claim in claims if memory.is_news(claim)]
                if not claims and str(checkout.top) in at_work and self._while_away(checkout, changed):
                    loose.append(changed)
        chosen = services.settings().locks
        policy = Policy(enforcement=chosen.enforcement, ttl_s=chosen.ttl_s)
        services.db.write(self._settle, claims=new_claims, loose=loose, policy=policy, now=now)
        memory.settled(new_claims)
        if new_claims or loose:
            services.changes.announce()

    def _settle(
        self, conn: Connection, claims: list[Claim], loose: list[_Changed], policy: Policy, now: datetime
    ) -> None:
        unannounced.settle(conn, claims, policy, now)
        if self._services.unannounced.is_shown:
            return
        nobodys: dict[str, list[_Changed]] = {}
        for changed in loose:
            if not unannounced.is_locked(conn, changed.target, now):
                nobodys.setdefault(changed.target.checkout, []).append(changed)
        for top, files in nobodys.items():
            paths = [file.path for file in files][:50]
            events.record(conn, iso(now), EventKind.CHANGE_UNANNOUNCED({"paths": paths, "checkout": top}))
        self._services.unannounced.show(
            {
                top: {file.target.key.match_key: (file.path, file.signature) for file in files}
                for top, files in nobodys.items()
            }
        )

    # -- what changed

    def _checkouts(self, known: list[SessionRow], evidence: Evidence) -> list[Checkout]:
        project = self._services.project
        tops = [] if project.bare else [str(project.root)]
        tops += [row["worktree"] for row in known if row["worktree"]]
        tops += [edit.target.checkout for edit in evidence.edits]
        checkouts = (find_checkout(Path(top)) for top in dict.fromkeys(tops))
        return [
            checkout for checkout in checkouts if checkout is not None and checkout.common_dir == project.common_dir
        ][:MOST_CHECKOUTS]

    def _changes(self, checkout: Checkout) -> list[_Changed]:
        try:
            seen = status.look(open_checkout(checkout.top))
        except GitFailed as error:
            log.warning("checkout_not_looked_at", checkout=str(checkout.top), reason=error.message)
            return []
        changed = []
        for path, signature in seen.files.items():
            if signature is not None and stat.S_ISDIR(signature[2]):  # a repository of its own
                continue
            key = literal_key(path, fold=self._services.fold)
            # A transcript's instants have milliseconds.
            at = datetime.fromtimestamp(signature[0] // 1_000_000 / 1000, UTC) if signature is not None else None
            changed.append(_Changed(Target(key, str(checkout.top)), path, signature, at))
        changed.sort(key=lambda change: change.at.timestamp() if change.at is not None else float("inf"), reverse=True)
        return changed[:MOST_FILES]

    def _while_away(self, checkout: Checkout, changed: _Changed) -> bool:
        """Whether a file changed while no daemon ran; for a deleted file, whether its folder did."""
        memory = self._services.unannounced
        at = changed.at if changed.at is not None else _folder_changed_at(checkout.top / changed.path)
        return at is not None and memory.away_since is not None and memory.away_since <= at <= memory.back_at

    def _still_unannounced(self, top: Path, files: Mapping[str, tuple[str, Signature]]) -> list[str]:
        """The files that are unchanged since, and still differ from HEAD; git runs only if its index changed."""
        same = [key for key, (path, signature) in files.items() if status.signature(top, path) == signature]
        checkout = find_checkout(top)
        if checkout is None or not same:
            return []
        index = status.signature(checkout.git_dir, "index")
        if self._indexes.get(top, ()) == index:
            return same
        try:
            seen = status.look(open_checkout(top))
        except GitFailed as error:
            log.warning("checkout_not_looked_at", checkout=str(top), reason=error.message)
            return same
        self._indexes[top] = index
        return [key for key in same if files[key][0] in seen.files]

    # -- what is known of it

    def _evidence(self, known: list[SessionRow], living: list[SessionRow], now: datetime) -> Evidence:
        memory = self._services.unannounced
        by_id = {row["session_id"]: row for row in living}
        edited: list[Edit] = []
        commands: list[Command] = []
        unknown = False
        for row in known:
            session_id = row["session_id"]
            since, heard_at = memory.silent_since[session_id], memory.heard_at(session_id)
            path = _transcript(row, by_id)
            below = row["parent_session_id"] is not None
            read = tool_calls(path, since, of_subagent=below) if path is not None else None
            unknown = unknown or read is None or not read.complete or (below and path is not None and not path.exists())
            for call in read.calls if read is not None else ():
                claims = heard_at is None or call.began <= heard_at
                if call.tool in EDIT_TOOLS and claims:
                    edited += self._edit(session_id, call)
                    if call.ended is None:
                        memory.look_again(session_id)
                elif call.command and not is_read_only(call.command):
                    commands.append(_command(session_id, call, claims, heard_at, now))
        newcomers = any(row["session_id"] not in memory.silent_since and _is_client_running(row) for row in living)
        return Evidence(
            edits=tuple(edited),
            commands=tuple(commands),
            unknown_commands=unknown or newcomers,
            owners=self._owners(living),
            silent_since=memory.silent_since,
        )

    def _edit(self, session_id: str, call: ToolCall) -> list[Edit]:
        if call.failed or call.ended is None or not call.path:
            return []
        target = target_at(self._services, Path(call.cwd, call.path))
        return [Edit(session_id, target, call.began)] if target is not None else []

    def _owners(self, living: list[SessionRow]) -> dict[str, str]:
        """The sessions that work alone in a worktree that was made for them."""
        rows = self._services.db.read(worktrees.listing, purposes=(WorktreePurpose.SESSION,))
        known = self._services.unannounced.silent_since
        owners = {}
        for row in rows:
            residents = [session["session_id"] for session in living if session["worktree"] == row["path"]]
            if residents == [row["session_id"]] and row["session_id"] in known:
                owners[row["path"]] = row["session_id"]
        return owners


def _command(session_id: str, call: ToolCall, claims: bool, heard_at: datetime | None, now: datetime) -> Command:
    checkout = find_checkout(Path(call.cwd)) if call.cwd else None
    top = str(checkout.top) if checkout is not None else ""
    over = call.ended or (heard_at if claims else None) or now
    return Command(session_id, top, call.began, over, claims)


def _transcript(row: SessionRow, by_id: Mapping[str, SessionRow]) -> Path | None:
    """The session's transcript; a subagent's lies beside its parent's."""
    parent = by_id.get(row["parent_session_id"] or "")
    path = (parent or row)["transcript_path"]
    if not path or not Path(path).is_absolute():
        return None
    own = Path(path)
    return own.with_suffix("") / "subagents" / f"agent-{row['session_id']}.jsonl" if parent is not None else own


def _is_client_running(row: SessionRow) -> bool:
    """Whether the client of a session, or of its parent, runs."""
    if row["client_pid"] is None:
        return row["parent_session_id"] is not None
    return is_running(row["client_pid"], row["client_started"])


def _folder_changed_at(path: Path) -> datetime | None:
    for folder in path.parents:
        try:
            return datetime.fromtimestamp(os.lstat(folder).st_mtime, UTC)
        except OSError:
            continue  # the folder was deleted too
    return None


def at_start(project: Project, living: Iterable[SessionLife], now: datetime) -> Unannounced:
    """The state before the first session is heard: the last time of each session, and of the last daemon."""
    silent_since = {row["session_id"]: parse(row["last_heartbeat"]) for row in living}
    try:
        away_since: datetime | None = datetime.fromtimestamp(project.alive_file.stat().st_mtime, UTC)
    except OSError:
        away_since = max(silent_since.values(), default=None)
    return Unannounced(silent_since, away_since, now)


def note_alive(project: Project) -> None:
    """Record that the daemon runs. If the disk refuses it, only a longer period is examined later."""
    try:
        project.alive_file.touch(mode=0o600)
    except OSError as error:
        log.debug("alive_file_not_written", reason=str(error))


# -- for hook events


def note_heard(services: Services, event: HookEvent) -> None:
    """Schedule the examination of a session, at its first event since the start."""
    if services.unannounced.note_session(event.actor, event.came_at):
        services.jobs["unannounced"].nudge()


async def first_look(services: Services) -> None:
    """Wait a moment for the examination of edits made while no daemon ran: their authors come first."""
    look = services.unannounced.first_look
    if not look.is_set():
        await services.work(partial(look.wait, FIRST_LOOK_S))


def remarks(services: Services, target: Target) -> list[str]:
    """The notice for a session that is about to edit a file with an unannounced change."""
    path = services.unannounced.path_of(target)
    if path is None:
        return []
    text = f"{embedded(path)} changed while Corral's daemon was away, and nobody announced it. "
    return [text + "Look at what is in it before you edit it, and keep what is not yours."]


def job(services: Services) -> Step:
    """The job of this module."""
    return Step("unannounced", UnannouncedChanges(services).step, pause_s=0.2)


# -- The tool calls of a session from its client's transcript: those that no hook reported while no daemon ran.
#
# Unexpected content is skipped, as in `corral.coordination.sessions.transcripts`.

TAIL_BYTES = 4 * 1024 * 1024
"""Bytes of the file's end that are read."""


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool.

    Attributes:
        cwd: Where the session was.
        path: The file of an edit tool, as the model named it; empty for other tools.
        command: The command of a shell tool; empty for other tools.
        began: When the model asked for it.
        ended: When its result was written down; None while there is none.
        failed: Whether that was an error, or a refusal.
    """

    tool: str
    cwd: str
    path: str
    command: str
    began: datetime
    ended: datetime | None
    failed: bool


@dataclass(frozen=True)
class ToolCalls:
    """The calls that were not over at an instant, or came later; ``complete``: none is missing."""

    calls: tuple[ToolCall, ...] = ()
    complete: bool = False


def tool_calls(path: Path, since: datetime, *, of_subagent: bool = False) -> ToolCalls:
    """Read the tool calls of a transcript that were not over at an instant; a client without a prompt has no transcript.

    Args:
        of_subagent: Whether the transcript is a subagent's; in a session's own, the entries of subagents are skipped.
    """
    try:
        tail = _tail(path)
    except FileNotFoundError:
        return ToolCalls(complete=True)
    if tail is None:
        return ToolCalls()
    data, whole = tail
    first: datetime | None = None
    uses: dict[str, tuple[datetime, str, dict[str, Any]]] = {}
    results: dict[str, tuple[datetime, bool]] = {}
    for line in data.splitlines():
        # Most of a long transcript is tool output: only lines that may hold calls are parsed.
        if first is not None and b'"tool_use"' not in line and b'"tool_result"' not in line:
            continue
        for at, cwd, part in _parts(line, of_subagent):
            first = first or at
            if part["type"] == "tool_use":
                uses[str(part["id"])] = (at, cwd, part)
            elif part["type"] == "tool_result":
                results[str(part["tool_use_id"])] = (at, bool(part.get("is_error")))
    calls = []
    for use_id, (began, cwd, part) in uses.items():
        ended, failed = results.get(use_id, (None, False))
        if ended is None or ended > since:
            calls.append(_call(part, cwd, began, ended, failed))
    return ToolCalls(tuple(calls), complete=whole or (first is not None and first <= since))


def _call(part: dict[str, Any], cwd: str, began: datetime, ended: datetime | None, failed: bool) -> ToolCall:
    arguments = part.get("input")
    arguments = arguments if isinstance(arguments, dict) else {}
    path = arguments.get("file_path") or arguments.get("notebook_path")
    command = arguments.get("command")
    return ToolCall(
        tool=str(part.get("name")),
        cwd=cwd,
        path=path if isinstance(path, str) else "",
        command=command if isinstance(command, str) else "",
        began=began,
        ended=ended,
        failed=failed,
    )


def _parts(line: bytes, of_subagent: bool) -> Iterator[tuple[datetime, str, dict[str, Any]]]:
    """Yield each part of an entry of the conversation, with its instant and folder."""
    try:
        entry: Any = json.loads(line)
        if entry["type"] not in ("user", "assistant") or bool(entry.get("isSidechain")) != of_subagent:
            return
        at, content = parse(entry["timestamp"]).astimezone(UTC), entry["message"]["content"]
        parts = [{"type": "text"}] if isinstance(content, str) else content
        needed = {"tool_use": "id", "tool_result": "tool_use_id"}
        whole = [part for part in parts if part["type"] not in needed or part[needed[part["type"]]]]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return
    cwd = entry.get("cwd")
    for part in whole:
        yield at, cwd if isinstance(cwd, str) else "", part


def _tail(path: Path) -> tuple[bytes, bool] | None:
    """The end of a file, and whether that is all of it; None if it is no file."""
    try:
        if not stat.S_ISREG(path.stat().st_mode):  # to open a pipe waits for its writer
            return None
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - TAIL_BYTES))
            return file.read(TAIL_BYTES), size <= TAIL_BYTES
    except FileNotFoundError:
        raise
    except (OSError, ValueError):  # ValueError: a path that none can be
        return None
