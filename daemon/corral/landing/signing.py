"""Candidates are signed when they land, as the user's own git configuration says: with the trees that were verified.

What is built is not signed before: most of it never lands, and a key may ask for a passphrase.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection

from corral.core.crash import crash_point
from corral.core.instants import iso
from corral.git import refs, signing
from corral.git.land import candidates
from corral.git.process.command import Git
from corral.store.protocol import Store
from corral.store.rows import required
from corral.store.rows.merges import MergeRow
from corral.work.merges.store import merges

AGAIN = timedelta(seconds=120)
"""Between two tries to sign: a program that waits for a passphrase costs the queue its time limit with each."""


def sign(
    db: Store, repo: Git, rows: Sequence[MergeRow], behind: Sequence[MergeRow], now: datetime
) -> Mapping[str, str] | None:
    """Sign the commits that were made for a chain of requests, where the user signs.

    Args:
        rows: The chain, the first upon the target's tip.
        behind: Requests whose candidates may be built upon the chain's; they are built upon the signed ones then.

    Returns:
        The new name of each commit that was made again; None if a request is not what it was.

    Raises:
        GitFailed: It could not be signed.
    """
    signer = signing.own(repo)
    if signer is None:
        return {}
    built = [*rows, *(row for row in behind if row["candidate_sha"] is not None)]
    without = [f"^{sha}" for sha in {required(rows[0]["tip_sha"]), *(row["head_sha"] for row in built)}]
    tips = [required(row["candidate_sha"]) for row in built]
    signed = set(repo.must("rev-list", required(rows[-1]["candidate_sha"]), *without).split())
    renamed = dict[str, str]()
    for sha in repo.must("rev-list", "--topo-order", "--reverse", *tips, *without).split():
        new = signing.sign(repo, sha, renamed, signer if sha in signed else None)
        if new != sha:
            renamed[sha] = new
    changed = [row for row in built if row["candidate_sha"] in renamed]
    for row in changed:
        candidates.hold(repo, row["merge_id"], renamed[required(row["candidate_sha"])])
    crash_point("landing.signed")

    def store(conn: Connection) -> bool:
        made = [
            merges.made_again(
                conn, row["merge_id"], sha := required(row["candidate_sha"]), now,
                new_sha=renamed[sha], tip_sha=renamed.get(required(row["tip_sha"]), required(row["tip_sha"])),
            )
            for row in changed
        ]  # fmt: skip
        return all(row is not None for row in made[: len(rows)])

    return renamed if not changed or db.write(store) else None


def hold(db: Store, repo: Git, rows: Sequence[MergeRow], reason: str, now: datetime) -> None:
    """Let requests wait that could not be signed; `corral merge retry` tries them at once.

    One whose candidate is gone is built again: a daemon that was killed here held the signed commit already, and not this one.
    """
    gone = {row["merge_id"] for row in rows if not refs.exists(repo, required(row["candidate_sha"]))}

    def store(conn: Connection) -> None:
        for row in rows:
            if row["merge_id"] in gone:
                merges.requeue(conn, row["merge_id"], now)
            elif not gone:
                merges.hold(conn, row["merge_id"], reason, now, not_before_at=iso(now + AGAIN))

    db.write(store)
