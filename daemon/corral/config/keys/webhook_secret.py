"""The secret that notifications to the webhook are signed with: from the environment, else the keychain, else the encrypted file.

It is in no configuration file: those show their values, and one of them is in git.
"""

from __future__ import annotations

from collections.abc import Mapping

from corral.config import account
from corral.config.keys.key_file import KeyFile, config_folder
from corral.config.keys.keychain import TIMEOUT_S, WEBHOOK_SECRET, Keychain, NoKeychain

VARIABLE = "CORRAL_WEBHOOK_SECRET"


class WebhookSecret:
    """The places of one user.

    Args:
        environ: The environment of the asking process.
        timeout_s: Seconds that the keychain has.
    """

    def __init__(self, environ: Mapping[str, str], timeout_s: float = TIMEOUT_S) -> None:
        self._environ = environ
        self.keychain = Keychain(environ, timeout_s, WEBHOOK_SECRET)
        self.file = KeyFile(config_folder(environ, account.home()), WEBHOOK_SECRET)

    def find(self) -> str | None:
        """The secret; None if no place has one. The keychain is asked only if it was stored there; that may take long.

        Raises:
            ApiKeyUnavailable: The place that has it cannot be used.
        """
        if secret := self._environ.get(VARIABLE, "").strip():
            return secret
        if not self.file.is_in_keychain():
            return self.file.get()
        try:
            return self.keychain.get()
        except NoKeychain:
            return None

    def store(self, secret: str, *, in_file: bool) -> bool:
        """Store it; returns whether the keychain has it, and not the file. Raises as :meth:`find` does."""
        if not in_file:
            try:
                self.keychain.put(secret)
            except NoKeychain:
                pass
            else:
                self.file.point_to_keychain()
                return True
        self.file.put(secret)
        return False

    def remove(self) -> list[str]:
        """Remove it from the keychain and the file; returns which of them had it. Raises as :meth:`find` does."""
        in_keychain = self.file.is_in_keychain() and self.keychain.delete()
        in_file = self.file.delete()
        return [name for name, had in (("keychain", in_keychain), ("encrypted_file", in_file)) if had]
