"""A request for a page, after it was let in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Visit:
    """A request of a browser session.

    Attributes:
        query: The fields of the address, the last of each name.
        form: Those of the form, if one was sent; its token was compared.
        secret: The session's.
        token: That every form of this session carries.
    """

    method: str
    path: str
    query: dict[str, str]
    form: dict[str, str]
    headers: dict[bytes, str]
    secret: str
    token: str
