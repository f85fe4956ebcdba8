"""The source of the key for the Messages API: the environment, the keychain, the encrypted file, or the project's ``.env``.

The first place that has a key wins. A place that fails is an error: a later one could have another key. Only a keychain
in which Corral stored nothing is passed over, and is the error if no other place has a key.
"""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from corral.config import account
from corral.config.keys.key_file import KeyFile, config_folder
from corral.config.keys.keychain import API_KEY, TIMEOUT_S, WEBHOOK_SECRET, Keychain, NoKeychain
from corral.config.ownership import is_own
from corral.config.paths import Project
from corral.core.errors import ApiKeyUnavailable, InvalidInput

VARIABLE = "ANTHROPIC_API_KEY"
_SHOWN = 4
_SHOWN_FROM = 20
"""The shortest key of which the end is shown."""


class Source(Enum):
    """A place that can have the key, in the order in which they are asked."""

    ENVIRONMENT = "environment"
    KEYCHAIN = "keychain"
    FILE = "encrypted_file"
    DOTENV = "dotenv"


@dataclass(frozen=True)
class ApiKey:
    """A key and its source; its text never appears in a representation."""

    value: str = field(repr=False)
    source: Source

    @property
    def ending(self) -> str | None:
        """Its last four characters; None if it is so short that they would tell much of it."""
        return self.value[-_SHOWN:] if len(self.value) >= _SHOWN_FROM else None


@dataclass(frozen=True)
class Lookup:
    """The answer of one place.

    Attributes:
        key: The key, if it has one.
        note: Why it has none, or what is wrong with keeping it there; a sentence.
        error: Why the place could not be asked.
    """

    source: Source
    key: ApiKey | None = None
    note: str = ""
    error: ApiKeyUnavailable | None = None


@dataclass(frozen=True)
class Places:
    """The places of one user and project.

    Attributes:
        environ: The environment of the asking process.
        dotenv: The project's ``.env``; None without a project.
        is_tracked: Whether git tracks that file; None if it neither tracks nor ignores it.
    """

    environ: Mapping[str, str]
    keychain: Keychain
    file: KeyFile
    dotenv: Path | None
    is_tracked: Callable[[Path], bool | None]

    def lookups(self) -> Iterator[Lookup]:
        """Ask each place in turn; each is asked only when the iterator reaches it."""
        for source, ask in (
            (Source.ENVIRONMENT, lambda: self.environ.get(VARIABLE)),
            (Source.KEYCHAIN, self._from_keychain),
            (Source.FILE, self.file.get),
        ):
            yield _look_up(source, ask)
        yield self._from_dotenv()

    def find(self) -> ApiKey | None:
        """The key; None if no place has one.

        Raises:
            ApiKeyUnavailable: A place that was asked before one had a key failed.
        """
        passed_over: ApiKeyUnavailable | None = None
        for lookup in self.lookups():
            if lookup.error is not None and lookup.source is Source.KEYCHAIN and not self.file.is_in_keychain():
                passed_over = lookup.error
            elif lookup.error is not None:
                raise lookup.error
            if lookup.key is not None:
                return lookup.key
        if passed_over is not None:
            raise passed_over
        return None

    def _from_keychain(self) -> str | None:
        try:
            return self.keychain.get()
        except NoKeychain:
            return None

    def _from_dotenv(self) -> Lookup:
        path = self.dotenv
        if path is None:
            return Lookup(Source.DOTENV)
        lookup = _look_up(Source.DOTENV, lambda: read_variable(path, VARIABLE))
        if lookup.key is None:
            return lookup
        tracked = self.is_tracked(path)
        if tracked:
            return Lookup(
                Source.DOTENV,
                error=ApiKeyUnavailable(
                    f"{path} is tracked by git, so the API key in it is not used.",
                    cause="Everybody who has the repository has that key; or somebody brought it with the repository.",
                    remedy="Replace the key, then: git rm --cached .env, and add .env to .gitignore.",
                ),
            )
        if tracked is None:
            return Lookup(Source.DOTENV, lookup.key, "git does not ignore it: add .env to .gitignore.")
        return lookup


def places_of(
    project: Project | None,
    environ: Mapping[str, str],
    is_tracked: Callable[[Path], bool | None],
    timeout_s: float = TIMEOUT_S,
) -> Places:
    """The places of this user and a project."""
    return Places(
        environ,
        Keychain(environ, timeout_s),
        KeyFile(config_folder(environ, account.home())),
        None if project is None or project.bare else project.root / ".env",
        is_tracked,
    )


def _look_up(source: Source, ask: Callable[[], str | None]) -> Lookup:
    try:
        key = (ask() or "").strip()
        return Lookup(source, ApiKey(API_KEY.checked(key), source) if key else None)
    except ApiKeyUnavailable as error:
        return Lookup(source, error=error)
    except InvalidInput as error:
        problem = f"The text in the place {source.value} is no API key."
        return Lookup(source, error=ApiKeyUnavailable(problem, cause=error.cause, remedy="Correct or remove it."))


# -- ``ANTHROPIC_API_KEY`` in the file ``.env`` of a project's root

_LARGEST = 1_000_000


def read_variable(path: Path, name: str) -> str | None:
    """The value of a variable; None if there is no such file or variable. Nothing in the file is expanded.

    Raises:
        ApiKeyUnavailable: It cannot be read, or belongs to another user.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unusable(path, f"{error.strerror}.") from error
    try:
        status = os.fstat(number)
        if not stat.S_ISREG(status.st_mode):
            return None
        if not is_own(status.st_uid):
            raise _unusable(path, f"It belongs to uid {status.st_uid}.")
        data = os.read(number, _LARGEST + 1)
    finally:
        os.close(number)
    if len(data) > _LARGEST:
        raise _unusable(path, f"It has more than {_LARGEST} bytes.")
    return _parse(data.decode("utf-8", "replace"), name)


def _parse(text: str, name: str) -> str | None:
    from dotenv import dotenv_values  # seldom needed

    return dotenv_values(stream=io.StringIO(text), interpolate=False).get(name)


def _unusable(path: Path, cause: str) -> ApiKeyUnavailable:
    return ApiKeyUnavailable(
        f"{path} cannot be read for an API key.",
        cause=cause,
        remedy="Make it a readable file of your own, or remove it.",
    )


# -- The secret that notifications to the webhook are signed with: from the environment, else the keychain, else the
# encrypted file.
#
# It is in no configuration file: those show their values, and one of them is in git.

WEBHOOK_VARIABLE = "CORRAL_WEBHOOK_SECRET"


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
        if secret := self._environ.get(WEBHOOK_VARIABLE, "").strip():
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
