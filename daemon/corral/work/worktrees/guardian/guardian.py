"""The guardian: it saves a worktree when a turn, an agent or a session ends in it, and notices when its HEAD moves.

No event tells of a branch that somebody resets, or of a worktree that another program removes: there the files of git are the
only witness. Of each worktree the guardian remembers the last state that it saved; what a daemon that ends forgets is saved once
more. A saved state goes when the next one has all of it, or when commits on top of it have, unless HEAD moved in another way
meanwhile, or by somebody else. A worktree that is made again under a name is another one: it takes nothing from the former.
"""

from __future__ import annotations

import os
import re
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from threading import Lock
from typing import NamedTuple, TypeVar

from sqlalchemy import Connection

from corral.config.paths import find_checkout
from corral.coordination.edits.runtime_state import RuntimeState
from corral.coordination.services import Services
from corral.coordination.sessions.store import sessions as session_rows
from corral.core.errors import CorralError
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.states import WorktreeState
from corral.core.steps import Step
from corral.git import refs
from corral.git.checkouts import private, salvage
from corral.git.checkouts.identity import real_place
from corral.git.checkouts.listing import folder_of
from corral.git.checkouts.private import Copy
from corral.git.checkouts.salvage import Snapshot
from corral.git.process.command import OID, Git, open_checkout
from corral.store.rows.sessions import SessionRow
from corral.store.rows.tasks import WorktreeRow
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.allocation import WorktreeContext
from corral.work.worktrees.guardian import saving
from corral.work.worktrees.guardian.saving import GUARDED, Look

NAME = "guardian"
MOST_REPLACED = 5
"""Copies of the ignored files of one worktree that are kept because the next one lacks a file of theirs; of more the oldest
two become one."""
GOES_ON = frozenset({"commit", "cherry-pick", "revert"})
"""Git's words for a move of HEAD after which the new commit has what was there."""
OWN = "corral"
"""The word for a move that Corral made itself."""
_REMEMBERED = 4096
_NOT_YOURS = "no command of yours did it. "
_UNSEEN = "that was about when no daemon of Corral's ran, so that nobody saw who did it. "

T = TypeVar("T")

log = logger(NAME)


class Move(NamedTuple):
    """A line of the log of a worktree's HEAD."""

    old: str
    new: str
    verb: str
    """Git's word for it, such as ``reset`` or ``commit``; the rest of the message is somebody's text."""


@dataclass(frozen=True)
class Saved:
    """What is saved of a worktree: the salvage ref, None where other refs hold everything; how many ignored files; and what could
    not be saved, with the reason."""

    ref: str | None = None
    ignored_files: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    problem: str | None = None


@dataclass
class _Heard:
    """Moves of a worktree's HEAD that nobody was told of yet; ``actor``: the session whose command made them, or None.

    ``is_unseen``: no daemon ran at that time, so the session's own command may have made them.
    """

    top: Path
    moves: list[Move]
    actor: str | None
    is_unseen: bool = False
    is_saved: bool = False


@dataclass
class _Memory:
    """The last state of a worktree that was saved, and the refs that hold it.

    Attributes:
        identity: Which worktree it is, whatever its path.
        told_log: How much of the log of its HEAD was told.
        saved_log: How long that log was before the state was saved.
        fuller: The state before, where it has files that this one lacks.
        lock: Held while it is saved.
    """

    identity: str | None
    told_log: int
    saved_log: int
    look: Look | None = None
    snapshot: Snapshot | None = None
    fuller: Snapshot | None = None
    copy: Copy | None = None
    replaced: list[Copy] = field(default_factory=list)
    saved: Saved = Saved()
    lock: Lock = field(default_factory=Lock)


class Guardian:
    """Everything but :meth:`meet`, :meth:`ended` and :meth:`changed` may run git: call it off the event loop.

    Args:
        runtime: The commands that run.
        faults: Where a person is told what could not be saved.
        nudge: Asks for a step.
        away_since: When the daemon before this one was last at work; None: that is not known.
    """

    def __init__(
        self,
        context: WorktreeContext,
        runtime: RuntimeState,
        faults: dict[str, Need],
        nudge: Callable[[], None],
        away_since: datetime | None = None,
    ) -> None:
        self._context = context
        self._runtime = runtime
        self._faults = faults
        self._nudge = nudge
        self._away_since = away_since
        self._memory: dict[str, _Memory] = {}
        self._met: dict[str, None] = {}
        # Appended by any thread, taken by the step.
        self._ended: deque[tuple[str, str]] = deque()
        self._changed: deque[str] = deque()
        self._moves: deque[_Heard] = deque()
        self._left: set[str] = set()
        self.watch: Callable[[], None] = lambda: None
        """Watches what appeared since; the daemon brings it."""

    # -- what is heard

    def meet(self, folder: str) -> None:
        """A session works in a folder: from now on a move of its worktree's HEAD is noticed."""
        if folder in self._met or not folder:
            return
        if len(self._met) >= _REMEMBERED:
            self._met.clear()
        self._met[folder] = None
        if (checkout := self._linked(Path(folder))) is not None:
            self._remembered(checkout)
            self._nudge()

    def ended(self, folder: str, reason: str) -> None:
        """A turn ended in a folder: its worktree is saved with the next step."""
        if folder and (checkout := self._linked(Path(folder))) is not None:
            self._ended.append((str(checkout.work_tree), reason))
            self._nudge()

    def over(self, conn: Connection, session_id: str) -> None:
        """A session was killed, or fell silent: its worktree, and those of its subagents, are saved with the next step."""
        for member in session_rows.family(conn, session_id):
            row = session_rows.get(conn, member)
            if row is not None and row["worktree"]:
                self._ended.append((row["worktree"], "its session ended"))
                self._nudge()

    def begin(self, folder: str) -> None:
        """A command of a session is about to run in a folder: what happened to its worktree's HEAD until now, it did not."""
        checkout = self._linked(Path(folder)) if folder else None
        if checkout is None or self._at_work_in(str(checkout.work_tree)):
            return
        if self._take_moves(checkout, None):
            self._nudge()

    def announce(self, folder: str, session_id: str) -> None:
        """A command of a session ended in a folder: what happened to its worktree's HEAD until now, it did."""
        checkout = self._linked(Path(folder)) if folder else None
        if checkout is not None and self._take_moves(checkout, session_id):
            self._nudge()

    def changed(self, entry: str, what: str) -> None:
        """A file of git's about a worktree changed.

        Args:
            entry: The name of git's folder for it; empty where only folders of worktrees came or went.
            what: The file.
        """
        self._changed.append(entry)
        if what == "locked":
            top = folder_of(self._context.repo.common_dir / "worktrees" / entry)
            self._ended.append((str(top), "its lock changed"))
        self._nudge()

    # -- saving

    def before_release(self, path: Path, reason: str) -> Saved:
        """Save a worktree that its session is about to give back, ignored files included.

        Never raises, so that the caller's turn goes on: what could not be saved is in the answer.
        """
        checkout = self._linked(path)
        if checkout is None or checkout.work_tree is None:
            return Saved()
        self._left.add(str(checkout.work_tree))
        return self.save(checkout.work_tree, reason)

    def save(self, top: Path, reason: str) -> Saved:
        """Save the state of a worktree, if it changed since it was saved last; never raises.

        One that belongs to a task, or that is being made or removed, is left to its own end.
        """
        try:
            return self._save(top, reason)
        except (CorralError, OSError) as error:
            return self._failed(top, error)

    def _save(self, top: Path, reason: str) -> Saved:
        checkout, row = self._linked(top), self._row(top)
        if checkout is None or (row is not None and not _is_guarded(row)):
            return Saved()
        memory = self._remembered(checkout)
        with memory.lock:
            return self._save_changed(top, checkout, row, reason, memory)

    def _save_changed(self, top: Path, checkout: Git, row: WorktreeRow | None, reason: str, memory: _Memory) -> Saved:
        log_size = _log_size(checkout.git_dir)
        now, name = saving.look(self._context, checkout, row), saving.name_of(top, row)
        problems = list[CorralError | OSError]()
        # Ignored files first: for the client a worktree with nothing else is empty, and goes without a question.
        if memory.look is None or memory.look.ignored != now.ignored:
            try:
                self._save_ignored(checkout, name, now, reason, memory)
            except (CorralError, OSError) as error:
                problems.append(error)
        if memory.look is None or memory.look.seen != now.seen:
            try:
                self._save_work(checkout, row, name, now, reason, memory)
            except (CorralError, OSError) as error:
                problems.append(error)
        left_out = dict((memory.copy.left_out if memory.copy else None) or now.ignored.left_out)
        ref = memory.snapshot.ref if memory.snapshot else None
        memory.saved = Saved(ref, len(memory.copy.known) if memory.copy else 0, left_out)
        if problems:
            memory.look = None
            return self._failed(top, problems[0], memory.saved)
        memory.look, memory.saved_log = now, log_size
        Fault(self._faults, f"snapshot {top}", "snapshot").end()
        return memory.saved

    def _save_work(
        self, checkout: Git, row: WorktreeRow | None, name: str, now: Look, reason: str, memory: _Memory
    ) -> None:
        """Put tracked and new files on a salvage ref, and drop the one before if its session went on from all of it."""
        head, repo = now.seen.head, self._context.repo
        exclude = row["provision"].get("exclude", ()) if row is not None else ()
        is_held = head is None or checkout.branch() is not None or refs.holder(checkout, head) is not None
        snapshot = None
        if now.seen.files or not is_held:
            at = self._context.clock()
            snapshot = salvage.snapshot(checkout, name, at, reason=reason, exclude=exclude, always=True)
        # A file that does not exist has no content in this snapshot, so the next snapshot need not have it either.
        standing = {path for path, seen in now.seen.files.items() if seen is not None}
        if snapshot is not None:
            snapshot = replace(snapshot, files=[path for path in snapshot.files if path in standing])
        before, memory.snapshot = memory.snapshot, snapshot
        if (
            before is None
            or (snapshot is not None and snapshot.ref == before.ref)
            or _is_left(checkout, before, head, memory)
        ):
            return
        memory.fuller = None
        if _went_on(checkout, before, head, standing):
            refs.delete(repo, before.ref, before.sha)
        elif snapshot is None:
            memory.snapshot = before  # a later commit may have all of it
        else:
            memory.fuller = before

    def _save_ignored(self, checkout: Git, name: str, now: Look, reason: str, memory: _Memory) -> None:
        before = memory.copy
        known = before.known if before is not None else {}
        copy = saving.keep_ignored(self._context, checkout, name, now, reason, known)
        if before is None or copy is None:
            memory.copy = copy or before
            return
        memory.copy = copy
        if before.ref == copy.ref or private.drop_replaced(self._context.repo, before, copy):
            return
        memory.replaced.append(before)
        while len(memory.replaced) > MOST_REPLACED:
            oldest, older, *rest = memory.replaced
            if (merged := private.merge(self._context.repo, oldest, older)) is None:
                return
            memory.replaced = [merged, *rest]

    def _failed(self, top: Path, error: CorralError | OSError, saved: Saved = Saved()) -> Saved:
        why = f"{error.message} {error.cause}".strip() if isinstance(error, CorralError) else str(error)
        what = f"The state of the worktree {top} could not be saved: {why}"
        fault = Fault(self._faults, f"snapshot {top}", "snapshot")
        fault.show(what, "Remove the cause; the next turn's end tries again.", self._context.clock())
        log.warning("not_saved", worktree=str(top), error=why)
        return Saved(saved.ref, saved.ignored_files, saved.left_out, why)

    # -- noticing

    def step(self, now: datetime) -> None:
        """Do what is due; costs nothing where nothing was heard. What fails is heard again; what ended is saved in any case."""
        self.watch()
        ended, changed = dict(_taken(self._ended)), set(_taken(self._changed))
        try:
            self._look_back()
            if ended or changed or self._moves:
                self._notice_all(changed, now)
        except BaseException:
            self._changed.extend(changed)
            raise
        finally:
            for top, reason in ended.items():
                self.save(Path(top), reason)

    def _look_back(self) -> None:
        """Hear of the moves of HEAD that nobody noticed, since the daemon before this one was at work; once."""
        for top in self._places() if self._away_since is not None else ():
            if (checkout := self._linked(Path(top))) is not None:
                moves = _made_by_others(_moves(checkout.git_dir, 0, self._away_since)[0])
                # What git writes when it makes the worktree: from nothing, and at once a reset to the same commit.
                if moves and not moves[0].old.strip("0"):
                    made = moves[1:2] == [Move(moves[0].new, moves[0].new, "reset")]
                    moves = moves[1 + made :]
                if moves:
                    self._moves.append(_Heard(Path(top), moves, None, is_unseen=True))
        self._away_since = None

    def _notice_all(self, changed: set[str], now: datetime) -> None:
        places = self._places()
        for top, sessions in places.items():
            self._notice(Path(top), sessions, changed, now)
        for _ in range(len(self._moves)):
            heard = self._moves.popleft()
            try:
                self._moved(heard, places.get(str(heard.top), []), now)
            except BaseException:
                self._moves.append(heard)
                raise
        for top, memory in list(self._memory.items()):
            if (top not in places or top in self._left) and saving.identity(self._linked(Path(top))) != memory.identity:
                self._forget(top, memory)

    def _forget(self, top: str, memory: _Memory) -> None:
        """A worktree is gone. A state that only lacks files of the one before was taken while it was being deleted, and goes."""
        del self._memory[top]
        last, fuller, repo = memory.snapshot, memory.fuller, self._context.repo
        if last is None or fuller is None or last.base_sha != fuller.base_sha or refs.read(repo, fuller.ref) is None:
            return
        if len(repo.must("show", "-s", "--format=%P", last.sha).split()) > 1:  # only its index may have some content
            return
        if all(not change.new_mode.strip("0") for change in refs.raw_changes(repo, fuller.sha, last.sha)):
            refs.delete(repo, last.ref, last.sha)

    def _notice(self, top: Path, sessions: list[SessionRow], changed: set[str], now: datetime) -> None:
        checkout = self._linked(top)
        if checkout is None:
            if changed and not top.exists():
                self._gone(top, sessions, now)
            return
        self._left.discard(str(top))
        if not self._runs_command(top, sessions):
            self._take_moves(checkout, None)

    def _runs_command(self, top: Path, sessions: list[SessionRow]) -> bool:
        """Whether a command runs that one of these sessions has to answer for: its end says what it did."""
        return not {row["session_id"] for row in sessions}.isdisjoint(self._at_work_in(str(top)))

    def _at_work_in(self, top: str) -> list[str]:
        """The sessions of which a command runs in a worktree."""
        return [call.actor for call in self._runtime.shell_calls() if call.ended is None and top in call.before]

    def _moved(self, heard: _Heard, sessions: list[SessionRow], now: datetime) -> None:
        """HEAD moved: what it left is saved, and those who work there and did not do it are told."""
        top, moves, actor = heard.top, heard.moves, heard.actor
        kin = {actor, *(row["parent_session_id"] for row in sessions if row["session_id"] == actor)} - {None}
        others = [row for row in sessions if kin.isdisjoint((row["session_id"], row["parent_session_id"]))]
        if not others:
            return
        name, checkout = saving.name_of(top, self._row(top)), self._linked(top)
        if checkout is not None:
            memory = self._remembered(checkout)
            before, memory.snapshot = memory.snapshot, None  # what it holds may be nowhere else now
            memory.look = None
            heard.is_saved |= before is not None
        for move in moves:
            heard.is_saved |= self._keep_commit(name, move.old) is not None
        saved = self.save(top, f"HEAD moved ({moves[-1].verb})")
        heard.is_saved |= saved.ref is not None
        who = next((row["agent_name"] for row in sessions if row["session_id"] == actor), None)
        text = (
            f"HEAD of your worktree {top} moved from {moves[0].old[:12]} to {moves[-1].new[:12]} "
            f"({', '.join(dict.fromkeys(move.verb for move in moves))}), and "
            + (f"{who}, who works there too, did it. " if who else _UNSEEN if heard.is_unseen else _NOT_YOURS)
            + "Read a file again before you edit it."
            + (f" What was there is saved: `corral worktree recover {name}`." if heard.is_saved else "")
        )
        log.warning("head_moved", worktree=str(top), old=moves[0].old, new=moves[-1].new, saved=saved.ref)
        self._tell(others, text, now)

    def _gone(self, top: Path, sessions: list[SessionRow], now: datetime) -> None:
        row = self._row(top)
        if str(top) in self._left or (row is not None and row["state"] != WorktreeState.READY):
            return
        memory, name = self._memory.get(str(top)), saving.name_of(top, row)
        is_saved = memory is not None and memory.snapshot is not None
        saved = f" What it held is saved: `corral worktree recover {name}`." if is_saved else ""
        log.warning("worktree_gone", worktree=str(top))
        self._tell(sessions, f"Your worktree {top} was removed, and not by a command of yours.{saved}", now)
        self._left.add(str(top))

    def _keep_commit(self, name: str, sha: str) -> str | None:
        """Put a commit that no ref holds any more on a salvage ref; None where a ref holds it."""
        repo = self._context.repo
        if not OID.fullmatch(sha) or not sha.strip("0") or not refs.exists(repo, sha) or refs.holder(repo, sha):
            return None
        ref = f"{salvage.PREFIX}{name}/{sha}"
        return ref if refs.compare_and_swap(repo, ref, sha, "", why="corral: salvage") else None

    def _tell(self, sessions: Iterable[SessionRow], text: str, now: datetime) -> None:
        def tell(conn: Connection) -> None:
            for row in sessions:
                session_rows.notify(conn, row["session_id"], text, iso(now))

        self._context.db.write(tell)

    def _take_moves(self, checkout: Git, actor: str | None) -> bool:
        """Hear of the moves of a worktree's HEAD since the last look, without Corral's own; returns whether there are any."""
        memory = self._remembered(checkout)
        lines, memory.told_log = _moves(checkout.git_dir, memory.told_log)
        if moves := _made_by_others(lines):
            self._moves.append(_Heard(checkout.top, moves, actor))
        return bool(moves)

    def _remembered(self, checkout: Git) -> _Memory:
        """The memory of a worktree; a new one if another worktree had the path before."""
        top, identity = str(checkout.work_tree), saving.identity(checkout)
        memory = self._memory.get(top)
        if memory is None or memory.identity != identity:
            size = _log_size(checkout.git_dir)
            memory = self._memory[top] = _Memory(identity, size, size)
        return memory

    # -- reading

    def _places(self) -> dict[str, list[SessionRow]]:
        """The living sessions by the worktree that they work in; none of the main checkout, and none of tasks."""
        places = dict[str, list[SessionRow]]()
        main = {str(self._context.project.root), os.path.realpath(self._context.project.root)}
        for row in self._context.db.read(session_rows.live):
            if row["worktree"] and row["worktree"] not in main:
                places.setdefault(row["worktree"], []).append(row)
        return places

    def _linked(self, folder: Path) -> Git | None:
        """The linked worktree of this repository that a folder is in; None: in none."""
        with suppress(CorralError, OSError):
            checkout = find_checkout(folder)
            if checkout is not None and checkout.common_dir == self._context.project.common_dir:
                return open_checkout(checkout.top) if checkout.git_dir != checkout.common_dir else None
        return None

    def _row(self, top: Path) -> WorktreeRow | None:
        place = real_place(top)
        rows = self._context.db.read(worktree_rows.listing)
        return next((row for row in rows if real_place(Path(row["path"])) == place), None)


def _taken(heard: deque[T]) -> list[T]:
    """What was heard so far, each once; more may be appended meanwhile."""
    return [heard.popleft() for _ in range(len(heard))]


def _is_guarded(row: WorktreeRow) -> bool:
    return row["purpose"] in GUARDED and row["state"] == WorktreeState.READY


def _is_left(checkout: Git, before: Snapshot, head: str | None, memory: _Memory) -> bool:
    """Whether HEAD moved away from a snapshot: in another way than by commits, or by what its log does not tell."""
    moves, _ = _moves(checkout.git_dir, memory.saved_log)
    is_known = bool(moves) or (head or "") == before.base_sha
    return not is_known or any(move.verb not in GOES_ON for move in moves)


def _went_on(checkout: Git, before: Snapshot, head: str | None, changed: Iterable[str]) -> bool:
    """Whether every file of a snapshot stands there changed, or was committed since on top of where HEAD was."""
    if not before.base_sha or head is None or not refs.is_ancestor(checkout, before.base_sha, head):
        return False
    rest = set(before.files).difference(changed)
    return not rest or rest <= set(refs.changed_paths(checkout, before.base_sha, head))


def _made_by_others(moves: Iterable[Move]) -> list[Move]:
    return [move for move in moves if move.verb != OWN]


def _moves(git_dir: Path, since: int, after: datetime | None = None) -> tuple[list[Move], int]:
    """What the log of a worktree's HEAD got since it had some size, and its size now; of lines only those after an instant."""
    size = _log_size(git_dir)
    if size <= since:
        return [], size
    with (git_dir / "logs" / "HEAD").open("rb") as file:
        file.seek(since)
        lines = file.read(size - since).decode("utf-8", "replace").splitlines()
    moves = []
    for line in lines:
        about, _, message = line.partition("\t")
        shas = about.split(" ")
        if after is not None and not _is_after(about, after):
            continue
        verb = re.match(r"[a-z][a-z -]{0,30}", message)
        if len(shas) > 1 and (message or shas[0] != shas[1]):
            moves.append(Move(shas[0], shas[1], verb[0].strip() if verb else "moved"))
    return moves, size


def _is_after(about: str, instant: datetime) -> bool:
    """Whether a line of a log is from after an instant; git writes whole seconds."""
    at = about.rsplit(" ", 2)[-2:-1]
    return bool(at) and at[0].isdecimal() and int(at[0]) >= int(instant.timestamp())


def _log_size(git_dir: Path) -> int:
    try:
        return (git_dir / "logs" / "HEAD").stat().st_size
    except OSError:
        return 0


def job(services: Services) -> Step:
    """The job of this module."""
    context = services.of(WorktreeContext)
    away_since = services.unannounced.away_since
    guardian = Guardian(context, services.runtime, services.faults, lambda: services.nudge(NAME), away_since)
    services.bring(guardian)
    return Step(NAME, guardian.step, pause_s=0.2)
