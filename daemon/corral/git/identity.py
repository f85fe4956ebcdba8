"""The author of a commit: git's configuration, else the submitter, else Corral; a missing identity never fails a task."""

from __future__ import annotations

import re

from corral.git.process.command import Git, Identity

CORRAL = Identity("Corral", "corral@localhost")
_CRUD = re.compile(r"[\x00-\x20.,:;<>\"\\']+")


def effective(git: Git, fallback: Identity | None) -> Identity:
    """Choose the identity for a commit.

    Args:
        git: The checkout or repository whose configuration counts.
        fallback: The submitter's, from ``GIT_AUTHOR_*`` / ``GIT_COMMITTER_*``.
    """
    result = git.run("config", "-z", "--get-regexp", r"^user\.(name|email)$")
    configured = dict(item.split("\n", 1) for item in result.text.split("\0") if "\n" in item)
    candidates = [Identity(configured.get("user.name", ""), configured.get("user.email", "")), fallback, CORRAL]
    return next(identity for identity in candidates if identity is not None and is_usable(identity))


def is_usable(identity: Identity) -> bool:
    """Whether git takes it: it refuses a name that consists only of characters that it strips."""
    return "\0" not in identity.name + identity.email and all(
        _CRUD.sub("", part) for part in (identity.name, identity.email)
    )
