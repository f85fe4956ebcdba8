"""The wire format of merge requests and receipts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict
from typing_extensions import TypedDict

from corral.core.answers import Instant, one_of
from corral.core.inputs import note
from corral.core.outcomes import NEEDS_APPROVAL, Outcome, of_merge
from corral.core.states import MergeState, ReceiptRole, ReceiptStatus

TARGET_RED = "The target itself is red"
"""Prefix of the reason of a request whose target fails without it too."""

STOPPED = "Nothing lands on"
"""Begins the reason of a held request that tells why none of its target's can go on; a space and the target follow."""
CAME_BACK = "It was begun on work that came back"
"""Prefix of the reason of a request that waits for what it was begun on."""

MISSING = "Missing from "
"""Prefix of the reason of a landed request that its target, which was rewound, has no more: a person is to decide."""

TAKEN_BACK = "Taken back from "
"""The same, once a person has accepted that."""


LANDED_NO_MORE = {Outcome.MISSING: MISSING, Outcome.TAKEN_BACK: TAKEN_BACK}
"""The standing of a landed request that its target has no more, by the prefix of its reason."""

Row = Mapping[str, Any]
StateOfMerge = Annotated[str, one_of(*MergeState.values())]
OutcomeOfMerge = Annotated[str, one_of(*Outcome.values())]
"""How a request stands, in the word that its task has too."""
COVERED = "covered"
"""Of a receipt: the tree of another request was verified, which this one is a part of."""
StatusOfReceipt = Annotated[str, one_of(*ReceiptStatus.values(), COVERED)]
StatusOfRun = Annotated[str, one_of("running", *ReceiptStatus.values(), "repeated", "unknown")]
RoleOfRun = Annotated[str, one_of(*ReceiptRole.values(), "unknown")]


class PathConflict(TypedDict):
    """A path that does not merge; ``kind``: in git's words, such as ``content``."""

    path: str
    kind: str


class _Shape(BaseModel):
    model_config = ConfigDict(frozen=True)


class Receipt(_Shape):
    """The result of verifying exactly one tree.

    Attributes:
        status: ``passed``, ``failed``, ``unverified`` (no commands configured), ``error`` (could not run), ``bypassed`` (a person
            let it land without a verification), or ``covered``: the request landed as a part of another one's commit, which was
            verified; its own was not.
        tree: The git tree that was verified.
        covered_by: The commit that was, of one that is ``covered``.
        commands: The commands that ran, in order.
        exit_code: Of the last command that ran; None if none did, or it was killed.
        tests: Number of tests, if the output tells; else None.
        duration_s: Wall-clock seconds.
        log: The output's file, relative to the project's root if inside it.
        reason: Why it did not pass, or None.
        inputs: What it took beside the commit (:class:`~corral.core.inputs.Prepared`), or None where nothing ran.
        note: What of that a person should know, in one line, or None.
    """

    status: StatusOfReceipt
    tree: str
    commands: list[str]
    exit_code: int | None
    tests: int | None
    duration_s: float
    log: str | None
    reason: str | None = None
    inputs: dict[str, Any] | None = None
    note: str | None = None
    covered_by: str | None = None


class MergeRun(_Shape):
    """A verification that ran for a merge request, or whose receipt decided it.

    Attributes:
        number: Of its log among those of the request, from 1; None if it ran for another request, or has no log.
        merge_id: The request that it ran for; None: not recorded.
        is_own: Whether that is this request.
        decided: Whether the request stands as it does by this run.
        role: ``candidate`` (the change merged with its target), ``control`` (the target without it), or ``unknown``.
        commit_sha: The commit that was verified; None: not recorded.
        commands: The commands that ran; empty until it has ended.
        status: ``running``, that of its receipt, ``repeated`` (it was red, and ran again before that counted), or ``unknown``: it
            ended without an outcome.
        exit_code: Of the last command that ran.
        log: The output's file, relative to the project's root if inside it.
        is_kept: Whether that file is there.
    """

    number: int | None
    merge_id: str | None
    is_own: bool
    decided: bool
    role: RoleOfRun
    commit_sha: str | None
    commands: list[str]
    status: StatusOfRun
    exit_code: int | None
    reason: str | None
    started_at: Instant | None
    ended_at: Instant | None
    log: str | None
    is_kept: bool


class MergeOfTask(_Shape):
    """The ``merge`` object of a task's detail; ``reverted_by``: the landed request that took its work back."""

    merge_id: str
    state: StateOfMerge
    outcome: OutcomeOfMerge
    reason: str | None
    landed_sha: str | None
    reverted_by: str | None
    receipt: Receipt | None


class MergeSummary(_Shape):
    """One row of ``merge list``."""

    merge_id: str
    task_id: str | None
    branch: str
    target: str
    state: StateOfMerge
    outcome: OutcomeOfMerge
    reason: str | None


class NothingToMerge(TypedDict):
    """What is answered where the target has everything of a branch already: there is no request."""

    merge_id: None
    branch: str
    target: str
    state: None


Submitted = MergeSummary | NothingToMerge


class Standing(TypedDict):
    """How an open request stands.

    ``position`` counts from 1 in its target's queue; ``waits_for`` says why it has not landed, ``waits_since`` from when on;
    ``slot``: in which its work is being verified, by itself or with others'. ``expected_s``: seconds until it has landed, if
    verifications take as long as the last green ones and are green; 0: the one that runs takes longer; null: none was, or the
    request is held.
    """

    position: int
    waits_for: str
    waits_since: Instant
    slot: int | None
    expected_s: float | None


class MergeListed(MergeSummary):
    """One row of a list for people.

    ``number`` is that of its task; ``standing``: of an open request, else null. ``reverted_by`` is the landed request that took
    its work back.
    """

    number: int | None
    title: str
    created_at: Instant
    reverted_by: str | None
    standing: Standing | None


class MergeDetail(MergeSummary):
    """Everything about one merge request; ``number`` is that of its task.

    ``approved_sha`` is the head that a person approved, ``needs_approval`` whether it waits for that. ``bypassed_sha`` is the
    head that a person lets land without a verification, ``bypass_reason`` who that is, and why. ``reverts`` is the request whose
    work this one takes back, ``reverted_by`` the newest one that takes back its own. ``standing``: of an open request, else null.
    ``style`` is the shape that its commit has come to have; null: none is built.
    """

    number: int | None
    title: str
    session_id: str | None
    priority: int
    head_sha: str
    approved_sha: str | None
    needs_approval: bool
    bypassed_sha: str | None
    bypass_reason: str | None
    reverts: str | None
    reverted_by: str | None
    base_sha: str | None
    conflicts: list[PathConflict] | None
    style: str | None
    landed_sha: str | None
    tries: int
    standing: Standing | None
    receipt: Receipt | None
    created_at: Instant
    updated_at: Instant
    finished_at: Instant | None


def of_task(merge: Row, receipt: Row | None, reverted_by: str | None) -> dict[str, Any]:
    """The ``merge`` object of a task's detail, from a stored merge request and its receipt."""
    shown = {**merge, "outcome": outcome_of(merge), "reverted_by": reverted_by, "receipt": _plain(merge, receipt)}
    return MergeOfTask.model_validate(shown).model_dump()


def summary(merge: Row) -> dict[str, Any]:
    """One row of ``merge list``."""
    return MergeSummary.model_validate({**merge, "outcome": outcome_of(merge)}).model_dump()


def listed(
    merge: Row, numbers: Mapping[str, int], standings: Mapping[str, Standing], reverted: Mapping[str, str]
) -> dict[str, Any]:
    """One row of a list.

    Args:
        numbers: The numbers of tasks by their ids.
        standings: How the open requests stand, by their ids.
        reverted: The landed requests that took the work of others back, by the ids of these.
    """
    number, how = numbers.get(merge["task_id"] or ""), standings.get(merge["merge_id"])
    row = {**merge, "outcome": outcome_of(merge), "number": number, "standing": how}
    row["reverted_by"] = reverted.get(merge["merge_id"])
    return MergeListed.model_validate(row).model_dump()


def detail(
    merge: Row,
    receipt: Row | None,
    number: int | None = None,
    reverted_by: str | None = None,
    standing: Standing | None = None,
) -> dict[str, Any]:
    """Everything about one merge request; ``number`` is that of its task."""
    shown = {
        **merge,
        "number": number,
        "reverted_by": reverted_by,
        "standing": standing,
        "outcome": outcome_of(merge),
        "receipt": _plain(merge, receipt),
    }
    shown["needs_approval"] = needs_approval(merge)
    return MergeDetail.model_validate(shown).model_dump()


def needs_approval(merge: Row) -> bool:
    """Whether a stored merge request is held until a person approves its head."""
    held = merge["state"] == MergeState.HELD and merge["approved_sha"] != merge["head_sha"]
    return held and str(merge["reason"]).startswith(NEEDS_APPROVAL)


def standing_of(merge: Row) -> str:
    """The state of a stored merge request, or for a landed one that its target has no more, which of the two it is."""
    if merge["state"] == MergeState.LANDED:
        for state, prefix in LANDED_NO_MORE.items():
            if str(merge["reason"]).startswith(prefix):
                return str(state)
    return str(merge["state"])


def outcome_of(merge: Row) -> str:
    """How a stored merge request stands, in one word: the one that a completed task has by it."""
    dismissed, replaced = (merge[name] is not None for name in ("dismissed_at", "replaced_by"))
    return of_merge(standing_of(merge), dismissed=dismissed, replaced=replaced)


def waits_for_red_target(merge: Row) -> bool:
    """Whether a stored merge request is held because its target fails without it too."""
    return merge["state"] == MergeState.HELD and str(merge["reason"]).startswith(TARGET_RED)


def tells_of_all(merge: Row) -> bool:
    """Whether a stored merge request is held for what keeps every request of its target."""
    return merge["state"] == MergeState.HELD and str(merge["reason"]).startswith(STOPPED)


def is_parked(state: str | None, reason: str | None) -> bool:
    """Whether a request in this state, with this reason, is held because what it was begun on came back."""
    return state == MergeState.HELD and str(reason).startswith(CAME_BACK)


def covered_by(merge: Row, receipt: Row | None) -> str | None:
    """The commit whose verification stands for a landed request that was not verified by itself."""
    is_landed = merge["state"] == MergeState.LANDED and merge["landed_sha"] == merge["candidate_sha"]
    if receipt is None or not is_landed or receipt["status"] != ReceiptStatus.PASSED:
        return None
    by = merge["landed_tip_sha"] or receipt["commit_sha"]  # another request's run may have proven the same tree
    return by if receipt["tree"] != merge["candidate_tree"] else None


def _plain(merge: Row, receipt: Row | None) -> dict[str, Any] | None:
    if receipt is None:
        return None
    by = covered_by(merge, receipt)
    return {
        **receipt,
        "status": COVERED if by else receipt["status"],
        "covered_by": by,
        "note": note(receipt["inputs"]),
    }
