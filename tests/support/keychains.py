"""A keychain for tests: a backend class as ``keyring`` documents it for third parties, named in its configuration file."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.files import put

_BACKEND = '''
import json, pathlib, time
from keyring import backend, errors

HERE = pathlib.Path(__file__).parent

class Chosen(backend.KeyringBackend):
    """Keeps its entries in a file, and behaves as another file says."""

    priority = {priority}

    def _entries(self, key=""):
        behaviour = (HERE / "behaviour").read_text()
        print("noise that is no answer")
        if behaviour == "locked":
            raise errors.KeyringLocked("the collection is locked")
        if behaviour == "hanging":
            (HERE / "asked").touch()
            time.sleep(600)
        if behaviour == "failing":
            raise errors.KeyringError("the service said no to " + key)
        file = HERE / "entries.json"
        return json.loads(file.read_text()) if file.exists() else {{}}

    def _write(self, entries):
        (HERE / "entries.json").write_text(json.dumps(entries))

    def get_password(self, service, username):
        return self._entries().get(service + "/" + username)

    def set_password(self, service, username, password):
        self._write({{**self._entries(password), service + "/" + username: password}})

    def delete_password(self, service, username):
        entries = self._entries()
        del entries[service + "/" + username]
        self._write(entries)
'''


class TestKeychain:
    """The keychain of one user; replaces whatever the machine has.

    Args:
        home: The user's home folder.
        priority: Below 1 ``keyring`` does not recommend a backend.
    """

    __test__ = False

    def __init__(self, home: Path, priority: float = 5) -> None:
        self._folder = home / "keychain"
        put(self._folder / "chosen_keychain.py", _BACKEND.format(priority=priority))
        settings = home / ".config" / "python_keyring"
        put(
            settings / "keyringrc.cfg",
            f"[backend]\ndefault-keyring=chosen_keychain.Chosen\nkeyring-path={self._folder}\n",
        )
        self.behave("well")

    def behave(self, behaviour: str) -> None:
        """``well``, ``locked``, ``hanging`` or ``failing``."""
        (self._folder / "behaviour").write_text(behaviour)

    @property
    def entries(self) -> dict[str, str]:
        """What it keeps."""
        file = self._folder / "entries.json"
        stored: dict[str, str] = json.loads(file.read_text()) if file.exists() else {}
        return stored

    @property
    def folder(self) -> Path:
        """Where it keeps it."""
        return self._folder


def no_keychain(home: Path) -> None:
    """Have a user without a keychain, whatever the machine has."""
    settings = home / ".config" / "python_keyring"
    put(settings / "keyringrc.cfg", "[backend]\ndefault-keyring=keyring.backends.fail.Keyring\n")
