"""Git LFS: the objects that a commit's files stand for are uploaded before the commit, as its own hook would."""

from __future__ import annotations

import re
from collections.abc import Mapping

from corral.git.process.command import Git, Result

_MOST_FILES = 100


def filters(repo: Git, commit: str) -> set[str]:
    """The filters that the attributes in a commit name."""
    listed = repo.run("ls-tree", "-r", "-z", "--format=%(objectname) %(path)", commit).names
    blobs = [line[:64].split()[0] for line in listed if line.rpartition("/")[2].endswith(".gitattributes")]
    texts = [repo.run("cat-file", "blob", blob).text for blob in blobs[:_MOST_FILES]]
    return {name for text in texts for name in re.findall(r"(?m)^[^#\n]*\sfilter=([\w.-]+)", text)}


def is_installed(repo: Git) -> bool:
    """Whether git has the command ``git lfs``."""
    return repo.run("lfs", "version").ok


def upload(repo: Git, remote: str, sha: str, *, timeout_s: float, env: Mapping[str, str]) -> Result:
    """Upload the objects of a commit, and of those before it, that the remote is not known to have."""
    return repo.run("lfs", "push", remote, sha, timeout_s=timeout_s, env=env)
