"""Receipts as evidence about a request whose candidate was not green; :mod:`corral.landing.verify.blame` weighs it."""

from __future__ import annotations

from sqlalchemy import Connection

from corral.landing.verify.blame import Run, Step, weigh
from corral.models.states import ReceiptStatus
from corral.store.merges import receipts
from corral.store.rows.merges import MergeRow, ReceiptRow


def of_candidate(conn: Connection, first: ReceiptRow, target_tree: str) -> tuple[Step, ReceiptRow | None]:
    """The conclusion from a candidate's receipt that is not green, and the target's receipt that says so.

    Args:
        first: The receipt, ``failed`` or ``error``.
        target_tree: The tree of the target without the change.
    """
    green = receipts.latest(conn, target_tree, first["fingerprint"], ReceiptStatus.PASSED)
    red = receipts.latest(conn, target_tree, first["fingerprint"], ReceiptStatus.FAILED)
    step = weigh(_run(first), _maybe(green), _maybe(red))
    return step, green if step in (Step.RETURN, Step.RUN_AGAIN) else red


def of_second_run(conn: Connection, merge: MergeRow, control_id: str | None, second: ReceiptRow) -> str | None:
    """Why a request comes back whose candidate has ended without a verdict again; None if there is no proof against it.

    Args:
        control_id: The receipt of the target without the change, made between the two runs.
        second: The receipt of the second run.
    """
    first, control = receipts.get(conn, merge["receipt_id"]), receipts.get(conn, control_id)
    if first is None or control is None:
        return None
    if weigh(_run(first), _run(control), None, _run(second)) is not Step.RETURN:
        return None
    passed = f"{merge['target']} without it passed in {control['duration_s']:.1f} s"
    return f"{second['reason']}\nThat happened twice, while {passed}. Log: {second['log']}"


def _run(receipt: ReceiptRow) -> Run:
    return Run(ReceiptStatus(receipt["status"]), receipt["created_at"])


def _maybe(receipt: ReceiptRow | None) -> Run | None:
    return _run(receipt) if receipt is not None else None
