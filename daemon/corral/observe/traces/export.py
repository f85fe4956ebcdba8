"""The job that sends the traces of tasks: it reads the event record behind its position, and sends what ended there.

A step never waits for the network: each request runs in a thread of its own, one at a time. The position is stored once the
collector has acknowledged the spans, so nothing is left out wherever the daemon dies; a batch that was acknowledged just before
it dies is sent again, with the same identifiers. Without an approved address nothing is read and nothing leaves the machine.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from corral import __version__
from corral.config.model import Settings
from corral.coordination.services import Services
from corral.core.crash import crash_point
from corral.core.extras import how_to_add
from corral.core.instants import iso
from corral.core.logs import logger
from corral.core.needs import Fault, Need
from corral.core.redaction import redact
from corral.core.steps import Step
from corral.observe.traces.gathering import TOLD, gather
from corral.observe.traces.otlp import Outcome, Sending
from corral.observe.traces.spans import Span, Value
from corral.store import events
from corral.store.protocol import Store

PAUSE_S = 0.5
"""Least time between two steps, seconds: what ends together is sent together."""
AT_ONCE = 200
"""Events that one request tells of at most."""
MOST_PAGES = 20
"""Pages of events that one step looks through."""
FIRST_PAUSE_S, FACTOR, LONGEST_PAUSE_S = 0.5, 2.0, 300.0
SHOWN_AFTER = 5
"""Requests that failed one after the other, after which a person is told: 7.5 s, a collector's restart."""
MISSING_PAUSE_S = 10.0
"""Until the extra is looked for again."""
OLD_EVERY = timedelta(hours=1)
"""Between two looks for events that are too old to be sent."""
READER = "traces"
_TOLD = events.of_kinds(TOLD)
_PACKAGES = ("opentelemetry-sdk", "opentelemetry-exporter-otlp-proto-http")
"""The extra ``otel``."""
_LOOK = (
    "Make the collector answer there, or correct or unset `telemetry.otlp_endpoint`; Corral then continues by itself."
)

log = logger("traces")


def _install() -> str:
    return f"Run `{how_to_add(*_PACKAGES)}`, or unset `telemetry.otlp_endpoint`."


def pause_s(failures: int) -> float:
    """The pause after so many requests that failed one after the other, seconds."""
    return min(LONGEST_PAUSE_S, FIRST_PAUSE_S * FACTOR ** min(failures - 1, 30))


@dataclass(frozen=True)
class _Batch:
    """Spans on their way.

    Attributes:
        last: The event up to which they tell.
        deadline: When nobody waits for the answer any more.
    """

    last: int
    count: int
    sending: Sending
    deadline: datetime


class TraceExport:
    """Step: settle the request that ended, send what has ended since.

    Args:
        settings: The settings of the moment.
        url: The approved address; None: nothing may leave.
        resource: Attributes of what sends: ``service.name`` and so on.
        nudge: Asks for a step.
        changed: Called when the faults have changed.
        faults: Where a person is told that it fails.
    """

    def __init__(
        self,
        db: Store,
        settings: Callable[[], Settings],
        url: Callable[[], str | None],
        resource: Mapping[str, Value],
        nudge: Callable[[], None],
        changed: Callable[[], None],
        faults: dict[str, Need],
    ) -> None:
        self._db = db
        self._settings = settings
        self._url = url
        self._resource = resource
        self._nudge = nudge
        self._changed = changed
        self._fault = Fault(faults, "traces", "exports")
        self._position: int | None = None
        self._stored = 0
        self._is_off = False
        self._looked_at: datetime | None = None
        self._address: str | None = None
        self._batch: _Batch | None = None
        self._late: Sending | None = None
        self._failures = 0
        self._again: datetime | None = None

    def step(self, now: datetime) -> datetime | None:
        """Do what is due; returns when the next request is due, or when the running one ends at the latest."""
        if self._batch is not None:
            batch = self._batch
            if batch.sending.outcome is None and now < batch.deadline:
                return batch.deadline
            self._settle(batch, now)
        if self._settings().telemetry.otlp_endpoint is None:
            self._switch_off()
            return None
        self._is_off, url = False, self._url()
        if url != self._address:  # a new address starts without the failures of the old one
            self._address, self._again = url, None
            self._recover()
        self._leave_out(now)
        if url is None:
            return None
        if self._again is not None and now < self._again:
            return self._again
        return self._begin(url, now)

    # -- reading

    def _switch_off(self) -> None:
        """Forget the position: events that happen while export is off are never sent."""
        if not self._is_off:
            self._is_off, self._position, self._again, self._address = True, None, None, None
            if self._db.read(events.position, READER) is not None:
                self._db.write(events.forget_position, READER)
            self._recover()

    def _place(self) -> int:
        """The last event whose spans were sent; at the first start, the newest event."""
        if self._position is None:
            with self._db.reading() as conn:
                stored = events.position(conn, READER)
            if stored is None:
                self._move(self._db.read(events.newest))
            else:
                self._position = self._stored = stored
        return self._position or 0

    def _move(self, event_id: int) -> None:
        self._db.write(events.move_position, READER, event_id)
        self._position = self._stored = event_id

    def _leave_out(self, now: datetime) -> None:
        """Skip events that reached the maximum age unsent: they would keep all events for ever."""
        days = self._settings().retention.events_days
        is_early = self._looked_at is not None and now < self._looked_at + OLD_EVERY
        if days is None or is_early or self._db.read(events.position, READER) is None:
            return
        self._looked_at = now
        oldest, count = iso(now - timedelta(days=days)), 0
        for _page in range(MOST_PAGES):
            after = self._place()
            page = self._db.read(events.listing, after_id=after, limit=AT_ONCE)
            old = [event for event in page if event["at"] < oldest]
            if not old:
                break
            count += sum(event["kind"] in TOLD for event in old)
            self._move(old[-1]["event_id"])
        if count:
            log.warning("traces_left_out", events=count, reason=f"older than retention.events_days ({days})")

    def _begin(self, url: str, now: datetime) -> datetime | None:
        if self._late is not None:
            if self._late.is_alive:  # a collector that drips its answer holds one thread, and no more
                self._again = now + timedelta(seconds=pause_s(self._failures))
                return self._again
            self._late = None
        for _page in range(MOST_PAGES):
            batch, last = self._next()
            if last is None:
                return None
            if batch:
                self._send(url, batch, last, now)
                return self._batch.deadline if self._batch is not None else None
            self._move_on(last)
        return now

    def _next(self) -> tuple[list[Span], int | None]:
        """The spans of the next page of events, and the event up to which they tell; None: there is nothing new."""
        after = self._place()
        with self._db.reading() as conn:
            page, last = events.following(conn, _TOLD, after, AT_ONCE)
        if last == after:
            return [], None
        return self._db.read(gather, page) if page else [], last

    def _move_on(self, last: int) -> None:
        """Skip a page without spans; the position is stored only now and then, as it is never far behind."""
        if last - self._stored >= AT_ONCE:
            self._move(last)
        self._position = last

    # -- sending

    def _send(self, url: str, batch: list[Span], last: int, now: datetime) -> None:
        timeout_s = self._settings().telemetry.otlp_timeout_s
        sending = Sending(url, batch, self._resource, timeout_s, self._nudge)
        self._batch = _Batch(last, len(batch), sending, now + timedelta(seconds=timeout_s + 1))

    def _settle(self, batch: _Batch, now: datetime) -> None:
        self._batch, outcome = None, batch.sending.outcome
        if outcome is None:
            self._late = batch.sending
            outcome = Outcome(f"it did not answer within {self._settings().telemetry.otlp_timeout_s:g} s")
        if outcome.error is not None:
            self._failed(outcome, now)
            return
        crash_point("traces.acknowledged")
        self._move(batch.last)
        if outcome.rejected is not None:
            log.warning("spans_rejected", reason=redact(outcome.rejected))
        self._recover()

    def _recover(self) -> None:
        self._failures, self._again = 0, None
        if self._fault.end():
            log.info("traces_go_on")
            self._changed()

    def _failed(self, outcome: Outcome, now: datetime) -> None:
        self._failures += 1
        error = redact(outcome.error or "")
        wait_s = MISSING_PAUSE_S if outcome.is_missing else pause_s(self._failures)
        wait_s = max(wait_s, min(outcome.retry_after_s, LONGEST_PAUSE_S))
        self._again = now + timedelta(seconds=wait_s)
        if self._failures == 1:
            log.warning("traces_not_sent", reason=error)
        if not outcome.is_missing and self._failures < SHOWN_AFTER:
            return
        what = (
            f"Traces cannot be sent: the extra `otel` is not installed ({error})."
            if outcome.is_missing
            else f"Traces do not reach the collector: {error}. They wait, and are sent when it answers."
        )
        if self._fault.show(what, _install() if outcome.is_missing else _LOOK, now):
            self._changed()


def job(services: Services, project_id: str) -> Step:
    """The job of this module."""
    export = TraceExport(
        services.db,
        services.settings,
        services.settings.traces_url,
        {
            "service.name": "corral",
            "service.version": __version__,
            "service.instance.id": project_id,
            "corral.project": redact(services.project.root.name),
        },
        lambda: services.jobs["traces"].nudge(),
        services.changes.announce,
        services.faults,
    )
    return Step("traces", export.step, pause_s=PAUSE_S, reads_events=True, reads_settings=True)
