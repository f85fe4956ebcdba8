"""The system's keychain, through the library ``keyring``, in a process of its own.

A keychain that waits for a person or a dead service cannot be interrupted in this process; a process can be killed. The
key goes through pipes only. The daemon never loads the library.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from corral.config.paths import import_folders
from corral.core.errors import ApiKeyUnavailable, InvalidInput

# -- The kinds of keys: how each is called in messages, where it is kept, and which command stores it

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


TIMEOUT_S = 10.0
"""Seconds that a keychain has to answer a program."""
PERSON_TIMEOUT_S = 60.0
"""Seconds that a keychain has to answer a person, whom it may ask to unlock it."""

# Isolated, with the folder of this very package first and that of the library last.
_START = (
    "import sys; sys.path[:0] = sys.argv[1:2]; sys.path += sys.argv[2:]; "
    "from corral.config.keys.keychain_process import main; main()"
)
_UNLOCK = "Unlock it and try again; or keep the {words} in an encrypted file: `{storing} --file`."


class NoKeychain(Exception):
    """The system has no keychain, or only one that does not encrypt."""


class Keychain:
    """The key's entry in the keychain.

    Args:
        environ: The environment of the process that asks; variables of Claude are left out.
        timeout_s: Seconds after which it is killed.
        kind: Whose entry it is.
    """

    def __init__(self, environ: Mapping[str, str], timeout_s: float = TIMEOUT_S, kind: KeyKind = API_KEY) -> None:
        self._environ = {name: value for name, value in environ.items() if not name.startswith("ANTHROPIC_")}
        self._timeout_s = timeout_s
        self._account = {} if kind.account is None else {"account": kind.account}
        self._remedy = _UNLOCK.format(words=kind.words, storing=kind.storing)

    def get(self) -> str | None:
        """The stored key, or None.

        Raises:
            NoKeychain: There is none.
            ApiKeyUnavailable: It is locked, does not answer, or fails.
        """
        key = self._ask({"do": "get"}).get("key")
        return key if isinstance(key, str) else None

    def put(self, key: str) -> None:
        """Store the key; raises as :meth:`get` does."""
        self._ask({"do": "set", "key": key})

    def delete(self) -> bool:
        """Delete the key; returns whether there was one. Raises as :meth:`get` does."""
        return bool(self._ask({"do": "delete"}).get("deleted"))

    def _ask(self, request: Mapping[str, str]) -> dict[str, Any]:
        answer = self._answer(request)
        problem = answer.get("problem")
        if problem == "none":
            raise NoKeychain
        if problem == "locked":
            raise ApiKeyUnavailable("The system's keychain is locked.", cause=_cause(answer), remedy=self._remedy)
        if problem is not None:
            raise ApiKeyUnavailable("The system's keychain failed.", cause=_cause(answer), remedy=self._remedy)
        return answer

    def _answer(self, request: Mapping[str, str]) -> dict[str, Any]:
        argv = [sys.executable, "-I", "-c", _START, *import_folders("keyring")]
        try:
            child = subprocess.Popen(
                argv,
                cwd="/",
                env=self._environ,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ApiKeyUnavailable(
                "The system's keychain cannot be asked.", cause=str(error.strerror), remedy=self._remedy
            ) from error
        with child:
            try:
                data, _ = child.communicate(json.dumps({**request, **self._account}).encode(), timeout=self._timeout_s)
            except subprocess.TimeoutExpired as error:
                raise ApiKeyUnavailable(
                    f"The system's keychain did not answer within {self._timeout_s:g} s.",
                    cause="It waits to be unlocked, or its service does not run.",
                    remedy=self._remedy,
                ) from error
            finally:
                _end(child)
        try:
            answer = json.loads(data)
        except ValueError:
            answer = {"problem": "failed", "why": f"Its process ended with {child.returncode}."}
        return answer if isinstance(answer, dict) else {}


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill it with what it has started, unless it has been reaped."""
    if child.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child.pid, signal.SIGKILL)


def _cause(answer: Mapping[str, Any]) -> str:
    return str(answer.get("why") or "")[:300]
