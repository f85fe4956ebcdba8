"""Obtain a template: from the user's cache, or from its repository into the cache.

A folder per address below ``$XDG_CACHE_HOME/corral/templates``: ``repo.git`` (:mod:`corral.git.remote.store`) and
``versions.json``, which says what each version was when it was fetched. A tag that has become another commit is
refused, and so is a cache that was changed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from corral import __version__
from corral.core.errors import CorralError, GitFailed, InvalidInput, NotTrusted, Unsupported
from corral.core.instants import iso, parse
from corral.git.remote import archive, reading, versions
from corral.git.remote.address import Address
from corral.git.remote.parts import Part, Parts
from corral.git.remote.store import TemplateStore
from corral.git.remote.versions import LATEST, Choice

MOST_LOOKED_AT = 20
"""Releases that are looked at for one that suits this version of Corral."""


@dataclass(frozen=True)
class Policy:
    """The decisions of a person about fetched templates.

    Attributes:
        lifetime_s: How long a fetched version counts without a look at its repository.
        allowed_signers: See :mod:`corral.git.remote.signatures`; None: signatures are not looked at.
    """

    lifetime_s: float
    allowed_signers: Path | None = None


@dataclass(frozen=True)
class Kept:
    """One version as it was fetched.

    Attributes:
        name: The tag, branch or commit; of an archive or a folder ``latest``.
        fetched_at: When.
    """

    name: str
    kind: Literal["tag", "branch", "commit"]
    commit: str
    fetched_at: str


@dataclass(frozen=True)
class Obtained:
    """A template, whole and proven.

    Attributes:
        parts: The files of the template, by path.
        signer: Whose signature was verified; None: nobody asked for one.
        note: A warning, such as that the repository could not be reached; empty: nothing.
    """

    address: Address
    version: Kept
    parts: Mapping[str, Part]
    from_cache: bool
    signer: str | None = None
    note: str = ""


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """The folder of all cached templates."""
    base = environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if base.startswith("/") else home / ".cache") / "corral" / "templates"


class TemplateCache:
    """The cached templates of this user.

    Args:
        folder: See :func:`cache_folder`.
        pause: Wait some seconds.
        unsuitable: Why a template does not suit this Corral; empty if it does.
        shipped: The files of the template that comes with this Corral.
    """

    def __init__(
        self,
        folder: Path,
        pause: Callable[[float], None],
        policy: Policy,
        unsuitable: Callable[[Parts], str],
        shipped: Callable[[], Parts],
    ) -> None:
        self._folder, self._pause, self._policy, self._unsuitable = folder, pause, policy, unsuitable
        self._shipped = shipped

    def obtain(self, address: Address, version: str, now: datetime, *, update: bool = False) -> Obtained:
        """Obtain a version of a template.

        Args:
            version: A tag, a branch, a commit, or ``latest``: the highest release that suits this Corral.
            update: Whether to look at the repository though the cache is young enough.

        Raises:
            GitFailed: It is not in the cache, and cannot be fetched.
            NotFound: There is no such version.
            NotTrusted: A tag has moved, the cache was changed, or nobody who is allowed to has signed it.
            InvalidInput: It is too large.
        """
        versions.require_name(version)
        if address.kind != "git" and version != LATEST:
            raise InvalidInput(f"{address} has no versions: it is no git repository.", remedy="Leave --version out.")
        with self._slot(address) as slot:
            kept = slot.kept(version)
            is_young = kept is not None and self._is_young(kept, now)
            if address.kind == "git" and kept is not None and is_young and not update and slot.store.has(kept.commit):
                return self._cached(slot, address, kept)
            try:
                found, note = self._fetched(slot, address, version, now)
            except GitFailed as error:
                if update or kept is None or not slot.store.has(kept.commit):
                    raise
                return self._cached(slot, address, kept, error.message)
            return self._proven(slot, address, found, from_cache=False, note=note)

    def _fetched(self, slot: _Slot, address: Address, version: str, now: datetime) -> tuple[Kept, str]:
        """Fetch a version; of ``latest`` the first release that suits, and if none does the highest."""
        releases = versions.by_release(slot.store.remote_refs(address)) if self._may_choose(address, version) else []
        passed = ""
        for choice in releases[:MOST_LOOKED_AT]:
            found = slot.fetch(address, choice.name, now)
            reason = self._unsuitable(slot.store.read(found.commit, address.subfolder))
            if not reason:
                slot.note(address, version, found)
                return found, f"{passed} {found.name} is the newest that suits." if passed else ""
            passed = passed or f"The newest release is {choice.name}. {reason}"
        return slot.fetch(address, version, now), ""

    @staticmethod
    def _may_choose(address: Address, version: str) -> bool:
        return address.kind == "git" and version == LATEST

    def at_commit(self, address: Address, kept: Kept, now: datetime) -> Obtained:
        """Obtain exactly one commit of a template, from the cache if it is there; who signed it does not matter.

        Raises:
            CorralError: As :meth:`obtain`; of an archive or a folder, also when it has changed since.
        """
        with self._slot(address) as slot:
            if slot.store.has(kept.commit):
                slot.store.prove()
                return Obtained(address, kept, slot.store.read(kept.commit, address.subfolder), from_cache=True)
            found = slot.fetch(address, kept.commit if address.kind == "git" else LATEST, now)
            if found.commit != kept.commit:
                raise _gone(address, kept)
            return Obtained(address, kept, slot.store.read(kept.commit, address.subfolder), from_cache=False)

    def signer(self, address: Address, kept: Kept, now: datetime) -> str | None:
        """Whose signature a version has; None: nobody asked for one.

        Raises:
            NotTrusted: Nobody who is allowed to has signed it.
            GitFailed: Its tag is not in the cache, and cannot be fetched.
        """
        with self._slot(address) as slot:
            if self._policy.allowed_signers is not None and kept.kind == "tag" and not slot.store.has_tag(kept.name):
                slot.fetch(address, kept.name, now)
            return self._signer(slot, address, kept)

    def listing(self) -> list[dict[str, Any]]:
        """Every cached version: ``{source, version, kind, commit, fetched_at, bytes}``."""
        rows = []
        for place in sorted(self._folder.glob("*/versions.json")):
            said = _read(place)
            size = sum(file.lstat().st_size for file in place.parent.rglob("*") if file.is_file())
            for kept in said.get("versions", {}).values():
                rows.append({"source": said.get("source", ""), "version": kept["name"], **kept, "bytes": size})
        return rows

    def clear(self) -> int:
        """Remove everything from the cache; returns the number of templates."""
        places = [place for place in self._folder.glob("*") if place.is_dir() and not place.is_symlink()]
        for place in places:
            shutil.rmtree(place)
        return len(places)

    def current(self, address: Address, kept: Kept) -> str | None:
        """The commit that a version is in the repository now; None if it cannot be reached or no longer has it."""
        if address.kind not in ("git", "shipped"):
            return None
        with self._slot(address) as slot:
            if address.kind == "shipped":
                return slot.store.keep(self._shipped())
            try:
                return versions.choose(slot.store.remote_refs(address), kept.name).commit
            except CorralError:
                return None

    def _is_young(self, kept: Kept, now: datetime) -> bool:
        age = now - parse(kept.fetched_at)
        return kept.kind == "commit" or timedelta(0) <= age < timedelta(seconds=self._policy.lifetime_s)

    def _cached(self, slot: _Slot, address: Address, kept: Kept, unreachable: str = "") -> Obtained:
        slot.store.prove()
        note = f"The cached version of {kept.fetched_at} is used. {unreachable}" if unreachable else ""
        return self._proven(slot, address, kept, from_cache=True, note=note)

    def _proven(self, slot: _Slot, address: Address, kept: Kept, *, from_cache: bool, note: str = "") -> Obtained:
        signer = self._signer(slot, address, kept)
        return Obtained(address, kept, slot.store.read(kept.commit, address.subfolder), from_cache, signer, note)

    def _signer(self, slot: _Slot, address: Address, kept: Kept) -> str | None:
        if (allowed := self._policy.allowed_signers) is None or address.kind == "shipped":
            return None
        if address.kind != "git":
            raise NotTrusted(
                f"{address} cannot be signed: it is no git repository.",
                cause="`templates.allowed_signers` accepts signed versions only.",
                remedy="Name the repository that it comes from.",
            )
        return slot.store.signer(kept.commit, kept.name if kept.kind == "tag" else None, allowed)

    @contextlib.contextmanager
    def _slot(self, address: Address) -> Iterator[_Slot]:
        import portalocker

        place = self._folder / hashlib.sha256(address.url.encode()).hexdigest()[:24]
        try:
            place.mkdir(mode=0o700, parents=True, exist_ok=True)
            if place.is_symlink() or place.stat().st_uid != os.geteuid():
                raise NotTrusted(f"{place} is not a folder of yours.", remedy="Remove it, or set XDG_CACHE_HOME.")
            with (place / "lock").open("w") as lock:
                portalocker.lock(lock, portalocker.LockFlags.EXCLUSIVE)
                yield _Slot(place, TemplateStore(place / "repo.git", self._pause), self._shipped)
        except OSError as error:
            raise InvalidInput(
                f"Cannot keep templates in {self._folder}.",
                cause=str(error.strerror or error),
                remedy="Make it writable, or free space, or set XDG_CACHE_HOME.",
            ) from error


class _Slot:
    """The cache of one template, locked."""

    def __init__(self, place: Path, store: TemplateStore, shipped: Callable[[], Parts]) -> None:
        self.store, self._shipped = store, shipped
        self._file = place / "versions.json"
        self._said = _read(self._file)

    def kept(self, version: str) -> Kept | None:
        try:
            return Kept(**self._said["versions"][version])
        except (KeyError, TypeError):
            return None

    def fetch(self, address: Address, version: str, now: datetime) -> Kept:
        """Fetch a version, refuse a tag that has moved, and note what it is."""
        found = self._fetched(address, version, now)
        before = self.kept(found.name)
        if before is not None and before.kind == found.kind == "tag" and before.commit != found.commit:
            raise NotTrusted(
                f"The tag {found.name} of {address.url} has moved.",
                cause=f"It was the commit {before.commit[:12]} on {before.fetched_at}, and is {found.commit[:12]} now.",
                remedy="Ask its maintainers. To accept what it is now: `corral template cache --clear`, then try again.",
            )
        self.note(address, version, found)
        return found

    def note(self, address: Address, version: str, found: Kept) -> None:
        """Note the commit of a version."""
        noted = {**self._said.get("versions", {}), version: asdict(found), found.name: asdict(found)}
        self._said = {"source": address.url, "versions": noted}
        partial = self._file.with_suffix(".new")
        partial.write_text(json.dumps(self._said, indent=2) + "\n", encoding="utf-8")
        partial.replace(self._file)

    def _fetched(self, address: Address, version: str, now: datetime) -> Kept:
        at = iso(now)
        if address.kind == "shipped":
            return Kept(__version__, "commit", self.store.keep(self._shipped()), at)
        if address.kind != "git":
            return Kept(LATEST, "commit", self.store.keep(_unpacked(address)), at)
        choice: Choice = versions.choose(self.store.remote_refs(address), version)
        commit = self.store.fetch(address, choice)
        return Kept(commit if choice.kind == "commit" else choice.name, choice.kind, commit, at)


def _gone(address: Address, kept: Kept) -> Unsupported:
    if address.kind == "shipped":
        return Unsupported(
            f"The template that Corral {kept.name} shipped is no longer to be had.",
            cause="This Corral ships another one, and the cache of this machine does not have the old one.",
            remedy="Run the command where the project was prepared, or with that version of Corral.",
        )
    return Unsupported(
        f"The version of {address} that was installed is no longer to be had.",
        cause="The archive or folder has changed, and the cache no longer has what it was.",
        remedy="Put the old one back, or install the new one with `corral init --template`.",
    )


def _unpacked(address: Address) -> dict[str, Part]:
    if address.kind == "folder":
        return archive.of_folder(Path(address.url))
    return reading.read(address)


def _read(file: Path) -> dict[str, Any]:
    try:
        said = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return said if isinstance(said, dict) and isinstance(said.get("versions", {}), dict) else {}
