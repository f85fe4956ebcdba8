"""The verifications that ran for a request, and which of them decided.

A run that ended has a receipt, which names its log. A red one that was repeated, one that runs now, and one that ended without
an outcome (its daemon died, its request was cancelled) have a log alone, whose first line says what it is of.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sqlalchemy import Connection

from corral.config.paths import Project
from corral.core.errors import InvalidInput, NotFound
from corral.core.states import OPEN_MERGES, MergeState, ReceiptRole
from corral.landing.verify import run_logs
from corral.store.protocol import Store
from corral.store.rows.merges import MergeRow, ReceiptRow, VerificationRunRow
from corral.work.merges.store import of_tasks, receipts
from corral.work.merges.store import runs as verifications
from corral.work.merges.wire import MergeRun

RUNNING, REPEATED, UNKNOWN = "running", "repeated", "unknown"


def listing(conn: Connection, project: Project, merge: MergeRow) -> list[MergeRun]:
    """The runs of a request, oldest first; the one that decided it last if that ran for another request with the same tree."""
    deciding = receipts.get(conn, merge["receipt_id"])
    by_id = {row["receipt_id"]: row for row in receipts.of_merge(conn, merge["merge_id"])}
    if deciding is not None:
        by_id[deciding["receipt_id"]] = deciding
    logs = run_logs.files(project, merge["merge_id"])
    by_log = {_path(project, row): row for row in by_id.values() if row["log"]}
    newest = max(logs, default=0)
    runs = []
    for number, log in logs.items():
        receipt = by_log.get(log)
        runs_now = receipt is None and number == newest and merge["state"] == MergeState.VERIFYING
        if receipt is not None:
            del by_id[receipt["receipt_id"]]
        runs.append(_run(project, merge, number, log, receipt, RUNNING if runs_now else UNKNOWN))
    ran = verifications.of_merge(conn, merge["merge_id"])
    runs = [run.model_copy(update={"status": REPEATED}) if _is_repeated(run, runs, ran) else run for run in runs]
    others = sorted(by_id.values(), key=lambda row: row["created_at"])
    return runs + [_run(project, merge, None, _path(project, row), row, UNKNOWN) for row in others]


def _is_repeated(run: MergeRun, runs: Sequence[MergeRun], ran: Sequence[VerificationRunRow]) -> bool:
    """Whether a run without a receipt was red, and the verification that it began ran the same again."""
    began = run.started_at
    if run.status != UNKNOWN or began is None:
        return False
    again = [other.started_at or "" for other in runs if (other.commit_sha, other.role) == (run.commit_sha, run.role)]
    return any(
        row["commit_sha"] == run.commit_sha
        and row["started_at"] <= began
        and any(began < at and (row["ended_at"] is None or at <= row["ended_at"]) for at in again)
        for row in ran
    )


def chosen(conn: Connection, project: Project, merge: MergeRow, named: str | None = None) -> MergeRun | None:
    """One run of a request.

    Args:
        named: A number, or a role such as ``control`` (the last of it); None: the one that runs now, else the one that
            decided, else the last.

    Returns:
        None if nothing ran.

    Raises:
        NotFound: There is no such run.
        InvalidInput: ``named`` is none of these.
    """
    runs = listing(conn, project, merge)
    if named is None:
        ways = (lambda run: run.status == RUNNING, lambda run: run.decided, lambda run: run.number is not None)
        return next((run for way in ways for run in reversed(runs) if way(run)), None)
    if named in ReceiptRole.values():
        matching = [run for run in runs if run.role == named]
    elif named.isdecimal() and len(named) < 10:
        matching = [run for run in runs if run.number == int(named)]
    else:
        kinds = ", ".join(ReceiptRole.values())
        raise InvalidInput(f"{named[:40]!r} is no run.", remedy=f"Give the number of a run, or: {kinds}.")
    if not matching:
        short = merge["merge_id"][:8]
        what = f"no {named} run" if named in ReceiptRole.values() else f"no run {named}"
        raise NotFound(
            f"Merge request {short} has {what}.",
            cause="It was not verified as often, or not in that way.",
            remedy=f"`corral merge runs {short}` lists its runs.",
        )
    return matching[-1]


def find(db: Store, project: Project, merge_id: str, named: str | None = None) -> MergeRun | None:
    """The same for a request by its id, the beginning of it, or its task's id or number.

    Raises:
        NotFound: No such merge request, or no such run.
        InvalidInput: ``named`` is no run.
    """
    return show(db, project, merge_id, named).run


@dataclass(frozen=True)
class Shown:
    """One run of a request.

    Attributes:
        run: None if nothing ran.
        is_open: Whether the request is open, so that there may be more.
        following: The run to follow once this one is over: the next one, or if the request has ended the one that decided it.
    """

    run: MergeRun | None
    is_open: bool
    following: MergeRun | None


def show(db: Store, project: Project, merge_id: str, named: str | None = None) -> Shown:
    """Like :func:`find`, for a client that follows the log."""

    def read(conn: Connection) -> Shown:
        merge = of_tasks.named(conn, merge_id)
        run, is_open = chosen(conn, project, merge, named), merge["state"] in OPEN_MERGES
        return Shown(run, is_open, _following(conn, project, merge, run, is_open) if run is not None else None)

    return db.read(read)


def _following(conn: Connection, project: Project, merge: MergeRow, shown: MergeRun, is_open: bool) -> MergeRun | None:
    if shown.number is None:
        return None
    later = [run for run in listing(conn, project, merge) if run.number is None or run.number > shown.number]
    return next((run for run in later if run.decided or (is_open and run.number is not None)), None)


def log_of(project: Project, run: MergeRun) -> Path | None:
    """The log of a run; None: it has none, or the log is gone."""
    path = project.root / run.log if run.log else None
    return path if path is not None and path.is_file() else None


def begins_at(log: Path) -> int:
    """The offset of the commands' output, behind the heading, which :mod:`corral.core.run_heading` repeats."""
    heading = run_logs.heading(log)
    return heading.length if heading is not None else 0


def _path(project: Project, receipt: ReceiptRow) -> Path | None:
    # A receipt names its log relative to the root, where it lies within.
    return project.root / receipt["log"] if receipt["log"] else None


def _run(
    project: Project, merge: MergeRow, number: int | None, log: Path | None, receipt: ReceiptRow | None, status: str
) -> MergeRun:
    heading = run_logs.heading(log) if log is not None else None
    role = (receipt["role"] if receipt else None) or (heading.role if heading else None)
    ran_for = (receipt["merge_id"] if receipt else None) or (merge["merge_id"] if number is not None else None)
    path = str(log.relative_to(project.root)) if log is not None and log.is_relative_to(project.root) else log
    return MergeRun(
        number=number,
        merge_id=ran_for,
        is_own=ran_for == merge["merge_id"],
        decided=receipt is not None and receipt["receipt_id"] == merge["receipt_id"],
        role=role or UNKNOWN,
        commit_sha=(receipt["commit_sha"] if receipt else None) or (heading.commit_sha if heading else None),
        commands=receipt["commands"] if receipt else [],
        status=receipt["status"] if receipt else status,
        exit_code=receipt["exit_code"] if receipt else None,
        reason=receipt["reason"] if receipt else None,
        started_at=heading.started_at if heading else None,
        ended_at=receipt["created_at"] if receipt else None,
        log=str(path) if path is not None else None,
        is_kept=log is not None and log.is_file(),
    )
