"""One request to the Messages API: streamed, tried again a few times, and its failure in words."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import anthropic

from corral.core.instants import UTC, after

TRIES = 4
FIRST_WAIT_S = 1.0
LONGEST_WAIT_S = 20.0
"""The longest ``retry-after`` that is waited for here; with a longer one the attempt ends, and its task is tried later."""
ANSWERING_S = 2.0

Event = dict[str, Any]
_STATUS_OF = {
    "authentication_error": 401,
    "permission_error": 403,
    "rate_limit_error": 429,
    "overloaded_error": 529,
    "invalid_request_error": 400,
    "request_too_large": 413,
}
"""The status of errors that come in the middle of a stream, which has begun with 200."""
_AGAIN = frozenset({408, 409, 429})


@dataclass(frozen=True)
class Answer:
    """One answer of the model, as plain JSON."""

    message_id: str
    content: list[dict[str, Any]]
    stop_reason: str | None
    usage: Mapping[str, Any]


class RequestFailed(Exception):
    """The API did not answer, in the end.

    Attributes:
        status: Of the last answer; None without one.
        retry_at: When another try makes sense (ISO 8601), if the API's answer contains it.
    """

    def __init__(self, message: str, status: int | None, retry_at: str | None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_at = retry_at


class Api:
    """The API with one key.

    Args:
        emit: Gets an event for each wait, and a sign that an answer is coming.
        sleep: Waits so many seconds.
    """

    def __init__(
        self,
        *,
        api_key: str,
        base_url: str | None,
        silence_s: float,
        emit: Callable[[Event], None],
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        timeout = anthropic.Timeout(silence_s, connect=min(silence_s, 10.0))
        # The SDK's own retries would obey a `retry-after` of days.
        self._client = anthropic.Anthropic(api_key=api_key, base_url=base_url, timeout=timeout, max_retries=0)
        self._emit = emit
        self._sleep = sleep

    def ask(self, request: Mapping[str, Any]) -> Answer:
        """Send a request.

        Raises:
            RequestFailed: It was refused, or failed too often.
        """
        for number in range(1, TRIES + 1):
            try:
                return self._ask_once(request)
            except Exception as error:  # the edge: a malformed answer can raise anything
                status, wait_s = _status(error), _retry_after_s(error)
                due_s = FIRST_WAIT_S * 2 ** (number - 1) if wait_s is None else wait_s
                if number == TRIES or not _is_worth_another(error, status) or due_s > LONGEST_WAIT_S:
                    retry_at = after(datetime.now(UTC), wait_s) if wait_s else None
                    raise RequestFailed(_message(error), status, retry_at) from error
                self._emit({"type": "system", "subtype": "api_retry", "error_status": status, "attempt": number})
                self._sleep(due_s)
        raise AssertionError("unreachable")

    def _ask_once(self, request: Mapping[str, Any]) -> Answer:
        emitted_at = time.monotonic()
        with self._client.messages.stream(**request) as stream:
            for _ in stream:
                if time.monotonic() - emitted_at >= ANSWERING_S:
                    emitted_at = time.monotonic()
                    self._emit({"type": "system", "subtype": "answering"})
            message = stream.get_final_message()
        if message.stop_reason is None:  # the SDK takes a cut connection for the end
            raise EOFError("it ended in the middle")
        content = [_sendable(block.to_dict()) for block in message.content]
        return Answer(message.id, content, message.stop_reason, message.usage.to_dict())


def _sendable(block: Mapping[str, Any]) -> dict[str, Any]:
    """A block without the fields that the SDK adds and the API refuses."""
    return {name: value for name, value in block.items() if name not in ("parsed_output",)}


def _status(error: Exception) -> int | None:
    if not isinstance(error, anthropic.APIStatusError):
        return None
    if error.status_code >= 400:
        return error.status_code
    return _STATUS_OF.get(str(error.type), 500)


def _is_worth_another(error: Exception, status: int | None) -> bool:
    header = error.response.headers.get("x-should-retry") if isinstance(error, anthropic.APIStatusError) else None
    return header != "false" and (status is None or status >= 500 or status in _AGAIN)


def _retry_after_s(error: Exception) -> float | None:
    """The seconds of ``retry-after``, a number or a date."""
    if not isinstance(error, anthropic.APIStatusError):
        return None
    header = error.response.headers.get("retry-after")
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        parsed = email.utils.parsedate_tz(header)
        if parsed is None:
            return None
        seconds = email.utils.mktime_tz(parsed) - time.time()
    return min(max(seconds, 0.0), 400 * 86_400.0) if seconds == seconds else None


def _message(error: Exception) -> str:
    if isinstance(error, anthropic.APIStatusError):
        text = error.api_message or (error.type and str(error.type)) or "no message"
        return f"The API answered {_status(error)}: {text}"
    if isinstance(error, anthropic.APITimeoutError):
        return "The API did not answer in time."
    if isinstance(error, anthropic.APIConnectionError):
        return f"The API cannot be reached: {error.__cause__ or error}"
    return f"The API's answer cannot be read: {type(error).__name__}: {error}"
