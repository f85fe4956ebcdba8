"""What needs a person, from rows as they can stand."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

from sqlalchemy import Connection

from corral.server.notify import needs_you
from corral.store.merges import merges

NOW = datetime(2026, 11, 22, 8, 0, tzinfo=timezone.utc)


def test_a_request_that_a_stop_sent_back_after_three_tries_is_named_though_no_reason_is_kept(
    any_database: Connection,
) -> None:
    head, nobody = "1" * 40, {"task_id": None, "session_id": None, "base_sha": None}
    merge_id = merges.submit(
        any_database, **nobody, title="t", priority=5, branch="side", target="main", head_sha=head, now=NOW
    )
    merges.requeue(any_database, merge_id, NOW, reason="Verification could not run (try 3)", tries=3)
    merges.built(any_database, merge_id, candidate_sha=head, candidate_tree=head, tip_sha=head, now=NOW)
    merges.requeue(any_database, merge_id, NOW, tries=3)  # as a stop does with what is being verified
    services: Any = None
    (need,) = needs_you.unverified_merges(services, any_database)
    assert need.what == "'t' cannot be verified: 3 tries ended without a verdict"
