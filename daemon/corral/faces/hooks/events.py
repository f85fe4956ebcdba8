"""Claude Code's hook events: from the payload to the answer.

Every event is a heartbeat. Events may come twice (two copies of the plugin, a retried call): each handler may run twice.
Deliveries (mail, notices, a held Stop) go only with an answer that comes in time, and are repeated when
the bridge reports that it lost the answer. An event of a folder that is not this project's is answered with nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Connection

from corral.client import last_look
from corral.coordination.edits import verdicts
from corral.coordination.edits.verdicts import Policy, Target
from corral.coordination.handoffs.handoffs import for_newcomer
from corral.coordination.locks.store import locks as lock_rows
from corral.coordination.locks.table import Holder
from corral.coordination.mail import mailing
from corral.coordination.mail.store import messages as message_rows
from corral.coordination.services import Services
from corral.coordination.sessions import registry as session_registry
from corral.coordination.sessions import session_end, transcripts
from corral.coordination.sessions.briefing import briefing
from corral.coordination.sessions.processes import is_running
from corral.coordination.sessions.registry import Arrival
from corral.coordination.sessions.store import sessions as session_rows
from corral.coordination.shell.reading import is_read_only
from corral.core.crash import crash_point
from corral.core.errors import CorralError, DatabaseUnavailable
from corral.core.events import EventKind
from corral.core.instants import after, iso
from corral.core.logs import logger
from corral.core.payload import Payload
from corral.core.redaction import redact
from corral.core.states import MailWay, SessionStatus, WorktreeState
from corral.core.visible import embedded
from corral.faces.hooks import meanwhile, on_screen, shell_watch, unannounced, working_copies
from corral.faces.hooks import payloads as hook_events
from corral.faces.hooks.payloads import HookEvent
from corral.faces.hooks.presence import arrival, await_bridge, presence, waits_for_person
from corral.faces.hooks.tool_targets import targets_of
from corral.git import history, refs
from corral.git.process.command import open_checkout
from corral.observe.audit import tool_calls
from corral.observe.audit.trail import AuditTrail
from corral.store import events
from corral.store.rows import required
from corral.work.worktrees import store as worktree_rows
from corral.work.worktrees.guardian.guardian import Guardian
from corral.work.worktrees.guardian.saving import not_saved
from corral.work.worktrees.worktrees import Worktrees

LEAVES_WORKTREE = "ExitWorktree"
"""The tool by which a session leaves its worktree, and may have it removed."""
OF_SUBAGENT = "agent-"
"""The prefix of a subagent's worktree name; the client appends the subagent's id."""
SKILL_SHELL = "PreSkillShellCommand"
COVERED = {
    "PreToolUse": ("PostToolUse", "PostToolUseFailure"),
    "PostToolUse": ("PostToolBatch",),
    "PostToolUseFailure": ("PostToolBatch",),
}
"""Which events of a call need no hook once its mod has asked about another one: it tells the end of what it asked about, and is
told there what waits for its session."""
HEARTBEAT_S = 60.0
"""Seconds between two heartbeats of a session whose tools need no check."""
LATE = timedelta(seconds=3)
"""An answer that took longer may reach nobody: the bridge waits for 4 s."""

AT_THE_END_S = 0.5
"""Seconds for which the end of a session waits until its worktree is saved: the client waits for a second."""
BEFORE_RELEASE_S = 3.0
"""The same before a worktree may go."""

log = logger("hook_events")

T = TypeVar("T")
Handler = Callable[[Services, HookEvent], Awaitable[Payload]]


async def answer(services: Services, name: str, payload: Mapping[str, Any]) -> Payload:
    """Handle one event; an unknown event is only a heartbeat.

    Raises:
        InvalidInput: It names no session that could be.
    """
    event, call = hook_events.read(name, payload, services.now()), last_look.call_of(payload)
    if event.is_guest and is_read_only(event.command):
        return {}
    if event.unheard is not None:
        begin, end = map(iso, event.unheard)
        await services.store.write(message_rows.put_back, event.actor, begin, end)
    if event.bridge and event.parent is None:
        services.runtime.serves(event.bridge, event.actor)
    unannounced.note_heard(services, event)
    if event.carrier == "mod":
        services.mods.spoke(event.session_id)
    elif call and services.mods.is_settled(name, call):
        return {}
    elif event.carrier == "bridge" and name == "PreToolUse" and (event.is_edit or event.is_shell):
        services.mods.missed(event.session_id, event.client_version)
    if name != SKILL_SHELL:
        await _end_commands(services, event)
    if event.ends_turn:
        services.runtime.turn_ended(event.actor)
    response = await _HANDLERS.get(name, _sign_of_life)(services, event)
    denial = hook_events.reason_of_denial(response)
    if event.carrier == "mod" and call and not denial:
        may_be_quiet = name == "PreToolUse" and event.is_edit and not _follows_another(services, event)
        is_quiet = may_be_quiet and await services.store.read(_is_quiet, event=event)
        settled = (name, *COVERED.get(name, ()), *(["PostToolBatch"] if is_quiet else []))
        services.mods.settle(settled, call, event.client_pid or 0)
        response = {**response, "is_quiet": True} if is_quiet else response
    tool_calls.note_event(
        services.of(AuditTrail), event.came_at, event.actor, {**payload, "hook_event_name": name}, denial
    )
    crash_point("hooks.handled")
    if services.unwatched:
        services.nudge("sessions")
    return response


def _policy(services: Services) -> Policy:
    chosen = services.settings().locks
    return Policy(enforcement=chosen.enforcement, ttl_s=chosen.ttl_s)


async def _present(
    services: Services, event: HookEvent, now: datetime, operation: Callable[[Connection, Holder], T]
) -> T:
    """Run a write in which the session of an event is alive."""
    present = presence(services, event, now)
    return await services.store.write(lambda conn: operation(conn, present(conn)))


# -- before and after a tool


async def _before_tool(services: Services, event: HookEvent) -> Payload:
    services.runtime.announced(event.actor, event.use_id)
    if event.tool == LEAVES_WORKTREE:
        unsaved, lost = await _keep(services, event, "its session leaves it", BEFORE_RELEASE_S)
        if unsaved and event.action != "keep":
            return hook_events.denial(unsaved)
        if lost and event.action != "keep":
            await _sign_of_life(services, event)
            return hook_events.context("PreToolUse", [lost])
    if event.is_shell:
        refused = await shell_watch.before(services, event, presence(services, event, services.now()))
        return hook_events.denial(refused, event.name) if refused else {}
    if event.has_endless_path:
        return hook_events.denial(
            "The path is longer than any system takes, so nobody can say whose file it is.", event.name
        )
    if not event.is_edit or not event.path:
        return await _sign_of_life(services, event)
    targets = targets_of(services, event)
    if not targets:
        return {**await _sign_of_life(services, event), "is_elsewhere": True}
    await unannounced.first_look(services)
    target = targets[0]
    editor = services.runtime.last_editor(target.checkout, target.key.match_key, event.actor)
    now, policy, passed = services.now(), _policy(services), meanwhile.marks(services)

    def guard(conn: Connection, holder: Holder) -> Payload:
        meanwhile.settle(conn, passed, services, now)
        remarks: list[str] = []
        for each in targets:
            verdict = verdicts.before_edit(conn, holder, each, policy, now)
            if verdict.denial is not None:
                return hook_events.denial(verdict.denial)
            remarks += [*verdict.remarks, *unannounced.remarks(services, each)]
        for each in targets:
            services.runtime.edits(each.checkout, each.key.match_key, event.actor)
        # No one-time texts here: the model never sees the answer about a call that its person then refuses.
        return hook_events.context("PreToolUse", remarks)

    try:
        answer = await _present(services, event, now, guard)
    except DatabaseUnavailable:  # writes wait; a refusal needs none, and what is free is the last look's to mark
        me = Holder(session_id=event.actor, kin=(event.parent,) if event.parent else ())
        for each in targets:
            refused = await services.store.read(verdicts.refusal, holder=me, target=each, policy=policy, now=now)
            if refused is not None:
                return hook_events.denial(refused)
        raise
    meanwhile.forget(services, passed)
    if hook_events.reason_of_denial(answer) or (blind := await _blind_write(services, event, target, editor)) is None:
        return answer
    if services.settings().locks.blind_writes == "deny":
        return hook_events.denial(f"{blind}\nWrite it again if this shall go.")
    return hook_events.context("PreToolUse", [blind, *hook_events.texts_of(answer)])


async def _blind_write(services: Services, event: HookEvent, target: Target, editor: str | None) -> str | None:
    """What another session changed in a file that this one did not see: before all of it is written, or after a part of it was.

    An edit of a part writes over nothing, but from then on the client takes the whole file for known.
    """
    me = [event.actor, *([event.parent] if event.parent else [])]
    is_before = event.name == "PreToolUse"
    if (event.tool == "Write") is not is_before or editor in (None, *me):
        return None
    if services.settings().locks.blind_writes == "off":
        return None
    path = Path(event.cwd, event.path)
    tells_of_reads = not services.runtime.connected().isdisjoint(me)  # its bridge does
    in_git = partial(history.committed, open_checkout(Path(target.checkout)), target.key.file_path)
    unseen = await services.work(
        lambda: services.last_seen.unseen_changes(me, path, in_git if tells_of_reads and is_before else None)
    )
    if unseen is None:
        return None
    row = await services.store.read(session_rows.get, str(editor))
    name, file = embedded(row["agent_name"]) if row is not None else "another session", embedded(target.key.file_path)
    if not is_before:
        return f"{file} was not as you last saw it: {name} had changed it. With your edit:\n{unseen.difference}"
    if unseen.was_seen:
        return f"{file} is not as you last saw it: {name} changed it since.\n{unseen.difference}"
    return f"{file} has changes of {name} that are in no commit, and you have not read it.\n{unseen.difference}"


async def _end_commands(services: Services, event: HookEvent) -> None:
    """Attribute what commands changed whose end nobody told: those in a skill's text, which the session's next event comes after;
    and those of a batch that is over, whose mod died meanwhile."""
    for use_id in services.runtime.commands_without_end(event.actor, event.calls):
        remarks = await shell_watch.after(services, replace(event, use_id=use_id), _policy(services))
        if remarks:
            text, at = "\n".join(remarks), iso(services.now())
            await services.store.write(session_rows.notify, session_id=event.actor, text=text, at=at)


async def _after_tool(services: Services, event: HookEvent) -> Payload:
    unguarded = services.runtime.came_unannounced(event.actor, event.use_id)
    remarks: list[str] = []
    if event.is_shell:
        if not is_read_only(event.command):
            await services.work(lambda: services.of(Guardian).announce(event.cwd, event.actor))
        remarks = await shell_watch.after(services, event, _policy(services))
    now, policy = services.now(), _policy(services)
    has_written = event.name == "PostToolUse"  # an attempt that failed has neither written nor seen anything
    targets = targets_of(services, event) if event.is_edit and event.path else []
    if targets:
        editor = services.runtime.last_editor(targets[0].checkout, targets[0].key.match_key, event.actor)
        for target in targets:
            services.runtime.edited(target.checkout, target.key.match_key, event.actor, now if has_written else None)
        if has_written:
            remarks += filter(None, [await _blind_write(services, event, targets[0], editor)])
            await services.work(lambda: services.last_seen.saw(event.actor, Path(event.cwd, event.path)))

    def finish(conn: Connection, me: Holder) -> Payload:
        _guarded(conn, event, unguarded, now)
        violations = (verdicts.after_edit(conn, me, target, policy, now) for target in targets if has_written)
        texts = [*remarks, *filter(None, violations)]
        if event.recipient and has_written:
            _note_native(conn, event, now)
        if event.has_reader:
            return _delivery(services, conn, event, texts)
        if texts:
            session_rows.notify(conn, event.actor, "\n".join(texts), iso(now))
        return {}

    return await _present(services, event, now, finish)


async def _after_batch(services: Services, event: HookEvent) -> Payload:
    """Deliver waiting mail and notices after any tool. Writes only if something waits, or after a long silence."""
    now = services.now()
    for read in event.reads:
        await services.work(partial(services.last_seen.saw, event.actor, Path(event.cwd, read)))

    def is_due(conn: Connection) -> bool:
        row = session_rows.get(conn, event.actor)
        silent = row is None or row["last_heartbeat"] < after(now, -HEARTBEAT_S)
        return silent or message_rows.anything_waits(conn, event.actor)

    if not await services.store.read(is_due):
        return {}
    return await _present(services, event, now, lambda conn, _me: _delivery(services, conn, event))


def _follows_another(services: Services, event: HookEvent) -> bool:
    """Whether another session wrote the file of an edit last: its end may tell what this one had not seen."""
    me = (None, event.actor, event.parent)
    places = ((target.checkout, target.key.match_key) for target in targets_of(services, event))
    return any(services.runtime.last_editor(*place, event.actor) not in me for place in places)


def _is_quiet(conn: Connection, event: HookEvent) -> bool:
    """Whether nothing waits for the model of an event."""
    return event.has_reader and not message_rows.anything_waits(conn, event.actor)


def _delivery(services: Services, conn: Connection, event: HookEvent, remarks: Sequence[str] = ()) -> Payload:
    """Notices and mail that wait for the session of an event, each once, before the remarks; its person sees who wrote."""
    if _is_late(services, event):
        return hook_events.context(event.name, [*remarks])
    at = event.came_at
    notices = session_rows.take_notices(conn, event.actor, iso(at))
    mail, heads = mailing.deliver_with_heads(conn, event.actor, MailWay.HOOK, at)
    return on_screen.show(hook_events.context(event.name, [*notices, *mail, *remarks]), heads)


def _is_late(services: Services, event: HookEvent) -> bool:
    """Whether deliveries wait: for the next answer, as the bridge may have given up on this one; or for the mod that has them."""
    now = services.now()
    return now - event.came_at > LATE or services.mods.brings_mail(event.actor, now)


def _note_native(conn: Connection, event: HookEvent, now: datetime) -> None:
    """The client's own mail between sessions, beside Corral's: to whom, and about what."""
    to, summary = event.recipient[:200], event.summary[:200]
    events.record(conn, now, EventKind.MESSAGE_NATIVE({"to": to, "summary": redact(summary)}), session_id=event.actor)


def _guarded(conn: Connection, event: HookEvent, unguarded: bool, now: datetime) -> None:
    session = event.parent or event.actor
    row = session_rows.get(conn, session)
    if row is None:
        return
    if unguarded and event.is_edit:
        session_rows.change(conn, session, {"unguarded_since_at": row["unguarded_since_at"] or iso(now)})
    elif row["unguarded_since_at"] is not None and not unguarded:
        session_rows.change(conn, session, {"unguarded_since_at": None})


# -- the life of a session


async def _session_start(services: Services, event: HookEvent) -> Payload:
    """Register and brief a session; its first prompt does it where the start was missed, by a daemon slow to come up."""
    now = services.now()
    services.of(Guardian).meet(event.cwd)
    newcomer = arrival(services, event)
    behind = await services.work(lambda: services.of(Worktrees).commits_behind(newcomer.cwd))
    resumed = event.transcript_path if event.source == "resume" else None
    answered_at = await services.work(lambda: transcripts.answered_at(resumed))
    twice = [
        f"this session is open in another client too (process {pid}). To Corral the two are one: neither is refused what the "
        f"other edits. `claude --resume {event.actor} --fork-session` goes on as another session."
        for pid in _other_clients(services, event)[:1]
    ]

    def begin(conn: Connection) -> Payload:
        session_end.put_back_unanswered(conn, event.actor, answered_at, now)  # its client may have been killed just now
        me = session_end.arrive(conn, newcomer, now, services.offer_again)
        _note_prompt(conn, event, me["task_id"])
        if event.begins_at_rest and me["task_id"] is None:
            session_rows.change(conn, event.actor, {"status": SessionStatus.IDLE})
        others = [row for row in session_rows.live(conn) if row["session_id"] != event.actor]
        held = [row for row in lock_rows.listing(conn, iso(now)) if row["session_id"] != event.actor]
        notices = [*twice, *([line] if (line := mailing.waits(conn, event.actor)) else [])]
        if not _is_late(services, event):
            notices += session_rows.take_notices(conn, event.actor, iso(event.came_at))
        target = services.settings.target().removeprefix("refs/heads/")
        text = briefing(me, others, held, target=target, behind=behind, notices=notices, handoff=for_newcomer(conn, me))
        return on_screen.show(hook_events.context(event.name, [text]), [*on_screen.greeting(event, me, others), *twice])

    response = await services.store.write(begin)
    await_bridge(services, event, now)
    services.nudge("supervisor")  # what an earlier session of the same process held is free now
    return response


async def _keep(services: Services, event: HookEvent, why: str, patience_s: float) -> tuple[str, str | None]:
    """Save the worktree of an event; after that time the answer goes out, and the saving on.

    Returns:
        Why it is not saved, empty: it is; and a line about ignored files that are not.
    """
    if not event.cwd:
        return "", None
    saving = asyncio.ensure_future(services.work(lambda: services.of(Guardian).before_release(Path(event.cwd), why)))
    await asyncio.wait({saving}, timeout=patience_s)
    if not saving.done():
        return f"What is in {event.cwd} is still being saved; try again in a moment.", None
    lost = None
    try:
        saved = saving.result()
        problem, lost = saved.problem, not_saved(saved.left_out)
    except Exception as error:  # the edge: whatever it is, nothing was saved
        log.exception("not_saved", worktree=event.cwd)
        problem = str(error) or type(error).__name__
    return f"What is in {event.cwd} could not be saved: {problem}" if problem else "", lost


def _other_clients(services: Services, event: HookEvent) -> Sequence[int]:
    """The clients that have the session of an event open, besides the one that it comes from."""
    others = (pid for pid in services.runtime.clients_of(event.actor) if event.client_pid not in (None, pid))
    return [pid for pid in others if is_running(pid, None)]


async def _session_end(services: Services, event: HookEvent) -> Payload:
    """A session is over with its client, unless another one has it open too (``claude --resume`` in a second terminal)."""
    others = _other_clients(services, event)
    if len(others) > 0 and await services.store.write(session_registry.pass_on, session_id=event.actor, clients=others):
        return {}
    await _keep(services, event, "its session ended", AT_THE_END_S)
    now = services.now()
    path = event.transcript_path or None
    last_words, answered_at = await services.work(lambda: (transcripts.last_words(path), transcripts.answered_at(path)))

    def over(conn: Connection) -> None:
        if (row := session_rows.get(conn, event.actor)) is not None and row["status"] == SessionStatus.ACTIVE:
            session_end.put_back_unanswered(conn, event.actor, answered_at, now)
        if last_words:
            session_rows.change(conn, event.actor, {"last_words": redact(last_words)})
        session_end.end(conn, event.actor, event.reason or "ended", now, services.offer_again)

    await services.store.write(over)
    services.mods.ended(event.actor)
    services.last_seen.forget(event.actor)
    services.nudge("supervisor")
    return {}


async def _prompt(services: Services, event: HookEvent) -> Payload:
    services.of(Guardian).meet(event.cwd)
    if event.parent is None and await services.store.read(session_rows.get, event.actor) is None:
        return await _session_start(services, event)

    def begin(conn: Connection, me: Holder) -> Payload:
        _note_prompt(conn, event, me.task_id)
        return _delivery(services, conn, event)

    return await _present(services, event, services.now(), begin)


def _note_prompt(conn: Connection, event: HookEvent, task_id: str | None) -> None:
    if task_id is None and (summary := session_registry.prompt_summary(event.prompt)):
        session_rows.change(conn, event.actor, {"current_task": summary})


async def _stop(services: Services, event: HookEvent) -> Payload:
    """The session rests, unless urgent mail holds it: once for each message, and never twice in a row."""
    now = services.now()
    services.of(Guardian).ended(event.cwd, "a turn ended")

    def rest(conn: Connection, _me: Holder) -> tuple[Payload, bool]:
        if (urgent := _holding(services, conn, event)) is not None:
            return urgent, False
        session_registry.rest(conn, event.actor, now, last_words=event.last_words[:4000] or None)
        return {}, message_rows.anything_waits(conn, event.actor)

    response, something_waits = await _present(services, event, now, rest)
    if something_waits:  # a waiter may have looked before the session was at rest
        services.changes.announce()
    return response


async def _stop_failure(services: Services, event: HookEvent) -> Payload:
    """An API error ended the turn: the session rests as after a Stop; the client ignores the answer."""
    now = services.now()
    services.of(Guardian).ended(event.cwd, "a turn ended")

    def rest(conn: Connection) -> bool:
        if session_rows.beat(conn, event.actor, iso(now)) is None:  # it has ended already
            return False
        session_registry.rest(conn, event.actor, now)
        return message_rows.anything_waits(conn, event.actor)

    if await services.store.write(rest):
        services.changes.announce()
    return {}


def _holding(services: Services, conn: Connection, event: HookEvent) -> Payload | None:
    """The answer that keeps a session from stopping, for urgent mail; its person sees who wrote."""
    if event.held_before or _is_late(services, event):
        return None
    held = mailing.hold(conn, event.actor, event.came_at)
    return on_screen.show(hook_events.hold(held[0]), held[1]) if held is not None else None


async def _waiting(services: Services, event: HookEvent) -> Payload:
    """The session waits for its person: for a permission, or for the next prompt."""
    now = services.now()
    present = presence(services, event, now)

    def wait(conn: Connection) -> Payload:
        before = session_rows.get(conn, event.actor)
        present(conn)
        session_rows.change(conn, event.actor, waits_for_person(before, event, now))
        return {}

    return await services.store.write(wait)


async def _answered(services: Services, event: HookEvent) -> Payload:
    """The person answered what the session's mod had asked; no hook tells of that, and it is no sign of a turn."""
    await services.store.write(session_rows.change, event.actor, {"waiting_for": None})
    return {}


async def _subagent_start(services: Services, event: HookEvent) -> Payload:
    now, newcomer = services.now(), arrival(services, event)
    services.of(Guardian).meet(event.cwd)

    def begin(conn: Connection) -> Payload:
        session_registry.register(conn, newcomer, now)
        return _delivery(services, conn, event)

    return await services.store.write(begin)


async def _subagent_stop(services: Services, event: HookEvent) -> Payload:
    """End the subagent, unless urgent mail holds it: release its worktree, and tell its parent where the work is."""
    parent = event.parent
    if parent is None:
        return {}
    now = services.now()

    def finish(conn: Connection) -> Payload | None:
        urgent = _holding(services, conn, event)
        if urgent is None:
            session_end.end(conn, event.actor, "finished", now, services.offer_again)
        return urgent

    if (urgent := await services.store.write(finish)) is not None:
        return urgent
    await _keep(services, event, "its subagent ended", BEFORE_RELEASE_S)
    for text in await services.work(lambda: _release_worktrees(services, event.actor)):
        await services.store.write(session_rows.notify, session_id=parent, text=text, at=iso(services.now()))
    services.nudge("landing")
    return {}


def _release_worktrees(services: Services, subagent: str) -> list[str]:
    """Release a subagent's worktrees; returns a line for each that has work in it."""
    mine = [row for row in services.of(Worktrees).listing() if row["session_id"] == subagent]
    services.of(Worktrees).release_subagent(subagent)
    lines = []
    for before in mine:
        row = services.db.read(worktree_rows.get, worktree_id=before["worktree_id"]) or before
        tip = refs.read(services.git, refs.branch_ref(required(row["branch"])))
        committed = f" Its branch is {row['branch']}." if tip not in (None, row["base_sha"]) else ""
        saved = f" Its state is saved: `corral worktree recover {row['name']}`." if row["salvage_ref"] else ""
        if row["state"] != WorktreeState.REMOVED:
            why = " ".join(str(row["note"] or "").splitlines())
            lines.append(f"Your subagent's worktree {row['path']} stays. {why}")
        elif committed or saved or row["note"]:
            lost = f" {row['note']}" if row["note"] else ""
            lines.append(
                f"Your subagent's worktree {row['path']} was taken back when it ended.{committed}{saved}{lost}"
            )
    return lines


async def _worktree_create(services: Services, event: HookEvent) -> Payload:
    """Give the client a worktree of ours; the path is what it asked for. The same request twice is given the same one."""
    try:
        worktree = await _give_worktree(services, event)
    except CorralError as error:
        return {"systemMessage": working_copies.why(error)}
    return {"hookSpecificOutput": {"hookEventName": "WorktreeCreate", "worktreePath": worktree["path"]}}


async def _vcs_isolate(services: Services, event: HookEvent) -> Payload:
    """The same for a mod: the worktree, or why there is none, in words that the client shows."""
    try:
        return working_copies.given(await _give_worktree(services, event))
    except CorralError as error:
        return working_copies.refused(error)


async def _give_worktree(services: Services, event: HookEvent) -> Payload:
    now, name = services.now(), event.worktree_name.replace("/", "-")
    subagent = event.owner or (name.removeprefix(OF_SUBAGENT) if name.startswith(OF_SUBAGENT) else None)
    owner = subagent or event.actor

    def arrive(conn: Connection, _me: Holder) -> None:
        if subagent is not None:  # the client announces the subagent only after its worktree exists
            session_registry.alive(conn, Arrival(subagent, "subagent", parent_session_id=event.actor), now)

    await _present(services, event, now, arrive)
    async with services.creation_locks.setdefault((owner, name), asyncio.Lock()):
        return await services.work(lambda: services.of(Worktrees).create(name, session_id=owner, base=None))


async def _worktree_remove(services: Services, event: HookEvent) -> Payload:
    """Take a worktree back: salvaged first. The session is told of one that stays; the client shows no answer to this hook."""
    stays, lost = await services.work(
        lambda: services.of(Worktrees).give_back(Path(event.worktree_path), {event.actor, event.session_id})
    )
    if outcome := stays or lost:
        became = "not removed" if stays else "removed"
        text = f"The worktree {event.worktree_path} was {became}. {' '.join(outcome.splitlines())}"
        at = iso(services.now())
        await services.store.write(session_rows.notify, session_id=event.actor, text=text, at=at)
    services.nudge("landing")
    return {"systemMessage": outcome} if outcome else {}


async def _sign_of_life(services: Services, event: HookEvent) -> Payload:
    await services.store.write(presence(services, event, services.now()))
    return {}


_HANDLERS: dict[str, Handler] = {
    "SessionStart": _session_start,
    "SessionEnd": _session_end,
    "UserPromptSubmit": _prompt,
    "PreToolUse": _before_tool,
    SKILL_SHELL: _before_tool,
    "PostToolUse": _after_tool,
    "PostToolUseFailure": _after_tool,
    "PostToolBatch": _after_batch,
    "SubagentStart": _subagent_start,
    "SubagentStop": _subagent_stop,
    "Stop": _stop,
    "StopFailure": _stop_failure,
    "Notification": _waiting,
    "PermissionRequest": _waiting,
    "ModAsked": _answered,
    "WorktreeCreate": _worktree_create,
    "WorktreeRemove": _worktree_remove,
    "VcsIsolate": _vcs_isolate,
    "VcsStatus": working_copies.status,
    "VcsRelease": working_copies.release,
}
