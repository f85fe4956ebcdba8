"""The address of a template: ``URL[#SUBFOLDER]``, parsed and checked before git sees any of it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from corral.core.errors import InvalidInput, NotFound

TRANSPORTS = ("https", "http", "ssh", "git", "file")
ARCHIVES = (".tar.gz", ".tgz", ".tar.xz", ".tar.bz2", ".tar", ".zip")

_HELPER = re.compile(r"[A-Za-z0-9+.-]+::")
_URL = re.compile(r"([a-z][a-z0-9+.-]*)://([^/?#]*)(.*)", re.DOTALL)
_SCP = re.compile(r"(?:[A-Za-z0-9._-]+@)?([A-Za-z0-9.][A-Za-z0-9.-]*):(?!//)(.+)", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """A template's place.

    Attributes:
        url: As git takes it, without a secret; a local path is absolute.
        transport: The only one that git may use for it.
        kind: ``shipped`` is the template that comes with Corral.
        subfolder: The template's folder within; empty: the top.
    """

    url: str
    transport: str
    kind: Literal["git", "archive", "folder", "shipped"]
    subfolder: str = ""

    def __str__(self) -> str:
        return f"{self.url}#{self.subfolder}" if self.subfolder else self.url


def parse(text: str, here: Path) -> Address:
    """Read an address.

    Args:
        here: Relative paths start there.

    Raises:
        InvalidInput: It is no address, contains a password, or names a transport that could run a command.
        NotFound: A local path does not exist.
    """
    if not text.strip() or not text.isprintable():
        raise _refusal(text, "It is empty, or contains a control character.")
    if text.startswith("-"):
        raise _refusal(text, "It begins with `-`, which git would take as an option.")
    if _HELPER.match(text):
        raise _refusal(text, "`NAME::ADDRESS` makes git run a program of that name.")
    url, _, subfolder = (text, "", "") if (here / text).exists() else text.partition("#")
    folder = _subfolder(text, subfolder)
    if remote := _URL.fullmatch(url):
        if remote[1] not in TRANSPORTS:
            raise _refusal(text, f"There is no transport {remote[1]!r} here: use one of {', '.join(TRANSPORTS)}.")
        if remote[1] == "file":
            return _local(text, Path(remote[3]), folder)
        return _remote(text, url, remote[1], remote[2], folder)
    path = Path(url).expanduser()
    scp = _SCP.fullmatch(url)
    if scp and not (here / path).exists():
        return Address(url, "ssh", "git", folder)
    return _local(text, here / path, folder)


def _remote(text: str, url: str, transport: str, authority: str, subfolder: str) -> Address:
    user, at, host = authority.rpartition("@")
    if at and (":" in user or transport in ("http", "https")):
        raise _refusal(
            text.replace(f"{user}@", "…@"),
            "It contains credentials, which would be stored with the project.",
            "Leave them out; git asks your credential helper or SSH agent.",
        )
    if not host or host.startswith("-"):
        raise _refusal(text, "It names no host.")
    is_archive = transport in ("http", "https") and url.lower().endswith(ARCHIVES)
    return Address(url, transport, "archive" if is_archive else "git", subfolder)


def _local(text: str, path: Path, subfolder: str) -> Address:
    place = path.resolve()
    if not place.exists():
        raise NotFound(
            f"There is no template at {text!r}.",
            cause=f"{place} does not exist, and it is no URL.",
            remedy="Name a git URL, a git repository, a folder, or an archive (.tar.gz, .zip).",
        )
    if place.is_file():
        if place.suffix == ".bundle":
            return Address(str(place), "file", "git", subfolder)
        if not place.name.lower().endswith(ARCHIVES):
            raise _refusal(text, f"{place} is a file, and no archive ({', '.join(ARCHIVES)}).")
        return Address(str(place), "file", "archive", subfolder)
    is_git = (place / ".git").exists() or ((place / "HEAD").is_file() and (place / "objects").is_dir())
    return Address(str(place), "file", "git" if is_git else "folder", subfolder)


def _subfolder(text: str, subfolder: str) -> str:
    pure = PurePosixPath(subfolder)
    if subfolder and (pure.is_absolute() or ".." in pure.parts or "\\" in subfolder):
        raise _refusal(text, f"The subfolder {subfolder!r} leads out of the repository.")
    return "" if str(pure) == "." else str(pure)


def _refusal(
    text: str, cause: str, remedy: str = "Use https://, ssh://, git@host:path, or a local path."
) -> InvalidInput:
    return InvalidInput(f"{text!r} is no address of a template.", cause=cause, remedy=remedy)
