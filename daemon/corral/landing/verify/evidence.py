"""Receipts as evidence about a request whose candidate was not green; :mod:`corral.landing.verify.blame` weighs it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from sqlalchemy import Connection

from corral.core.inputs import taken_from_checkout
from corral.core.instants import in_words, parse
from corral.core.remedies import with_remedy
from corral.core.states import ReceiptStatus
from corral.landing.verify.blame import Run, Step, is_control, weigh
from corral.store.rows.merges import MergeRow, ReceiptRow
from corral.work.merges.store import receipts, runs


def of_candidate(
    conn: Connection, first: ReceiptRow, target_tree: str, max_age_s: float, now: datetime
) -> tuple[Step, ReceiptRow | None]:
    """The conclusion from a candidate's receipt that is not green, and the target's receipt that says so.

    Args:
        first: The receipt, ``failed`` or ``error``, under the fingerprint of this moment.
        target_tree: The tree of the target without the change.
        max_age_s: See :func:`corral.landing.verify.blame.is_control`.
    """
    green = receipts.latest(conn, target_tree, first["fingerprint"], ReceiptStatus.PASSED)
    if green is not None and not (
        is_control(_run(green), _run(first), max_age_s, now)
        and _had_the_same(green, first)
        and _in_its_slot(conn, green, first)
    ):
        green = None
    red = receipts.latest(conn, target_tree, first["fingerprint"], ReceiptStatus.FAILED)
    step = weigh(_run(first), _maybe(green), _maybe(red))
    return step, green if step in (Step.RETURN, Step.RUN_AGAIN) else red


def against(first: ReceiptRow, control: ReceiptRow, target: str, tip_sha: str) -> str:
    """Why a request comes back whose candidate was red: how it failed, and which run of the target passed without it."""
    tip = tip_sha[:12]
    as_commit = f" (as {control['commit_sha'][:12]})" if control["commit_sha"] not in (None, tip_sha) else ""
    seconds = (parse(first["created_at"]) - parse(control["created_at"])).total_seconds()
    when = f"{in_words(abs(seconds))} {'before' if seconds >= 0 else 'after'} the failure"
    return (
        f"{first['reason']}\nLog: {first['log']}\n"
        f"{target} at {tip}{as_commit} without it passed, {when}: {describe(control)}"
    )


def describe(control: ReceiptRow) -> str:
    """When a run of the target without a change was, and where its output is."""
    at = control["created_at"]
    return f"control run of {at}, receipt {control['receipt_id'][:8]}, log: {control['log']}"


def of_second_run(conn: Connection, merge: MergeRow, control_id: str | None, second: ReceiptRow) -> str | None:
    """Why a request comes back whose candidate has ended without a verdict again; None if there is no proof against it.

    Args:
        control_id: The receipt of the target without the change, made between the two runs.
        second: The receipt of the second run.
    """
    control = _between(conn, merge, control_id, second)
    if control is None or not _met(_slots(conn, merge, control, second)):
        return None
    passed = (
        f"{merge['target']} without it passed in {control['duration_s']:.1f} s between the two ({describe(control)})"
    )
    return f"{second['reason']}\nThat happened twice, while {passed}. Log of the second time: {second['log']}"


def of_other_slots(
    conn: Connection, merge: MergeRow, control_id: str | None, second: ReceiptRow, folder: Path
) -> str | None:
    """Why the same two runs prove nothing: the target ran in another slot than both, so that it may be a slot that fails.

    Args:
        folder: The worktree of the second run.
    """
    control = _between(conn, merge, control_id, second)
    if control is None or _met(slots := _slots(conn, merge, control, second)):
        return None
    first_slot, control_slot, second_slot = (f"slot {slot}" if slot else "a slot" for slot in slots)
    reason = (
        f"it met this in {first_slot} and in {second_slot}, while {merge['target']} without it passed in {control_slot}, "
        f"so it may be the slot: {second['reason']}"
    )
    remedy = (
        f"If that is not the change's fault, see what is wrong with {folder} (its disk, its permissions, its ports); what is "
        "removed there is made again. It is tried again by itself, in another slot if one is free."
    )
    return with_remedy(reason, remedy)


def _between(conn: Connection, merge: MergeRow, control_id: str | None, second: ReceiptRow) -> ReceiptRow | None:
    """The green run of the target between two runs of a candidate without a verdict; None: there is none."""
    first, control = receipts.get(conn, merge["receipt_id"]), receipts.get(conn, control_id)
    if first is None or control is None:
        return None
    is_against = weigh(_run(first), _run(control), None, _run(second)) is Step.RETURN
    return control if is_against else None


def _slots(conn: Connection, merge: MergeRow, control: ReceiptRow, second: ReceiptRow) -> list[int | None]:
    """The slots of the first run, of the control and of the second run; None: it is not remembered."""
    ids = [str(merge["receipt_id"]), control["receipt_id"], second["receipt_id"]]
    slot_of = runs.slots(conn, ids)
    return [slot_of.get(receipt_id) for receipt_id in ids]


def _met(slots: Sequence[int | None]) -> bool:
    """Whether the control was in the slot of one of the two."""
    first, control, second = slots
    return control in (first, second)


def _had_the_same(control: ReceiptRow, first: ReceiptRow) -> bool:
    """Whether a control run took the same files from the person's checkout as the candidate, or is younger."""
    taken = taken_from_checkout(control["inputs"]), taken_from_checkout(first["inputs"])
    return taken[0] == taken[1] or control["created_at"] > first["created_at"]


def _in_its_slot(conn: Connection, control: ReceiptRow, first: ReceiptRow) -> bool:
    """Whether a control run was in the candidate's slot, or is younger: red in one slot alone may be the slot's doing."""
    slot_of = runs.slots(conn, [control["receipt_id"], first["receipt_id"]])
    return len(set(slot_of.values())) < 2 or list(slot_of)[-1] == control["receipt_id"]


def _run(receipt: ReceiptRow) -> Run:
    return Run(ReceiptStatus(receipt["status"]), receipt["created_at"])


def _maybe(receipt: ReceiptRow | None) -> Run | None:
    return _run(receipt) if receipt is not None else None
