"""The files of a template that is an archive or a plain folder. Nothing is unpacked: members are read one by one, with bounds.

An archive can fill the memory of whoever opens it: :mod:`corral.git.remote.reading` has it read in a process of its own.
"""

from __future__ import annotations

import http.client
import stat
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from corral.core.errors import GitFailed, InvalidInput
from corral.git.remote.parts import MOST_BYTES, MOST_FILES, Part, unsafe_path

MOST_MEMBERS = 20_000
MOST_ARCHIVE_BYTES = 100_000_000
DOWNLOAD_S = 30.0


def download(url: str, folder: Path) -> Path:
    """Fetch an archive into a folder.

    Raises:
        GitFailed: It cannot be fetched.
    """
    import urllib.error
    import urllib.request

    class OwnTransport(urllib.request.HTTPRedirectHandler):
        def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
            if not newurl.startswith(("https:", f"{req.type}:")):
                raise urllib.error.URLError(f"it redirects to {newurl[:200]!r}, and only {req.type} is used for it")
            return super().redirect_request(req, fp, code, msg, headers, newurl)

    file = folder / "archive"
    try:
        with (
            urllib.request.build_opener(OwnTransport).open(url, timeout=DOWNLOAD_S) as answer,
            file.open("wb") as out,
        ):
            remaining = MOST_ARCHIVE_BYTES + 1
            while remaining > 0 and (chunk := answer.read(min(remaining, 1 << 16))):
                out.write(chunk)
                remaining -= len(chunk)
    except (OSError, http.client.HTTPException) as error:
        raise GitFailed(
            f"The template {url} cannot be fetched: {error}",
            cause="The address is wrong, the network or the server is down, or the server gives no archive.",
            remedy="Nothing was installed. Check the address, then try again.",
        ) from error
    return file


def of_archive(file: Path, name: str) -> dict[str, Part]:
    """Read an archive; the paths omit a single top folder that holds everything else, as in archives of git hosts.

    Args:
        name: What a person calls it: its address, or its path.

    Raises:
        InvalidInput: It is no archive, too large, or a member leads out of it.
    """
    try:
        if file.stat().st_size > MOST_ARCHIVE_BYTES:
            raise _refusal(name, f"it is larger than {MOST_ARCHIVE_BYTES // 1_000_000} MB")
        parts = _collect(name, _zip_members(file) if zipfile.is_zipfile(file) else _tar_members(file))
    except (
        OSError,
        EOFError,
        tarfile.TarError,
        zipfile.BadZipFile,
        ValueError,
        RuntimeError,
    ) as error:
        raise _refusal(name, f"it cannot be read: {error}") from error
    tops = {path.split("/", 1)[0] for path in parts}
    if len(tops) == 1 and all("/" in path for path in parts) and not tops & {".corral", ".claude"}:
        return {path.split("/", 1)[1]: part for path, part in parts.items()}
    return parts


def of_folder(folder: Path) -> dict[str, Part]:
    """Read a plain folder.

    Raises:
        InvalidInput: It is too large, or cannot be read.
    """
    try:
        return _collect(str(folder), _folder_files(folder))
    except OSError as error:
        raise _refusal(str(folder), f"it cannot be read: {error}") from error


def _collect(name: str, members: Iterator[tuple[str, Part]]) -> dict[str, Part]:
    parts: dict[str, Part] = {}
    size = 0
    for path, part in members:
        if (reason := unsafe_path(path)) is not None:
            raise _refusal(name, f"the path {path!r} {reason}")
        if path in parts:
            raise _refusal(name, f"it has {path!r} twice")
        size += len(part.data)
        parts[path] = part
        if size > MOST_BYTES or len(parts) > MOST_FILES:
            raise _refusal(name, f"it holds more than {MOST_FILES} files, or more than {MOST_BYTES // 1_000_000} MB")
    return parts


def _tar_members(file: Path) -> Iterator[tuple[str, Part]]:
    with tarfile.open(file) as opened:
        for count, member in enumerate(opened):
            if count > MOST_MEMBERS:
                raise ValueError(f"more than {MOST_MEMBERS} members")
            path = member.name.removeprefix("./")
            if member.isdir():
                continue
            if member.issym() or member.islnk():
                yield path, Part(member.linkname.encode(errors="surrogateescape"), kind="link")
            elif not member.isfile():
                raise ValueError(f"{path!r} is a device or a pipe")
            elif member.size > MOST_BYTES:
                raise ValueError(f"{path!r} is larger than {MOST_BYTES // 1_000_000} MB")
            else:
                stream = opened.extractfile(member)
                assert stream is not None
                yield path, Part(stream.read(MOST_BYTES + 1), bool(member.mode & stat.S_IXUSR))


def _zip_members(file: Path) -> Iterator[tuple[str, Part]]:
    with zipfile.ZipFile(file) as opened:
        members = opened.infolist()
        if len(members) > MOST_MEMBERS:
            raise ValueError(f"more than {MOST_MEMBERS} members")
        for member in members:
            mode = member.external_attr >> 16
            if member.is_dir():
                continue
            if member.file_size > MOST_BYTES:
                raise ValueError(f"{member.filename!r} is larger than {MOST_BYTES // 1_000_000} MB")
            with opened.open(member) as stream:
                data = stream.read(MOST_BYTES + 1)
            kind: Part = Part(data, kind="link") if stat.S_ISLNK(mode) else Part(data, bool(mode & stat.S_IXUSR))
            yield member.filename.removeprefix("./"), kind


def _folder_files(folder: Path) -> Iterator[tuple[str, Part]]:
    for file in sorted(folder.rglob("*")):
        path = file.relative_to(folder)
        if ".git" in path.parts:
            continue
        mode = file.lstat().st_mode
        if stat.S_ISLNK(mode):
            yield path.as_posix(), Part(str(file.readlink()).encode(errors="surrogateescape"), kind="link")
        elif stat.S_ISREG(mode):
            if file.stat().st_size > MOST_BYTES:
                raise _refusal(str(folder), f"{path} is larger than {MOST_BYTES // 1_000_000} MB")
            yield path.as_posix(), Part(file.read_bytes(), bool(mode & stat.S_IXUSR))
        elif not stat.S_ISDIR(mode):
            raise _refusal(str(folder), f"{path} is a device or a pipe")


def _refusal(name: str, reason: str) -> InvalidInput:
    return InvalidInput(
        f"The template {name} cannot be used: {reason}.", remedy="Nothing was installed. Name another template."
    )
