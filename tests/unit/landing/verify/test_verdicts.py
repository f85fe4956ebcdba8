"""Which green receipt of a tree counts for a request."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any

from sqlalchemy import Connection

from corral.core.states import ReceiptStatus
from corral.landing.verify.verification_receipts import green_of
from corral.store.rows.merges import ReceiptRow
from corral.work.merges.store import receipts

NOW = datetime(2026, 1, 2, tzinfo=timezone.utc)
DAY_S = 86_400


def _receipt(conn: Connection, status: ReceiptStatus, hours_ago: float, **values: Any) -> ReceiptRow:
    at, code = NOW - timedelta(hours=hours_ago), 0 if status is ReceiptStatus.PASSED else 1
    return receipts.add(conn, tree="t", fingerprint="f", status=status, now=at, exit_code=code, **values)


def _green(conn: Connection, own: ReceiptRow | None = None, fingerprint: str = "f") -> str | None:
    row = green_of(conn, "t", fingerprint, own["receipt_id"] if own else None, DAY_S, NOW)
    return row["receipt_id"] if row else None


def test_a_green_one_counts_for_others_as_long_as_it_is_young_and_nothing_later_was_red(
    any_database: Connection,
) -> None:
    green = _receipt(any_database, ReceiptStatus.PASSED, 25)
    assert _green(any_database) is None and _green(any_database, green) is None, "a day is over"
    young = _receipt(any_database, ReceiptStatus.PASSED, 23)
    assert _green(any_database) == young["receipt_id"]
    assert _green(any_database, fingerprint="another") is None
    red = _receipt(any_database, ReceiptStatus.FAILED, 2)
    assert _green(any_database) is None, "the tree is known to be red"
    assert _green(any_database, young) == young["receipt_id"], "its own run is what it was judged by"
    again = _receipt(any_database, ReceiptStatus.PASSED, 1)
    assert _green(any_database, red) == again["receipt_id"]


def test_of_another_request_none_counts_that_took_from_the_checkout_or_whose_age_cannot_be_told(
    any_database: Connection,
) -> None:
    taken = {"included": [{"path": ".env", "sha256": "1"}]}
    copied = _receipt(any_database, ReceiptStatus.PASSED, 2, inputs=taken)
    assert (_green(any_database), _green(any_database, copied)) == (None, copied["receipt_id"])
    later = _receipt(any_database, ReceiptStatus.PASSED, -5)
    assert (_green(any_database), _green(any_database, later)) == (None, later["receipt_id"])
