"""Needs of a person for work to land: held, returned and unverified requests, red and paused targets, failed tasks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from sqlalchemy import Connection

from corral.config.trust import LANDING
from corral.core.errors import NotTrusted
from corral.core.instants import iso, parse
from corral.core.needs import MOST_OF_A_KIND, Need, rest
from corral.core.outcomes import NEEDS_APPROVAL
from corral.core.remedies import remedy_in
from corral.core.states import MergeState
from corral.git.land.landing import RESTS
from corral.git.land.upstream import AGAIN
from corral.landing.land import LONGEST_UNREST
from corral.landing.pauses import freeze_in_words, red_tips
from corral.landing.queue import Queue
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.store.rows.tasks import FailedTask
from corral.work.merges.store import freezes, merges, pauses, remotes
from corral.work.merges.wire import needs_approval, outcome_of, waits_for_red_target
from corral.work.tasks.store import outcomes

_RULE = re.compile(r" ?[_=-]{5,}")
"""As test runners draw around a heading."""
_ERROR = re.compile(r"^ *(\w*(?:Error|Exception): .+)$", re.MULTILINE)
"""The line of an output that names the error, as many languages print it."""

if TYPE_CHECKING:
    from corral.coordination.services import Services


def held_merges(services: Services, conn: Connection) -> Iterator[Need]:
    """Requests that wait for their target's checkout, or for an approval; what holds them and is a need itself stands once."""
    reasons = {row["reason"] for row in remotes.every(conn).values()}
    of_trust = (
        {NotTrusted.default_remedy} if any(claim.key in LANDING for claim in services.settings.untrusted()) else {}
    )
    for row in merges.in_state(conn, MergeState.HELD):
        condition = remedy_in(required(row["reason"]))
        if waits_for_red_target(row) or row["reason"] in reasons or condition in of_trust:
            continue
        if required(row["reason"]).endswith(RESTS) and services.now() - parse(row["updated_at"]) < LONGEST_UNREST:
            continue  # a moment later it lands, or says what else is in its way
        approval, merge, reason = needs_approval(row), row["merge_id"][:8], _first_line(row["reason"])
        because = reason.removeprefix(NEEDS_APPROVAL).lstrip(": ")
        look = (
            f"{condition.rstrip('.')}. It lands by itself then."
            if condition
            else f"It lands by itself then; more: corral merge detail {merge}"
        )
        yield Need(
            "merge_approval" if approval else "held_merge",
            f"{row['title']!r} waits {'for approval, ' if approval else ''}to land on {row['target']}: {because}",
            f"corral merge approve {merge}" if approval else look,
            row["updated_at"],
            _ids(row),
            row["title"],
            because,
        )


def _ids(row: MergeRow) -> dict[str, str]:
    return {"merge_id": row["merge_id"], **({"task_id": row["task_id"]} if row["task_id"] else {})}


def _first_line(text: str | None) -> str:
    return (str(text).splitlines() or [""])[0]


def stuck_checkouts(services: Services, _conn: Connection) -> Iterator[Need]:
    """Checkouts in which a killed landing left a lock that cannot be cleared."""
    for folder, reason in services.of(Queue).stuck_checkouts.items():
        yield Need(
            "stuck_checkout",
            f"A landing that was killed left its lock in {folder}, and it could not be cleared: {reason.rstrip('.')}.",
            f"See what ails it: git -C {shlex.quote(folder)} status. Once that works, the lock goes by itself.",
        )


def rewound_targets(services: Services, _conn: Connection) -> Iterator[Need]:
    """Targets that lost what had landed on them."""
    for rewinds in services.of(Queue).rewinds.open.values():
        for rewind in rewinds:
            ids = {"target": rewind.target, "lost_sha": rewind.lost_sha}
            yield Need("rewound_target", rewind.what, rewind.remedy, iso(rewind.at), ids)


def remote_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    """Remotes that cannot be reached or refuse a push; own commits to be pushed as well; landed commits that are not here yet."""
    for target, row in remotes.every(conn).items():
        ids, waiting = {"target": target}, merges.open_of(conn, target)
        if row["reason"] is not None and waiting:
            what = f"Nothing lands on {target}; {len(waiting)} wait: {_first_line(row['reason'])}"
            again = f"Corral tries again at {row['look_at']}, or now: corral merge retry {waiting[0]['merge_id'][:8]}"
            remedy = remedy_in(row["reason"]).removesuffix(AGAIN).strip()
            yield Need("remote_target", what, f"{remedy} {again}".strip(), row["since_at"], ids)
        if row["ahead"] and waiting:
            yield Need(
                "unpushed_commits",
                f"{target} has {row['ahead']} commit(s) here that {row['remote']} has not: they are pushed with what lands next.",
                f"See them: git log {shlex.quote(target)} --not --remotes={row['remote']}. To keep them back, take them off "
                f"{target}.",
                ids=ids,
            )
        if row["behind_reason"] is not None:
            what = f"What landed on {target} of {row['remote']} is not here yet: {_first_line(row['behind_reason'])}"
            condition = remedy_in(row["behind_reason"])
            condition = f"{condition.rstrip('.')}. " if condition else ""
            yield Need("target_behind", what, f"{condition}It comes by itself then.", ids=ids)


def unpublished_branches(_services: Services, conn: Connection) -> Iterator[Need]:
    """Branches of landed tasks that a remote did not take."""
    for row in remotes.unpublished(conn):
        if row["reason"] is not None:
            what = f"{row['branch']} has landed and is not on {row['remote']}: {_first_line(row['reason'])}"
            look = f"{remedy_in(row['reason'])} Corral tries again at {row['look_at']}.".strip()
            yield Need("unpublished_branch", what, look, ids={"merge_id": row["merge_id"]}, title=row["title"])


def frozen_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    """Targets on which a person lets nothing land."""
    for target, row in freezes.frozen(conn).items():
        waiting = len(merges.open_of(conn, target))
        what, _, remedy = freeze_in_words(row).partition(" To go on: ")
        yield Need(
            "frozen_target",
            f"{what}{f' {waiting} wait.' if waiting else ''}",
            remedy,
            row["since_at"],
            {"target": target},
        )


def _in_a_line(reason: str) -> str:
    """The failure, and the line of its output that names the error, or else the first line."""
    what, _, output = reason.strip().partition("\n")
    line = (_ERROR.findall(output) or output.split("\n"))[-1 if _ERROR.search(output) else 0]
    return _RULE.sub("", " ".join(f"{what} {line}".split()))


def red_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    """A red target once, however many wait for it."""
    by_commits = red_tips(conn)
    for target, tip in by_commits.items():
        waiting = len(merges.open_of(conn, target))
        reason = _in_a_line(required(tip["reason"]))
        yield Need(
            "red_target",
            f"Nothing lands on {target}{f'; {waiting} wait' if waiting else ''}: {reason}",
            f"Repair {target}: a commit there, or a request that is submitted now, is verified first. If it was chance: "
            f"corral merge thaw {shlex.quote(target)}",
            tip["seen_at"],
            {"target": target},
        )
    red: dict[str, MergeRow] = {}
    for row in merges.in_state(conn, MergeState.HELD):
        if waits_for_red_target(row) and row["target"] not in by_commits:
            red.setdefault(row["target"], row)
    for target, row in red.items():
        waiting, merge = len(merges.open_of(conn, target)), row["merge_id"][:8]
        yield Need(
            "red_target",
            f"{target} itself fails its verification, so nothing lands on it; {waiting} wait. "
            + _in_a_line(required(row["reason"]).split("without this change.", 1)[-1]),
            f"If it passes in your checkout, a fresh worktree lacks something: corral doctor --verify says what. Else fix "
            f"{target}: a request that is submitted now is tried first. Then: corral merge retry {merge}. "
            f"Its output: corral merge log {merge} --run control",
            row["updated_at"],
            {"target": target, "merge_id": row["merge_id"]},
        )


def failures(conn: Connection) -> Iterator[Need]:
    """Failed tasks and returned merges, until they are tried again, land another way, or are dismissed."""
    return _needs_of(outcomes.failed_tasks(conn), outcomes.returned_requests(conn))


def first_failures(conn: Connection) -> Iterator[Need]:
    """The first of each outcome, and one that stands for the rest: thousands may be open, and every view asks for them."""
    yield from _needs_of(outcomes.failed_tasks(conn, MOST_OF_A_KIND), outcomes.returned_requests(conn, MOST_OF_A_KIND))
    numbers = {"failed_task": outcomes.count_failed(conn), "returned_merge": outcomes.count_returned(conn)}
    for kind, by_outcome in numbers.items():
        for outcome, number in by_outcome.items():
            if number > MOST_OF_A_KIND:
                yield rest(kind, outcome, number - MOST_OF_A_KIND)


def _needs_of(failed_tasks: list[FailedTask], returned: list[MergeRow]) -> Iterator[Need]:
    for failed in failed_tasks:
        task, advice = failed["task_id"][:8], remedy_in(str(failed["error_message"]))
        look, reason = (advice or f"corral task logs {task}").rstrip("."), _first_line(failed["error_message"])
        of_loop = f"corral loop history {task}; then corral loop resume {task}, or corral loop land {task}"
        yield Need(
            "failed_task",
            f"{failed['title']!r} is {failed['status']}: {reason}",
            f"{of_loop if failed['is_loop'] else f'{look}; then corral task retry {task}'}, or corral merge dismiss {task}",
            failed["completed_at"],
            {"task_id": failed["task_id"]},
            failed["title"],
            reason,
            failed["status"],
        )
    for row in returned:
        merge, reason = row["merge_id"][:8], _first_line(row["reason"])
        yield Need(
            "returned_merge",
            f"{row['title']!r} did not land on {row['target']}: {reason}",
            f"{_repair(row)} Or: corral merge dismiss {merge}",
            row["finished_at"],
            _ids(row),
            row["title"],
            _conflicting_paths(row) or reason,
            outcome_of(row),
        )


def _conflicting_paths(row: MergeRow) -> str:
    return ", ".join(f"{item['path']} ({item['kind']})" for item in row["conflicts"] or ())


def _repair(row: MergeRow) -> str:
    """The commands that repair a returned request; none of them touches the person's own checkout."""
    merge = row["merge_id"][:8]
    if row["state"] == MergeState.CONFLICT:
        return f"corral merge open {merge}: resolve it there and commit; on exit it is submitted again."
    return (
        f"corral merge log {merge}; then corral merge open {merge}: correct it there and commit. "
        f"If it was chance: corral merge retry {merge}."
    )


def paused_targets(_services: Services, conn: Connection) -> Iterator[Need]:
    """Targets whose verifications or landings fail for a reason that says nothing about the changes."""
    for target, row in pauses.paused(conn).items():
        waiting = merges.open_of(conn, target)
        yield Need(
            "paused_target",
            f"Nothing lands on {target}; {len(waiting)} wait: {row['reason'].splitlines()[0]}",
            f"Fix that; Corral looks again at {row['look_at']}, or now: corral merge retry {waiting[0]['merge_id'][:8]}",
            row["since_at"],
            {"target": target, "merge_id": waiting[0]["merge_id"]},
        )


def unverified_merges(_services: Services, conn: Connection) -> Iterator[Need]:
    """Requests that were tried again and again without a verdict, unless the target is the cause."""
    paused = pauses.paused(conn)
    for row in merges.in_state(conn, MergeState.QUEUED):
        if row["tries"] >= pauses.PAUSE_AFTER and row["target"] not in paused:
            why = row["reason"] or f"{row['tries']} tries ended without a verdict"  # a stop stores no reason
            yield Need(
                "unverified_merge",
                f"{row['title']!r} cannot be verified: {_first_line(why)}",
                remedy_in(why) or f"corral merge detail {row['merge_id'][:8]}",
                row["updated_at"],
                _ids(row),
                row["title"],
                _first_line(why),
            )
