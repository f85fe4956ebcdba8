"""The error for a request that failed in an unforeseen way."""

from __future__ import annotations

from corral.core.errors import CorralError, InvalidInput
from corral.core.logs import logger
from corral.core.volumes import met_the_end, no_room

log = logger("http")


def failure(method: str, path: str, error: Exception) -> CorralError:
    """The error for the caller; the traceback goes to the log."""
    if isinstance(error, OverflowError):  # no integer column, no instant and no file offset holds it
        return InvalidInput("A number in the request is too large.", cause=str(error))
    if isinstance(error, UnicodeEncodeError):  # half of a surrogate pair, which JSON can spell
        return InvalidInput("A text in the request holds a character that is none.", cause=str(error))
    if met_the_end(error):
        return no_room("The request could not be carried out.")
    log.error("request_failed", path=path, method=method, exc_info=error)
    return CorralError(f"The daemon failed: {type(error).__name__}.")
