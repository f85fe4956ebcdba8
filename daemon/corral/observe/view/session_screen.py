"""What a session's mod draws in its terminal: a band of one line, and the queue, the locks, the mail and the needs of a pane."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from typing import Any, cast

from sqlalchemy import Connection

from corral.coordination.locks.store import locks
from corral.coordination.mail.store import mailbox
from corral.coordination.services import Services
from corral.core.instants import iso
from corral.core.needs import count
from corral.core.states import MergeState, ReceiptStatus
from corral.core.visible import one_line
from corral.observe.view.api import ScreenNeed, SessionScreen, Standing
from corral.observe.view.landing_order import queue
from corral.observe.view.needs_you import needs_you
from corral.store.rows.mail import InboxMessage
from corral.work.merges.store import direct_tips, landed, receipts
from corral.work.merges.wire import standing_of

MOST = 12
"""Lines of each kind."""
MOST_NAMED = 3
"""Files that the band names."""
MOST_OF_A_LINE = 200
MOST_OF_A_REMEDY = 600
"""Characters: half a command is none."""


def compose(conn: Connection, services: Services, session_id: str) -> SessionScreen:
    """The screen of a session, of one moment. Reads only: it is no heartbeat."""
    now = services.now()
    target = services.settings.target().removeprefix("refs/heads/")
    held = locks.listing(conn, iso(now), limit=200)
    needs = needs_you(conn, services)
    unread = mailbox.count_unread(conn, session_id)
    is_red = any(need["kind"] == "red_target" and need["ids"].get("target") == target for need in needs)
    standing: Standing = "red" if is_red else "green" if _is_proven(conn, target) else "not verified"
    mine = [short(row["file_path"]) for row in held if row["session_id"] == session_id]
    others = len(held) - len(mine)
    parts = [
        f"{target} is {standing}",
        _named(mine) if mine else "",
        f"others hold {others}" if others else "",
        f"{unread} unread" if unread else "",
        f"{count(needs)} for you" if needs else "",
    ]
    content: dict[str, Any] = {
        "standing": standing,
        "band": " | ".join(filter(None, parts)),
        "queue": [
            short(f"{row['position']}. {row['title']} ({row['branch']}): {row['waits_for']}")
            for row in queue(services, conn, MOST)["queue"]
        ],
        "locks": [short(f"{row['file_path']}  {row['agent_name']}") for row in held[:MOST]],
        "mail": [
            short(f"{row['sender_name']}: {row['subject']} ({row['state']})")
            for row in cast("Iterator[InboxMessage]", mailbox.inbox(conn, session_id, limit=MOST))
        ],
        "needs": [
            ScreenNeed(
                what=short(need["what"]),
                remedy=short(need["remedy"], MOST_OF_A_REMEDY),
                merge_id=need["ids"].get("merge_id") if need["kind"] == "merge_approval" else None,
            )
            for need in needs[:MOST]
        ],
    }
    return SessionScreen(**content, shown=sha256(repr(content).encode()).hexdigest()[:16])


def _is_proven(conn: Connection, target: str) -> bool:
    """Whether what landed last is what the target has, and passed its verification; of a tip past the queue nobody knows yet."""
    last = landed.last_on(conn, target)
    if last is None or standing_of(last) != MergeState.LANDED or direct_tips.of(conn, target) is not None:
        return False
    receipt = receipts.get(conn, last["receipt_id"])
    return receipt is not None and receipt["status"] == ReceiptStatus.PASSED


def _named(paths: list[str]) -> str:
    more = f" and {len(paths) - MOST_NAMED} more" if len(paths) > MOST_NAMED else ""
    return f"you hold {', '.join(paths[:MOST_NAMED])}{more}"


def short(text: object, most: int = MOST_OF_A_LINE) -> str:
    """The text on one line with nothing that a terminal obeys, cut where it is longer than ``most`` characters."""
    line = one_line(" ".join(str(text)[: 4 * most].split()))
    return line if len(line) <= most else line[: most - 1] + "…"
