"""The queue of one target in one step, and the effect of one look at one of its requests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from corral.config.sections.sharing import Landing
from corral.git.process.command import Identity
from corral.landing import (
    direct_commits,
)
from corral.landing.push.place import Place
from corral.landing.stacks import Stack
from corral.landing.verify.verification_run import Basis
from corral.store.rows.merges import MergeRow


class Next(Enum):
    """The effect of one look at one request on its target's queue."""

    AGAIN = auto()
    """Something ended: look at the queue again."""
    RUNNING = auto()
    """Verifications run."""
    BLOCKED = auto()
    """The target's queue is blocked, until the blocker is gone or the target is green."""
    PASSED = auto()
    """The request is blocked, and later requests bypass it; or it went on, and the others are looked at."""


@dataclass
class Line:
    """The queue of one target in one step.

    Attributes:
        basis: What its verifications stand on; ``check_basis``: its checks.
        batch: Requests in its chain, at most.
        place: Where its chain begins.
        slots: Verifications that it may have running.
        stacks: What requests stand on that were begun on the work of others.
        rows: The requests that nothing keeps from landing but their verification, by id, in landing order.
        blocked_by: The request that the others have to wait for.
        waits: Something waits for what nobody announces.
        is_frozen: Nothing lands.
        direct: What is known of its tip, if that did not come from a verification.
        identities: Who makes the candidates, by the submitter.
    """

    target: str
    place: Place
    landing: Landing
    basis: Basis
    check_basis: Basis
    batch: int
    slots: int
    stacks: Mapping[str, Stack]
    rows: dict[str, MergeRow] = field(default_factory=dict)
    blocked_by: MergeRow | None = None
    waits: bool = False
    is_frozen: bool = False
    direct: direct_commits.Standing = field(default_factory=direct_commits.Standing)
    identities: dict[tuple[str, str] | None, Identity] = field(default_factory=dict)

    @property
    def tip(self) -> str:
        """The commit that its first candidate is built upon."""
        return self.place.tip

    def block(self, merge: MergeRow) -> None:
        """Let only repairs pass from now on."""
        self.blocked_by, self.waits = self.blocked_by or merge, True

    def stack(self, merge_id: str) -> Stack:
        """What a request stands on; most on nothing."""
        return self.stacks.get(merge_id, Stack())

    def lacks_base(self, merge_id: str) -> bool:
        """Whether what a request was begun on is not to land now, so that itself cannot."""
        base = [self.rows.get(other) for other in self.stack(merge_id).behind]
        return any(row is None or row["suspect_at"] is not None for row in base)

    def before(self, merge_id: str) -> tuple[str, ...]:
        """The requests whose work the candidate of a request brings, with its own."""
        built = {row["candidate_sha"]: row for row in self.rows.values()}
        members = [self.rows[merge_id]]
        while (earlier := built.get(members[0]["tip_sha"])) is not None and earlier not in members:
            members.insert(0, earlier)
        return tuple(row["merge_id"] for row in members)


def is_bypassed(merge: MergeRow) -> bool:
    """Whether a person lets a request land with the head that it has, whatever a verification would say."""
    return merge["bypassed_sha"] == merge["head_sha"]
