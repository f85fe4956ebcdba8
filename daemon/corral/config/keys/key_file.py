"""A key in an encrypted file, for systems without a keychain: AES-256-GCM.

``api-key.json`` holds the ciphertext, ``api-key.secret`` the 32 bytes that decrypt it; both have mode 0600 in a folder of
mode 0700. A copy of one file alone, in a backup or a bug report, is worthless. It is no protection against programs of the
same user.
"""

from __future__ import annotations

import base64
import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from corral.config.account import base_folder
from corral.config.keys.keychain import API_KEY, KeyKind
from corral.config.ownership import is_own
from corral.core.errors import ApiKeyUnavailable

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_KEYCHAIN = "keychain"
_SECRET_BYTES = 32
_NONCE_BYTES = 12
_LARGEST = 64 * 1024
_BOUND_TO = b"corral anthropic-api-key 1"


def config_folder(environ: Mapping[str, str], home: Path) -> Path:
    """Corral's folder in the user's configuration folder."""
    return base_folder("CONFIG", environ, home) / "corral"


class KeyFile:
    """The encrypted key of one user.

    Args:
        folder: See :func:`config_folder`; created with mode 0700 when a key is stored.
        kind: Which key; each has its own files.
    """

    def __init__(self, folder: Path, kind: KeyKind = API_KEY) -> None:
        self._folder = folder
        self._kind = kind
        self.path = folder / f"{kind.files}.json"
        self._secret = folder / f"{kind.files}.secret"

    def get(self) -> str | None:
        """The stored key, or None.

        Raises:
            ApiKeyUnavailable: The files are not this user's alone, or damaged.
        """
        data = self._read(self.path)
        if data is None or self.is_in_keychain():
            return None
        secret = self._read(self._secret)
        try:
            stored = json.loads(data)
            nonce, sealed = (base64.b64decode(stored[name], validate=True) for name in ("nonce", "ciphertext"))
            return _cipher(secret or b"").decrypt(nonce, sealed, _BOUND_TO).decode()
        except Exception as error:
            raise ApiKeyUnavailable(
                f"The {self._kind.words} in {self.path} cannot be decrypted.",
                cause=f"It or {self._secret.name} was damaged, replaced or removed.",
                remedy=f"Store it again: `{self._kind.storing}`.",
            ) from error

    def is_in_keychain(self) -> bool:
        """Whether the key was stored in the keychain instead."""
        try:
            return bool(json.loads(self._read(self.path) or b"{}").get("kept_in") == _KEYCHAIN)
        except (ValueError, AttributeError):
            return False

    def put(self, key: str) -> None:
        """Store the key; durable when it returns.

        Raises:
            ApiKeyUnavailable: The folder cannot be written, or is not this user's.
        """
        with self._writing("stored"):
            self._own_folder()
            nonce = os.urandom(_NONCE_BYTES)
            sealed = _cipher(self._create_secret()).encrypt(nonce, key.encode(), _BOUND_TO)
            self._replace({"cipher": "AES-256-GCM", "nonce": _text(nonce), "ciphertext": _text(sealed)})

    def point_to_keychain(self) -> None:
        """Replace a key in the file by a note that the keychain has it; raises as :meth:`put` does."""
        with self._writing("replaced"):
            self._own_folder()
            self._replace({"kept_in": _KEYCHAIN})
            self._secret.unlink(missing_ok=True)

    def delete(self) -> bool:
        """Delete the key and what decrypts it; returns whether there was one.

        Raises:
            ApiKeyUnavailable: The folder cannot be written.
        """
        existed = self.path.exists() and not self.is_in_keychain()
        with self._writing("removed"):
            self.path.unlink(missing_ok=True)
            self._secret.unlink(missing_ok=True)
        return existed

    @contextmanager
    def _writing(self, done: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._failure(done, error) from error

    def _replace(self, stored: Mapping[str, str]) -> None:
        self._write_temporary(json.dumps({"version": 1, **stored}).encode()).replace(self.path)
        self._sync()

    def _failure(self, done: str, error: OSError) -> ApiKeyUnavailable:
        return ApiKeyUnavailable(
            f"The {self._kind.words} in {self._folder} cannot be {done}.",
            cause=f"{error.strerror or error}.",
            remedy=f"Make {self._folder} a writable folder of your own, with free space.",
        )

    def _own_folder(self) -> None:
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self._folder.stat()
        if not is_own(status.st_uid):
            raise PermissionError(1, f"it belongs to uid {status.st_uid}")
        if status.st_mode & 0o077:
            self._folder.chmod(0o700)

    def _create_secret(self) -> bytes:
        """The secret; a link makes it, so that of two processes that store at once the first one's is used by both."""
        secret = self._read(self._secret)
        if secret is not None and len(secret) == _SECRET_BYTES:
            return secret
        if secret is not None:
            self._secret.unlink()
        partial = self._write_temporary(os.urandom(_SECRET_BYTES))
        with suppress(FileExistsError):
            self._secret.hardlink_to(partial)
        partial.unlink()
        return self._read(self._secret) or b""

    def _write_temporary(self, data: bytes) -> Path:
        number, name = tempfile.mkstemp(dir=self._folder, prefix=".api-key-")  # mode 0600
        try:
            with os.fdopen(number, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
        except BaseException:
            Path(name).unlink()
            raise
        return Path(name)

    def _sync(self) -> None:
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _read(self, path: Path) -> bytes | None:
        """A private file's bytes; None if there is none."""
        try:
            number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise self._failure("read", error) from error
        try:
            status = os.fstat(number)
            if not stat.S_ISREG(status.st_mode) or not is_own(status.st_uid) or status.st_mode & 0o077:
                raise ApiKeyUnavailable(
                    f"{path} is not a private file of yours, so the {self._kind.words} in it is not used.",
                    cause=f"Its mode is {stat.S_IMODE(status.st_mode):04o}, its owner uid {status.st_uid}.",
                    remedy=f"If others could read it, replace what is in it. Then: chmod 600 {path}",
                )
            return os.read(number, _LARGEST)
        finally:
            os.close(number)


def _cipher(secret: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM  # slow to import, and seldom needed

    return AESGCM(secret)


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()
