"""The kinds of keys: how each is called in messages, where it is kept, and which command stores it."""

from __future__ import annotations

from dataclasses import dataclass

from corral.core.errors import InvalidInput

_SHORTEST, _LONGEST = 8, 1000


@dataclass(frozen=True)
class KeyKind:
    """One kind of key.

    Attributes:
        words: Its name in a message.
        files: How the names of its files begin.
        account: Its entry in the keychain; None: that of the API key.
        options: Of ``corral config set-key`` and ``remove-key``, with a space before them.
        origin: Where a person finds it.
    """

    words: str
    files: str
    account: str | None
    options: str
    origin: str

    @property
    def storing(self) -> str:
        """The command that stores it."""
        return f"corral config set-key{self.options}"

    def checked(self, text: str) -> str:
        """A key as a person gave it, without the white space around it.

        Raises:
            InvalidInput: It cannot be a key; the message does not show it.
        """
        key = text.strip()
        if not _SHORTEST <= len(key) <= _LONGEST or not key.isascii() or not key.isprintable() or " " in key:
            raise InvalidInput(
                f"This is no {self.words}.",
                cause=f"It has {_SHORTEST} to {_LONGEST} printable characters on one line.",
                remedy=f"Copy it again from {self.origin}, and give it to `{self.storing}` alone.",
            )
        return key


API_KEY = KeyKind("API key", "api-key", None, "", "the console")
WEBHOOK_SECRET = KeyKind("webhook secret", "webhook-secret", "webhook-secret", " --webhook", "the webhook's receiver")
