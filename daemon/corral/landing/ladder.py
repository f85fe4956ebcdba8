"""What the queue of one target does next, as a pure function: the prefix ladder.

The requests of a target form a chain: each candidate is built upon the one before it, the first upon the target's tip. Some
prefixes of the chain are verified side by side, and the longest green one lands in one move. What is red is narrowed down between
a green prefix and a red one; what is left in between, one request, is a suspect. It leaves the chain, and is judged alone upon
a tip that is known green, while the others go on without it.

Where there is a cheap check (``landing.check``), each request is built upon the tip and checked by itself before it joins the
chain.

Nothing is remembered but what :class:`Member` says, which stands in rows: the same plan is made again after a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import Enum, auto

LONGEST_BATCH = 16
"""Requests in one chain. A longer one is red too often to be worth its runs."""


@dataclass(frozen=True)
class Candidate:
    """A commit that was built for a request, and the commit that it was built upon: the target's tip, or another candidate."""

    sha: str
    on_sha: str


class Verdict(Enum):
    """What is known of a candidate's tree under the commands in force."""

    GREEN = auto()
    RED = auto()


class Judgement(Enum):
    """What is known of a suspect that is red upon a tip (:mod:`corral.landing.verify.blame`)."""

    AT_FAULT = auto()
    """The tip without it is green: it goes back."""
    UNKNOWN = auto()
    """The tip without it has to be verified."""
    UNSURE = auto()
    """It has to be verified once more."""
    TARGET_RED = auto()
    """The tip is red without it as well: it waits."""


class Check(Enum):
    """What keeps a request out of the chain: its check, which is of its candidate upon the tip."""

    NOT_RUN = auto()
    """It has to run."""
    RED = auto()
    """The tip without the request has to be checked."""
    AT_FAULT = auto()
    """It is red, and the tip without the request is not: the request goes back."""


@dataclass(frozen=True)
class Member:
    """An open request that nothing keeps from landing but its verification.

    Attributes:
        merge_id: Of the request.
        candidate: The last one that was built for it.
        verdict: Of that one's tree.
        is_suspect: It is judged alone.
        judgement: Of a suspect whose candidate is red.
        check: None: there is no check, or it is over, and the request is judged by its verification.
        clashes_on: A candidate upon which it could not be merged. One that clashes with the tip itself goes back.
        ends_chain: It changes the rules by which those behind it are judged, so that they wait until it has landed.
        behind: The requests that have to land before it, or with it.
        is_bypassed: A person lets it land without a verification: upon the tip, and with nobody else's work.
    """

    merge_id: str
    candidate: Candidate | None = None
    verdict: Verdict | None = None
    is_suspect: bool = False
    judgement: Judgement | None = None
    check: Check | None = None
    clashes_on: str | None = None
    ends_chain: bool = False
    behind: frozenset[str] = frozenset()
    is_bypassed: bool = False


@dataclass(frozen=True)
class Build:
    """Merge a request upon a commit."""

    merge_id: str
    on_sha: str


@dataclass(frozen=True)
class Land:
    """Move the target to the candidate of the last of these requests, which brings them all."""

    merge_ids: tuple[str, ...]
    is_clean: bool
    """Whether nothing of the chain is red, so that the next one may be longer."""


@dataclass(frozen=True)
class Suspect:
    """Take a request out of the chain, since it is where red begins."""

    merge_id: str


@dataclass(frozen=True)
class Acquit:
    """Put a suspect that is green by itself back into the chain."""

    merge_id: str


@dataclass(frozen=True)
class Return:
    """Send a request back: it is red, and the tip without it is not; ``by_check``: that is its check."""

    merge_id: str
    by_check: bool = False


@dataclass(frozen=True)
class Hold:
    """Let a request wait: the tip is red without it."""

    merge_id: str


@dataclass(frozen=True)
class Verify:
    """Have a commit verified, or keep the run that does.

    Attributes:
        merge_id: The request that it is for; ``""``: for none, since it is the target's tip that is judged.
        sha: Its candidate; of a suspect perhaps the commit that this was built upon.
        is_alone: Nobody else's work is judged by it, so that red is run again before it counts.
        is_check: By the check, and not whole.
    """

    merge_id: str
    sha: str
    is_alone: bool = False
    is_check: bool = False


Action = Build | Land | Suspect | Acquit | Return | Hold | Verify


def plan(
    members: Sequence[Member],
    tip_sha: str,
    *,
    batch: int,
    slots: int,
    running: Collection[str] = (),
    checking: Collection[str] = (),
    verify_each: bool = False,
    is_frozen: bool = False,
    judges_tip: bool = False,
) -> list[Action]:
    """Decide what to do next.

    Args:
        members: In landing order, every one behind those that it is behind.
        tip_sha: Where the target is.
        batch: Requests in the chain, at most, without those that are begun on one of them; at least 1.
        slots: Verifications that may run side by side; at least 1.
        running: The commits that are being verified now.
        checking: Those that are being checked now.
        verify_each: A request lands only if it and all before it in the chain were verified, each by itself.
        is_frozen: Nothing may land; candidates are verified all the same.
        judges_tip: The tip itself is to be verified too, where a slot is free.

    Returns:
        One action that is not :class:`Verify`, after which there has to be a new plan; or all runs that are wanted, at most
        ``slots``, most wanted first. Any other run has become pointless.
    """
    alone_first = (member for member in members if member.is_bypassed and not member.behind and not is_frozen)
    if (bypassed := next(alone_first, None)) is not None:
        is_upon_tip = bypassed.candidate is not None and tip_sha == bypassed.candidate.on_sha != bypassed.candidate.sha
        return [Land((bypassed.merge_id,), False) if is_upon_tip else Build(bypassed.merge_id, tip_sha)]
    chain, build = _chain(members, tip_sha, batch)
    green = _green(chain, verify_each=verify_each)
    if green and is_frozen:
        chain = chain[green:]  # what is green waits, and is built upon
    elif green and build is not None and green == len(chain):
        return [build]  # what needs no run lands with the others, in one move
    elif green:
        landing = chain[:green]
        is_clean = all(member.verdict is not Verdict.RED for member in chain)
        return [Land(tuple(member.merge_id for member in landing), is_clean)]
    reds = [place for place, member in enumerate(chain) if member.verdict is Verdict.RED]
    if reds and reds[0] == 0:
        return [Suspect(chain[0].merge_id)]
    if build is not None and not reds:
        return [build]
    alone = [_alone(member, tip_sha, running) for member in members if member.is_suspect and not member.behind]
    checks = [_check(member, tip_sha, checking) for member in members if _is_checked_first(member)]
    for action in (*alone, *checks):
        if not isinstance(action, Verify) and not (is_frozen and isinstance(action, Land)):
            return [action]
    if reds:
        chain = chain[: reds[0]]
    by_age = sorted((run for run in alone if isinstance(run, Verify)), key=lambda run: run.sha not in running)

    def verifications(number: int) -> list[Verify]:
        wanted = _distinct(by_age)[: max(1, number - 1)] if number else []
        left = max(0, number - len(wanted))
        cuts = _each(chain, left, running) if verify_each else _cuts(chain, left, narrows=bool(reds), running=running)
        return _distinct([*wanted, *cuts])

    # What is checked first costs the others no run; but no check ends a run, and those that come later wait for a free slot.
    early, late = _by_turn(members, checks, batch, checking)
    kept = sum(run.sha in running for run in verifications(slots))
    first = early[: max(slots - kept, 0)]
    whole = verifications(slots - len(first))
    all_runs = [*whole, *first, *late[: slots - len(first) - len(whole)]]
    if judges_tip and len(all_runs) < slots and tip_sha not in {run.sha for run in all_runs}:
        all_runs.append(Verify("", tip_sha, is_alone=True))
    return list[Action](all_runs)


def _green(chain: Sequence[Member], *, verify_each: bool) -> int:
    """How many requests of a chain may land."""
    greens = [place for place, member in enumerate(chain, 1) if member.verdict is Verdict.GREEN]
    if verify_each:
        return next((place for place in range(len(greens)) if greens[place] != place + 1), len(greens))
    return greens[-1] if greens else 0


def _by_turn(
    members: Sequence[Member], checks: Sequence[Action], batch: int, checking: Collection[str]
) -> tuple[list[Verify], list[Verify]]:
    """The checks of the requests that the next chain may hold, and those of later ones; what runs comes first."""
    places = {member.merge_id: place for place, member in enumerate(m for m in members if not m.is_suspect)}
    runs = _distinct([check for check in checks if isinstance(check, Verify)])
    runs.sort(key=lambda run: run.sha not in checking)
    early = [run for run in runs if places[run.merge_id] < batch]
    return early, [run for run in runs if run not in early]


def _distinct(runs: Sequence[Verify]) -> list[Verify]:
    """One run for each commit: two requests may have the same one."""
    return list({run.sha: run for run in reversed(runs)}.values())[::-1]


def _chain(members: Sequence[Member], tip_sha: str, batch: int) -> tuple[list[Member], Build | None]:
    """The chain as far as it is built, and what has to be built next."""
    chain: list[Member] = []
    inside: set[str] = set()
    on_sha = tip_sha
    for member in members:
        stacks = sum(
            not other.behind for other in chain
        )  # what is begun on another one lands with it, and counts with it
        if len(chain) == max(batch, LONGEST_BATCH) or (stacks == batch and not member.behind):
            break
        clashes = member.clashes_on == on_sha != tip_sha  # upon the tip it is built, and goes back
        if member.is_suspect or _is_checked_first(member) or not member.behind <= inside or clashes:
            continue
        if member.candidate is None or member.candidate.on_sha != on_sha or member.candidate.sha == tip_sha:
            return chain, Build(member.merge_id, on_sha)
        chain.append(member)
        inside.add(member.merge_id)
        on_sha = member.candidate.sha
        if member.ends_chain:
            break
    return chain, None


def _alone(suspect: Member, tip_sha: str, running: Collection[str]) -> Action:
    """What becomes of a suspect."""
    candidate = suspect.candidate
    if candidate is not None and suspect.verdict is Verdict.GREEN:
        return Land((suspect.merge_id,), False) if candidate.on_sha == tip_sha else Acquit(suspect.merge_id)
    if candidate is None:
        return Build(suspect.merge_id, tip_sha)
    # What was found upon a former tip, which was verified as well, still counts; only what is not known yet begins anew.
    is_unknown = suspect.verdict is None and candidate.sha not in running
    if candidate.on_sha != tip_sha and (is_unknown or suspect.judgement is Judgement.TARGET_RED):
        return Build(suspect.merge_id, tip_sha)
    if suspect.verdict is None or suspect.judgement is Judgement.UNSURE:
        return Verify(suspect.merge_id, candidate.sha, is_alone=True)
    if suspect.judgement is Judgement.AT_FAULT:
        return Return(suspect.merge_id)
    if suspect.judgement is Judgement.TARGET_RED:
        return Hold(suspect.merge_id)
    return Verify(suspect.merge_id, candidate.on_sha, is_alone=True)


def _is_checked_first(member: Member) -> bool:
    """Whether its check keeps a request out of the chain. One behind another request is not kept: it cannot be built alone."""
    return member.check is not None and not member.behind


def _check(member: Member, tip_sha: str, checking: Collection[str]) -> Action:
    """What becomes of a request that is not in the chain for its check."""
    candidate = member.candidate
    if member.check is Check.AT_FAULT:
        return Return(member.merge_id, by_check=True)
    if candidate is None:
        return Build(member.merge_id, tip_sha)
    if member.check is Check.RED:
        return Verify(member.merge_id, candidate.on_sha, is_alone=True, is_check=True)
    if candidate.on_sha != tip_sha and candidate.sha not in checking:
        return Build(member.merge_id, tip_sha)
    return Verify(member.merge_id, candidate.sha, is_alone=True, is_check=True)


def _each(chain: Sequence[Member], number: int, running: Collection[str]) -> list[Verify]:
    """Every request of a chain that was not verified yet: those that are running anyway, and then the first ones."""
    candidates = [(member, member.candidate.sha) for member in chain if member.verdict is None and member.candidate]
    ordered = sorted(candidates, key=lambda each: each[1] not in running)
    return [Verify(member.merge_id, sha, member is chain[0]) for member, sha in ordered[: max(number, 0)]]


def _cuts(chain: Sequence[Member], number: int, *, narrows: bool, running: Collection[str]) -> list[Verify]:
    """Which prefixes to verify: those that are running anyway, and then such that divide the chain evenly.

    Args:
        narrows: What follows the chain is red, so that its last prefix is no better than the others.
    """
    parts = number + 1 if narrows else number
    length = len(chain)
    even = {max(part * length // parts, 1) - 1 for part in range(1, number + 1)} if chain and number > 0 else set[int]()
    if number > 0 and len(even) < min(number, length):
        even |= set(range(min(number, length)))
    shas = [(place, member.candidate.sha) for place, member in enumerate(chain) if member.candidate is not None]
    cuts = sorted(shas, key=lambda cut: (cut[1] not in running, cut[0] not in even, -cut[0]))[: min(number, len(even))]
    if len(cuts) > 1 and not narrows and _is_stacked(chain, shas[-1][0], on=max(cuts)[0]):
        cuts[cuts.index(max(cuts))] = shas[-1]
    return [Verify(chain[place].merge_id, sha, len(chain) == 1 and not narrows) for place, sha in cuts]


def _is_stacked(chain: Sequence[Member], place: int, *, on: int) -> bool:
    """Whether the work at one place was begun on the work at another: then its run proves both."""
    below = set(chain[place].behind)
    for member in reversed(chain[:place]):
        below |= member.behind if member.merge_id in below else frozenset()
    return chain[on].merge_id in below
