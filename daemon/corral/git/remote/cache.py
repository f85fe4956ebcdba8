"""Obtain a template: from the user's cache, or from its repository into the cache.

A folder per address below ``$XDG_CACHE_HOME/corral/templates``: ``repo.git`` (:mod:`corral.git.remote.store`) and
``versions.json``, which records the commit of each version when it was fetched. A tag that has moved to another commit is
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
from corral.config.account import base_folder
from corral.core import files
from corral.core.errors import CorralError, GitFailed, InvalidInput, NotTrusted, Unsupported
from corral.core.instants import iso, parse
from corral.git.remote import archive, reading, versions
from corral.git.remote.address import Address
from corral.git.remote.parts import Part, Parts
from corral.git.remote.store import TemplateStore
from corral.git.remote.versions import LATEST, Choice

MOST_TRIED = 20
"""Maximum number of releases that are tried until one suits this version of Corral."""


@dataclass(frozen=True)
class Policy:
    """The decisions of a person about fetched templates.

    Attributes:
        lifetime_s: Seconds for which a fetched version is used without asking its repository.
        allowed_signers: See :mod:`corral.git.remote.store`; None: signatures are not checked.
    """

    lifetime_s: float
    allowed_signers: Path | None = None


@dataclass(frozen=True)
class FetchedVersion:
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
        signer: The signer whose signature was verified; None: no signature is required.
        note: A warning, such as that the repository could not be reached; empty: nothing.
    """

    address: Address
    version: FetchedVersion
    parts: Mapping[str, Part]
    from_cache: bool
    signer: str | None = None
    note: str = ""


def cache_folder(environ: Mapping[str, str], home: Path) -> Path:
    """The folder of all cached templates."""
    return base_folder("CACHE", environ, home) / "corral" / "templates"


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
            update: Whether to ask the repository even if the cache is young enough.

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
            cached = slot.recorded(version)
            is_fresh = cached is not None and not update and self._is_young(cached, now)
            if address.kind == "git" and cached is not None and is_fresh and slot.store.has(cached.commit):
                return self._from_cache(slot, address, cached)
            try:
                fetched, note = self._fetched(slot, address, version, now)
            except GitFailed as error:
                if update or cached is None or not slot.store.has(cached.commit):
                    raise
                return self._from_cache(slot, address, cached, error.message)
            return self._obtained(slot, address, fetched, from_cache=False, note=note)

    def _fetched(self, slot: _Slot, address: Address, version: str, now: datetime) -> tuple[FetchedVersion, str]:
        """Fetch a version; of ``latest`` the first release that suits, and if none does the highest."""
        chooses = address.kind == "git" and version == LATEST
        releases = versions.by_release(slot.store.remote_refs(address)) if chooses else []
        note = ""
        for choice in releases[:MOST_TRIED]:
            fetched = slot.fetch(address, choice.name, now)
            reason = self._unsuitable(slot.store.read(fetched.commit, address.subfolder))
            if not reason:
                slot.note(address, version, fetched)
                return fetched, f"{note} {fetched.name} is the newest that suits." if note else ""
            note = note or f"The newest release is {choice.name}. {reason}"
        return slot.fetch(address, version, now), ""

    def at_commit(self, address: Address, fetched: FetchedVersion, now: datetime) -> Obtained:
        """Obtain exactly one commit of a template, from the cache if it is there; who signed it does not matter.

        Raises:
            CorralError: As :meth:`obtain`; of an archive or a folder, also when it has changed since.
        """
        with self._slot(address) as slot:
            if slot.store.has(fetched.commit):
                slot.store.prove()
                return Obtained(address, fetched, slot.store.read(fetched.commit, address.subfolder), from_cache=True)
            current = slot.fetch(address, fetched.commit if address.kind == "git" else LATEST, now)
            if current.commit != fetched.commit:
                raise _gone(address, fetched)
            return Obtained(address, fetched, slot.store.read(fetched.commit, address.subfolder), from_cache=False)

    def signer(self, address: Address, fetched: FetchedVersion, now: datetime) -> str | None:
        """The signer of a version; None: no signature is required.

        Raises:
            NotTrusted: Nobody who is allowed to has signed it.
            GitFailed: Its tag is not in the cache, and cannot be fetched.
        """
        with self._slot(address) as slot:
            if self._policy.allowed_signers and fetched.kind == "tag" and not slot.store.has_tag(fetched.name):
                slot.fetch(address, fetched.name, now)
            return self._signer(slot, address, fetched)

    def list_versions(self) -> list[dict[str, Any]]:
        """Every cached version: ``{source, version, kind, commit, fetched_at, bytes}``."""
        rows = []
        for place in sorted(self._folder.glob("*/versions.json")):
            record = _read(place)
            size = sum(file.lstat().st_size for file in place.parent.rglob("*") if file.is_file())
            named = {entry["name"]: entry for entry in record.get("versions", {}).values()}  # `latest` is one of them
            for entry in named.values():
                rows.append({"source": record.get("source", ""), "version": entry["name"], **entry, "bytes": size})
        return rows

    def clear(self) -> int:
        """Remove everything from the cache; returns the number of templates."""
        places = [place for place in self._folder.glob("*") if place.is_dir() and not place.is_symlink()]
        for place in places:
            shutil.rmtree(place)
        return len(places)

    def current(self, address: Address, fetched: FetchedVersion) -> str | None:
        """The commit that a version is in the repository now; None if it cannot be reached or no longer has it."""
        if address.kind not in ("git", "shipped"):
            return None
        with self._slot(address) as slot:
            if address.kind == "shipped":
                return slot.store.keep(self._shipped())
            try:
                return versions.choose(slot.store.remote_refs(address), fetched.name).commit
            except CorralError:
                return None

    def _is_young(self, fetched: FetchedVersion, now: datetime) -> bool:
        age = now - parse(fetched.fetched_at)
        return fetched.kind == "commit" or timedelta(0) <= age < timedelta(seconds=self._policy.lifetime_s)

    def _from_cache(self, slot: _Slot, address: Address, fetched: FetchedVersion, unreachable: str = "") -> Obtained:
        slot.store.prove()
        note = f"The cached version of {fetched.fetched_at} is used. {unreachable}" if unreachable else ""
        return self._obtained(slot, address, fetched, from_cache=True, note=note)

    def _obtained(
        self, slot: _Slot, address: Address, fetched: FetchedVersion, *, from_cache: bool, note: str = ""
    ) -> Obtained:
        signer = self._signer(slot, address, fetched)
        return Obtained(address, fetched, slot.store.read(fetched.commit, address.subfolder), from_cache, signer, note)

    def _signer(self, slot: _Slot, address: Address, fetched: FetchedVersion) -> str | None:
        if (allowed := self._policy.allowed_signers) is None or address.kind == "shipped":
            return None
        if address.kind != "git":
            raise NotTrusted(
                f"{address} cannot be signed: it is no git repository.",
                cause="`templates.allowed_signers` accepts signed versions only.",
                remedy="Name the repository that it comes from.",
            )
        return slot.store.signer(fetched.commit, fetched.name if fetched.kind == "tag" else None, allowed)

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
        self._record = _read(self._file)

    def recorded(self, version: str) -> FetchedVersion | None:
        try:
            return FetchedVersion(**self._record["versions"][version])
        except (KeyError, TypeError):
            return None

    def fetch(self, address: Address, version: str, now: datetime) -> FetchedVersion:
        """Fetch a version, refuse a tag that has moved, and note what it is."""
        fetched = self._fetched(address, version, now)
        before = self.recorded(fetched.name)
        if before is not None and before.kind == fetched.kind == "tag" and before.commit != fetched.commit:
            raise NotTrusted(
                f"The tag {fetched.name} of {address.url} has moved.",
                cause=f"It was the commit {before.commit[:12]} on {before.fetched_at}, and is {fetched.commit[:12]} now.",
                remedy="Ask its maintainers. To accept what it is now: `corral template cache --clear`, then try again.",
            )
        self.note(address, version, fetched)
        return fetched

    def note(self, address: Address, version: str, fetched: FetchedVersion) -> None:
        """Note the commit of a version."""
        versions = {**self._record.get("versions", {}), version: asdict(fetched), fetched.name: asdict(fetched)}
        self._record = {"source": address.url, "versions": versions}
        files.replace(self._file, f"{json.dumps(self._record, indent=2)}\n".encode())

    def _fetched(self, address: Address, version: str, now: datetime) -> FetchedVersion:
        at = iso(now)
        if address.kind == "shipped":
            return FetchedVersion(__version__, "commit", self.store.keep(self._shipped()), at)
        if address.kind != "git":
            return FetchedVersion(LATEST, "commit", self.store.keep(_read_files(address)), at)
        choice: Choice = versions.choose(self.store.remote_refs(address), version)
        commit = self.store.fetch(address, choice)
        return FetchedVersion(commit if choice.kind == "commit" else choice.name, choice.kind, commit, at)


def _gone(address: Address, fetched: FetchedVersion) -> Unsupported:
    if address.kind == "shipped":
        return Unsupported(
            f"The template that Corral {fetched.name} shipped is no longer to be had.",
            cause="This Corral ships another one, and the cache of this machine does not have the old one.",
            remedy="Run the command where the project was prepared, or with that version of Corral.",
        )
    return Unsupported(
        f"The version of {address} that was installed is no longer to be had.",
        cause="The archive or folder has changed, and the cache no longer has what it was.",
        remedy="Put the old one back, or install the new one with `corral init --template`.",
    )


def _read_files(address: Address) -> dict[str, Part]:
    if address.kind == "folder":
        return archive.of_folder(Path(address.url))
    return reading.read(address)


def _read(file: Path) -> dict[str, Any]:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return record if isinstance(record, dict) and isinstance(record.get("versions", {}), dict) else {}
