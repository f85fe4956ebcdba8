"""The rules of alerts: the state goes in, findings come out. No clock, no database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypedDict

from corral.config.sections.alerts import Alerts
from corral.core.instants import parse
from corral.core.visible import one_line

MOST_OF_A_TITLE = 80


@dataclass(frozen=True)
class Ended:
    """An attempt that ended by its own outcome; one that a fault of the machine ended does not count.

    Attributes:
        agent: The name of the agent, or its runner.
        is_last: Whether the task ended with it.
    """

    at: datetime
    task_id: str
    agent: str
    failed: bool
    is_last: bool


@dataclass(frozen=True)
class Facts:
    """The state that the rules judge.

    Attributes:
        ended: The attempts of the longest window, oldest first.
        titles: Of tasks, by id.
        budgets: Used and allowed, by the setting of the limit; only those with a limit.
        free_disk_mb: None if it cannot be asked.
        oldest_pending: Since when the oldest task that could start waits, and its id; None: no task waits, or work is paused.
        red_targets: Since when, by branch; None: not known.
        flaky: By target, how many of how many green verifications were flaky.
        unguarded: The name of each session and since when, by its id.
    """

    ended: Sequence[Ended] = ()
    titles: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    free_disk_mb: float | None = None
    free_memory_mb: float | None = None
    oldest_pending: tuple[datetime, str] | None = None
    red_targets: Mapping[str, datetime | None] = field(default_factory=dict)
    flaky: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    unguarded: Mapping[str, tuple[str, datetime]] = field(default_factory=dict)


@dataclass(frozen=True)
class Finding:
    """A rule that fires for a subject.

    Attributes:
        subject: The thing that it is about; a rule has at most one open alert for each.
        reason: The cause, in one line.
        remedy: The command to type, or the thing to do.
        cooldown_s: Least time until it is raised again.
    """

    rule: str
    subject: str
    reason: str
    remedy: str
    cooldown_s: float


def evaluate(settings: Alerts, facts: Facts, now: datetime) -> list[Finding]:
    """Everything that fires at this moment, in the order of :data:`RULES`."""
    return [finding for rule in RULES.values() for finding in rule(settings, facts, now)]


def longest_window_s(settings: Alerts) -> float:
    """How far back the rules look, seconds."""
    return max(settings.task_failures.window_s, settings.agent_failures.window_s, settings.error_rate.window_s)


def _task_failures(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.task_failures
    failed = Counter(attempt.task_id for attempt in _within(facts, now, rule.window_s) if attempt.failed)
    for task_id, number in failed.items():
        if rule.threshold is not None and number >= rule.threshold:
            yield Finding(
                "task_failures",
                task_id,
                f"The task {_title(facts, task_id)} failed {number} times within {_span(rule.window_s)}.",
                f"corral task logs {task_id[:8]}",
                rule.cooldown_s,
            )


def _agent_failures(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.agent_failures
    failed = Counter(attempt.agent for attempt in _within(facts, now, rule.window_s) if attempt.failed)
    for agent, number in failed.items():
        if rule.threshold is not None and number >= rule.threshold:
            yield Finding(
                "agent_failures",
                agent,
                f"Tasks of {one_line(agent)} failed {number} times within {_span(rule.window_s)}.",
                "corral task list --status failed; corral task list --status dead",
                rule.cooldown_s,
            )


def _error_rate(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.error_rate
    last = [attempt for attempt in _within(facts, now, rule.window_s) if attempt.is_last]
    failed = sum(attempt.failed for attempt in last)
    if rule.percent is not None and len(last) >= rule.least and 100 * failed >= rule.percent * len(last):
        yield Finding(
            "error_rate",
            "all",
            f"{failed} of the {len(last)} tasks that ended within {_span(rule.window_s)} have failed.",
            "corral metrics; corral task dlq list",
            rule.cooldown_s,
        )


def _budget(settings: Alerts, facts: Facts, _now: datetime) -> Iterator[Finding]:
    rule = settings.budget
    parts = sorted({part for part in (rule.first_percent, rule.second_percent) if part is not None})
    for limit, (used, allowed) in facts.budgets.items():
        for part in parts:
            if 100 * used >= part * allowed:
                yield Finding(
                    "budget",
                    f"{limit} {part} %",
                    f"{limit}: {part} % is used: {used:,.10g} of {allowed:,.10g} in 24 hours.",
                    f"Wait until it is below; or raise `{limit}` in .corral/config.yaml.",
                    rule.cooldown_s,
                )


def _free_disk(settings: Alerts, facts: Facts, _now: datetime) -> Iterator[Finding]:
    rule, free = settings.free_disk, facts.free_disk_mb
    if rule.mb is not None and free is not None and free < rule.mb:
        reason = f"Only {free:,.0f} MB of disk are free where the repository is."
        yield Finding("free_disk", "disk", reason, "Free space; or: corral worktree list", rule.cooldown_s)


def _free_memory(settings: Alerts, facts: Facts, _now: datetime) -> Iterator[Finding]:
    rule, free = settings.free_memory, facts.free_memory_mb
    if rule.mb is not None and free is not None and free < rule.mb:
        reason = f"Only {free:,.0f} MB of memory are free on this machine."
        yield Finding(
            "free_memory", "memory", reason, "corral swarm status; or lower `supervisor.max_agents`", rule.cooldown_s
        )


def _queue_age(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.queue_age
    if rule.after_s is not None and facts.oldest_pending is not None:
        since, task_id = facts.oldest_pending
        if (now - since).total_seconds() >= rule.after_s:
            reason = f"The task {_title(facts, task_id)} could start, and waits since {_span(rule.after_s)} or longer."
            yield Finding("queue_age", "queue", reason, f"corral task detail {task_id[:8]}", rule.cooldown_s)


def _red_target(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.red_target
    for target, since in facts.red_targets.items():
        if rule.after_s is not None and _has_lasted(since, now, rule.after_s):
            reason = f"{one_line(target)} itself fails its verification, so nothing lands on it."
            yield Finding("red_target", target, reason, "corral status", rule.cooldown_s)


def _flaky_target(settings: Alerts, facts: Facts, _now: datetime) -> Iterator[Finding]:
    rule = settings.flaky_target
    for target, (flaky, green) in facts.flaky.items():
        if rule.percent is not None and green >= rule.least and 100 * flaky > rule.percent * green:
            reason = (
                f"{flaky} of the {green} green verifications of {one_line(target)} within {_span(rule.window_s)} were red "
                "before, on the same tree: its tests fail by chance."
            )
            yield Finding("flaky_target", target, reason, "corral merge flakes", rule.cooldown_s)


def _unguarded_session(settings: Alerts, facts: Facts, now: datetime) -> Iterator[Finding]:
    rule = settings.unguarded_session
    for session_id, (name, since) in facts.unguarded.items():
        if rule.after_s is not None and _has_lasted(since, now, rule.after_s):
            reason = f"{one_line(name)}'s edits are not checked: its bridge is not connected."
            yield Finding("unguarded_session", session_id, reason, "corral status", rule.cooldown_s)


Rule = Callable[[Alerts, Facts, datetime], Iterator[Finding]]
RULES: Mapping[str, Rule] = {
    "red_target": _red_target,
    "unguarded_session": _unguarded_session,
    "task_failures": _task_failures,
    "agent_failures": _agent_failures,
    "error_rate": _error_rate,
    "budget": _budget,
    "free_disk": _free_disk,
    "free_memory": _free_memory,
    "queue_age": _queue_age,
    "flaky_target": _flaky_target,
}
"""The rules by name, the most urgent first."""


def _within(facts: Facts, now: datetime, window_s: float) -> Iterator[Ended]:
    since = now - timedelta(seconds=window_s)
    return (attempt for attempt in facts.ended if since < attempt.at <= now)


def _has_lasted(since: datetime | None, now: datetime, after_s: float) -> bool:
    return since is None or (now - since).total_seconds() >= after_s


def _title(facts: Facts, task_id: str) -> str:
    title = facts.titles.get(task_id)
    return repr(one_line(title)[:MOST_OF_A_TITLE]) if title else task_id[:8]


def _span(seconds: float) -> str:
    """A duration in words: ``6 hours``."""
    for size, unit in ((86_400, "day"), (3600, "hour"), (60, "minute")):
        if seconds >= size and seconds % size == 0:
            number = round(seconds / size)
            return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
    return f"{seconds:g} s"


# -- The life of an alert: it is raised once, reminded of after its cooldown, and resolves when its cause is gone.
#
# Alert fatigue is bounded: one open alert for each subject, a cooldown for each rule and subject, so many an hour of
# a rule and in all. A finding that is held back is raised later, if its cause still stands then. An alert of the
# future is one from before the clock was set back: it holds nothing back.

HOUR = timedelta(hours=1)


class Known(TypedDict):
    """An alert that was raised, open or resolved.

    Attributes:
        raised_at: When it was last raised.
    """

    alert_id: str
    rule: str
    subject: str
    raised_at: str
    acknowledged_at: str | None
    resolved_at: str | None


@dataclass(frozen=True)
class Decision:
    """The changes to make.

    Attributes:
        raised: New alerts.
        again: Alerts that are open and unacknowledged after their cooldown, by id.
        resolved: Ids of alerts whose cause is gone.
        held_back: Findings that a bound keeps from being raised now.
    """

    raised: list[Finding] = field(default_factory=list)
    again: dict[str, Finding] = field(default_factory=dict)
    resolved: list[str] = field(default_factory=list)
    held_back: list[Finding] = field(default_factory=list)


def decide(findings: Iterable[Finding], known: Sequence[Known], settings: Alerts, now: datetime) -> Decision:
    """Compare the findings with the known alerts.

    Args:
        known: The open alerts, and those raised within the longest cooldown; of each rule and subject the last one counts.
    """
    firing = {(finding.rule, finding.subject): finding for finding in findings}
    last = {(alert["rule"], alert["subject"]): alert for alert in sorted(known, key=lambda alert: alert["raised_at"])}
    recent = Counter(alert["rule"] for alert in known if timedelta(0) <= now - parse(alert["raised_at"]) < HOUR)
    decision = Decision()
    gone = [alert["alert_id"] for key, alert in last.items() if alert["resolved_at"] is None and key not in firing]
    decision.resolved.extend(gone)
    for key, finding in firing.items():
        before = last.get(key)
        is_open = before is not None and before["resolved_at"] is None
        if before is not None and is_open and before["acknowledged_at"] is not None:
            continue
        if before is not None and 0 <= (now - parse(before["raised_at"])).total_seconds() < finding.cooldown_s:
            if not is_open:
                decision.held_back.append(finding)
            continue
        if recent[finding.rule] >= settings.max_per_rule_per_hour or recent.total() >= settings.max_per_hour:
            decision.held_back.append(finding)
            continue
        recent[finding.rule] += 1
        if before is not None and is_open:
            decision.again[before["alert_id"]] = finding
        else:
            decision.raised.append(finding)
    return decision
