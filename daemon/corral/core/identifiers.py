"""Identifiers: created and checked here. User input becomes a ref, a folder or an option only after these checks."""

from __future__ import annotations

import re
import secrets
import uuid
from datetime import datetime

from corral.core.errors import InvalidInput

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def new_id() -> str:
    """A new random identifier (UUID 4, 36 characters)."""
    return str(uuid.uuid4())


def ordered_id(now: datetime) -> str:
    """A new identifier that sorts after those of earlier milliseconds (UUID 7, RFC 9562; 36 characters).

    For frequent rows: they are adjacent in their indexes, so a commit writes fewer pages. Its first half is the time,
    so it must not be abbreviated.
    """
    milliseconds, (first, second) = int(now.timestamp() * 1000), divmod(secrets.randbits(74), 1 << 62)
    digits = f"{milliseconds << 80 | 7 << 76 | first << 64 | 2 << 62 | second:032x}"  # uuid.UUID takes twice as long
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def check_name(text: str, what: str = "name") -> str:
    """Validate a name that becomes a folder, part of a ref and an argument.

    Args:
        text: At most 64 characters of ``A-Z a-z 0-9 . _ -``, starting with a letter or digit.
        what: The noun for the error message.

    Raises:
        InvalidInput: Anything else, including ``..`` and a trailing ``.`` or ``.lock``.
    """
    if not NAME.fullmatch(text) or ".." in text or text.endswith((".", ".lock")):
        raise InvalidInput(
            f"{text[:80]!r} cannot be the name of a {what}.",
            cause="A name becomes a folder and part of a branch.",
            remedy="Use up to 64 letters, digits, dots, dashes or underscores, starting with a letter or digit.",
        )
    return text


LONGEST_SESSION_ID = 128


def check_session_id(text: str) -> str:
    """Validate and return a client's session id: it is displayed, stored, and part of URLs.

    Raises:
        InvalidInput: Not 1 to 128 visible characters, or with a slash or outer blanks.
    """
    if not 0 < len(text) <= LONGEST_SESSION_ID or not text.isprintable() or "/" in text or text != text.strip():
        raise InvalidInput(
            f"{text[:80]!r} cannot be the id of a session.",
            cause="It is empty, too long, or contains a control character, a slash, or outer blanks.",
            remedy=f"Use 1 to {LONGEST_SESSION_ID} visible characters, such as a UUID.",
            details={"length": len(text)},
        )
    return text
