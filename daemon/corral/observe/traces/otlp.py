"""One request to an OpenTelemetry collector, in a thread of its own: OTLP over HTTP, protobuf, by the extra ``otel``.

The exporter of OpenTelemetry encodes and sends; its own retries are off, since the job's are longer and survive a restart. The
variables that it knows count (``OTEL_EXPORTER_OTLP_HEADERS``, …_CERTIFICATE, …_COMPRESSION), except those for the address and
the time limit. Only the approved address is spoken to: no redirect is followed, no proxy is used, no ``.netrc`` is read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

from corral import __version__
from corral.observe.traces.spans import Link, Span, Value

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import ReadableSpan
    from requests import Response, Session

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
MOST_ANSWERED = 64 * 1024
"""Bytes of an answer that are read."""


@dataclass(frozen=True)
class Outcome:
    """How a request ended.

    Attributes:
        error: None: the collector has the spans.
        is_missing: The extra is not installed.
        rejected: Spans that the collector has not accepted for good, and why; None: none.
        retry_after_s: How long the collector asks to wait, seconds.
    """

    error: str | None
    is_missing: bool = False
    rejected: str | None = None
    retry_after_s: float = 0.0


class Sending:
    """One request; the constructor starts it.

    Args:
        url: The collector's address for traces.
        resource: Attributes of what sends: ``service.name`` and so on.
        ended: Called in the thread when the request has ended.

    Attributes:
        outcome: None while it runs.
    """

    def __init__(
        self,
        url: str,
        batch: Sequence[Span],
        resource: Mapping[str, Value],
        timeout_s: float,
        ended: Callable[[], None],
    ) -> None:
        self.outcome: Outcome | None = None
        self._url = url
        self._batch = batch
        self._resource = resource
        self._timeout_s = timeout_s
        self._ended = ended
        self._thread = threading.Thread(target=self._run, name="traces-send", daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether its thread runs: also that of a request nobody waits for any more."""
        return self._thread.is_alive()

    def _run(self) -> None:
        try:
            self.outcome = _send(self._url, self._batch, self._resource, self._timeout_s)
        except ImportError as error:
            self.outcome = Outcome(str(error), is_missing=True)
        except Exception as error:  # noqa: BLE001 - the edge of a thread: the libraries raise errors of their own
            self.outcome = Outcome(f"{type(error).__name__}: {error}")
        self._ended()


def _send(url: str, batch: Sequence[Span], resource: Mapping[str, Value], timeout_s: float) -> Outcome:
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    # It would log each failure, and with the whole address; the job logs each outage once.
    logging.getLogger(OTLPSpanExporter.__module__).setLevel(logging.CRITICAL)
    seen: list[Outcome] = []
    exporter: Any = OTLPSpanExporter(endpoint=url, timeout=timeout_s, session=_session(seen, timeout_s))
    try:
        exporter.export(encoded(batch, resource))
    finally:
        exporter.shutdown()
    return seen[0] if seen else Outcome("its request could not be made")


class _Refused(Exception):
    """Stops the exporter, which would retry connection errors and some statuses by itself."""


def _session(seen: list[Outcome], timeout_s: float) -> Session:
    """A session that keeps the outcome of the exporter's request, and lets it make no second one after a failure."""
    import requests

    class OneRequest(requests.Session):
        def request(self, *args: Any, **kwargs: Any) -> requests.Response:
            until = time.monotonic() + timeout_s
            try:
                with super().request(*args, **{**kwargs, "stream": True}) as response:
                    outcome = _judge(response, until)
            except requests.Timeout:
                outcome = Outcome(f"it did not answer within {timeout_s:g} s")
            except requests.RequestException as error:
                outcome = Outcome(_reason(error))
            seen.append(outcome)
            if outcome.error is not None:
                raise _Refused(outcome.error)
            return response

        def get_redirect_target(self, resp: requests.Response) -> None:
            """None: where there is one, the whole body is read, also of a redirect that is not followed."""

    session = OneRequest()
    session.trust_env = False
    return session


def _judge(response: Response, until: float) -> Outcome:
    """The outcome of an answer; its body is read until the time limit."""
    if response.status_code // 100 != 2:
        wait = response.headers.get("Retry-After", "")
        wait_s = float(wait) if wait.isascii() and wait.isdigit() else 0.0
        return Outcome(f"it answered {response.status_code}", retry_after_s=wait_s)
    from google.protobuf.message import DecodeError
    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

    try:
        partial = ExportTraceServiceResponse.FromString(_read(response, until)).partial_success
    except DecodeError:  # it has the spans; the rest of its answer is in another format
        return Outcome(None)
    if partial.rejected_spans:
        return Outcome(None, rejected=f"{partial.rejected_spans} spans: {partial.error_message[:200]}")
    return Outcome(None)


def _read(response: Response, until: float) -> bytes:
    import requests

    body = bytearray()
    for byte in response.iter_content(1):  # a greater piece is waited for until all of it is there
        body += byte
        if len(body) >= MOST_ANSWERED:
            break
        if time.monotonic() > until:
            raise requests.Timeout
    return bytes(body)


def _reason(error: Exception) -> str:
    """The system's own words, without the address, whose query may hold a secret."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return f"the connection failed ({type(error).__name__})"


def encoded(batch: Sequence[Span], resource: Mapping[str, Value]) -> list[ReadableSpan]:
    """Spans as OpenTelemetry has them."""
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanKind

    about = Resource.create(dict(resource))
    scope = InstrumentationScope("corral", __version__)
    return [
        ReadableSpan(
            span.name,
            context=_context(Link(span.trace_id, span.span_id)),
            parent=_context(Link(span.trace_id, span.parent_id)) if span.parent_id else None,
            resource=about,
            attributes=span.attributes,
            events=_events(span),
            links=_links(span),
            kind=SpanKind.PRODUCER if span.is_message else SpanKind.INTERNAL,
            status=_status(span.is_error),
            start_time=_nanoseconds(span.start),
            end_time=_nanoseconds(span.end),
            instrumentation_scope=scope,
        )
        for span in batch
    ]


def _events(span: Span) -> list[Any]:
    from opentelemetry.sdk.trace import Event

    return [Event(mark.name, mark.attributes, _nanoseconds(mark.at)) for mark in span.marks]


def _links(span: Span) -> list[Any]:
    from opentelemetry.trace import Link as SpanLink

    return [SpanLink(_context(link)) for link in span.links]


def _context(of: Link) -> Any:
    from opentelemetry.trace import SpanContext, TraceFlags

    flags = TraceFlags(TraceFlags.SAMPLED)
    return SpanContext(int(of.trace_id, 16), int(of.span_id, 16), is_remote=False, trace_flags=flags)


def _status(is_error: bool | None) -> Any:
    from opentelemetry.trace import Status, StatusCode

    return Status(StatusCode.UNSET if is_error is None else StatusCode.ERROR if is_error else StatusCode.OK)


def _nanoseconds(at: datetime) -> int:
    return (at - _EPOCH) // timedelta(microseconds=1) * 1000
