"""Commits that add files to another commit, made without a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from corral.git import refs
from corral.git.process.command import Git


def add_files(git: Git, ref: str, base_sha: str, files: Mapping[str, str], message: str, at: datetime) -> str:
    """Have a ref of Corral's own name a commit with more files than ``base_sha``; the same again changes nothing.

    Args:
        files: The content by a path that was checked.

    Returns:
        The commit.

    Raises:
        GitFailed: Git refused.
    """
    if (existing_sha := refs.read(git, ref)) is not None:
        return existing_sha
    encoded_message = message.encode()
    stream = [
        f"commit {ref}\ncommitter Corral <corral@localhost> {int(at.timestamp())} +0000\ndata {len(encoded_message)}\n".encode()
    ]
    stream += [encoded_message, f"\nfrom {base_sha}\n".encode()]
    for path, text in files.items():
        data = text.encode()
        stream += [f"M 100644 inline {path}\ndata {len(data)}\n".encode(), data, b"\n"]
    git.must("fast-import", "--quiet", "--date-format=raw", "--done", input=b"".join([*stream, b"done\n"]))
    commit_sha = refs.read(git, ref)
    assert commit_sha is not None
    return commit_sha
