"""Fetch and read an archive in a process of its own, which is bounded as a fetch by git is.

Servers send without end and answer with redirects that have a body; a small archive can name a member, a dictionary or a list of
members that fills the memory of whoever reads it. So nothing of it is read where the rest of Corral runs.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

import corral
from corral.core.errors import CorralError, GitFailed, from_wire
from corral.git.process import process
from corral.git.process.bounds import Bounds
from corral.git.remote import archive
from corral.git.remote.address import Address
from corral.git.remote.parts import MOST_BYTES, Part
from corral.git.remote.store import FETCH_S

_INHERITED = (
    "PATH", "HOME", "SSL_CERT_FILE", "SSL_CERT_DIR",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
_RUN = (
    "import sys; sys.path.insert(0, sys.argv[1]); from corral.git.remote import reading; reading.answer(*sys.argv[2:])"
)
"""Isolated, so that no file of the folder it is started in is taken for a module."""
_MOST_ANSWERED = MOST_BYTES + 32_000_000
"""Maximum size of the answer, bytes: the contents and their header."""


def read(address: Address) -> dict[str, Part]:
    """The files of an archive.

    Raises:
        GitFailed: It cannot be fetched.
        InvalidInput: It is no archive, too large, or a member leads out of it.
    """
    with tempfile.TemporaryDirectory() as folder:
        argv = [sys.executable, "-I", "-S", "-c", _RUN, str(Path(corral.__file__).parents[1]), address.url, folder]
        env = {name: os.environ[name] for name in _INHERITED if name in os.environ}
        bounds = Bounds(Path(folder), disk=archive.MOST_ARCHIVE_BYTES, time_s=FETCH_S)
        finished = process.execute(argv, env, stdin=None, timeout_s=FETCH_S, cap=_MOST_ANSWERED, bounds=bounds)
    head, _, contents = finished.stdout.partition(b"\n")
    if finished.cut or finished.rc != 0 or not head:
        raise _reader_failure(address, finished)
    header = json.loads(head)
    if "error" in header:
        raise from_wire(header)
    parts, at = {}, 0
    for path, kind, executable, size in header["parts"]:
        parts[path] = Part(contents[at : at + size], executable, kind)
        at += size
    return parts


def answer(url: str, folder: str) -> None:
    """The other process: print the parts in a line of JSON and then their contents, or the error.

    Args:
        url: Of an archive, or its path.
        folder: An empty one, for what is fetched.
    """
    header: dict[str, object]
    try:
        is_remote = url.startswith(("http://", "https://"))
        parts = archive.of_archive(archive.download(url, Path(folder)) if is_remote else Path(url), url)
        header = {"parts": [[path, part.kind, part.executable, len(part.data)] for path, part in parts.items()]}
    except CorralError as error:
        parts, header = {}, error.to_wire()
    out = sys.stdout.buffer
    out.write(json.dumps(header).encode() + b"\n")
    out.writelines(part.data for part in parts.values())


def _reader_failure(address: Address, finished: process.Finished) -> GitFailed:
    without_end = "The archive, or its server's answer, has no end, or is too large or too slow for a template."
    return GitFailed(
        f"The template {address.url} cannot be read: its reader {finished.cut.partition(' ')[2] or f'ended with {finished.rc}'}.",
        cause=without_end if finished.cut else "The archive is damaged.",
        remedy="Nothing was installed. Check the address, or name another template.",
        details={"stderr": os.fsdecode(finished.stderr)[-4000:]},
    )
