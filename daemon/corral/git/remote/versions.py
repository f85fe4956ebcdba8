"""Which commit a version of a template is: a tag, a branch, a commit, or ``latest``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from corral.core.errors import InvalidInput, NotFound
from corral.git.process.command import OID

LATEST = "latest"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/+@-]{0,199}")
_RELEASE = re.compile(r"v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?")
_ABBREVIATED = re.compile(r"[0-9a-f]{7,63}")
_PEELED = "^{}"


@dataclass(frozen=True)
class Choice:
    """One version of a repository.

    Attributes:
        name: The tag, branch or commit that was chosen.
        ref: The name for git: a full ref, or a whole object name; empty: only the start of one is known.
        commit: The commit, as far as the repository tells before anything is fetched.
    """

    name: str
    kind: Literal["tag", "branch", "commit"]
    ref: str
    commit: str | None


def require_name(version: str) -> str:
    """Refuse what could be no version, before git sees it.

    Raises:
        InvalidInput: It is none.
    """
    if not _NAME.fullmatch(version) or ".." in version or "@{" in version:
        raise InvalidInput(f"{version!r} is no version.", remedy="Name a tag, a branch, a commit, or `latest`.")
    return version


def choose(refs: Mapping[str, str], version: str) -> Choice:
    """Choose a version; of ``latest`` the highest release among the tags, and the default branch if there is none.

    Args:
        refs: As ``git ls-remote`` lists them.

    Raises:
        NotFound: There is no such version.
    """
    if version == LATEST:
        if releases := by_release(refs):
            return releases[0]
        if "HEAD" not in refs:
            raise NotFound(
                "The template's repository is empty.", cause="Nothing was committed to it.", remedy="Name another one."
            )
        return Choice("HEAD", "branch", "HEAD", refs["HEAD"])
    if f"refs/tags/{version}" in refs:
        return _tag(refs, version)
    if f"refs/heads/{version}" in refs:
        return Choice(version, "branch", f"refs/heads/{version}", refs[f"refs/heads/{version}"])
    if OID.fullmatch(version):
        return Choice(version, "commit", version, version)
    if _ABBREVIATED.fullmatch(version):
        return Choice(version, "commit", "", None)
    tags = ", ".join(_tags(refs)[-8:]) or "none"
    raise NotFound(
        f"The template has no version {version!r}.", remedy=f"Its tags: {tags}. A branch or a commit will do too."
    )


def by_release(refs: Mapping[str, str]) -> list[Choice]:
    """The releases among the tags, the highest first."""
    numbered = [(numbers, name) for name in _tags(refs) if (numbers := release_number(name)) is not None]
    return [_tag(refs, name) for _, name in sorted(numbered, reverse=True)]


def release_number(name: str) -> tuple[int, ...] | None:
    """The numbers of a release such as ``v1.10.0``; None if the name is that of none."""
    match = _RELEASE.fullmatch(name)
    return tuple(int(part or 0) for part in match.groups()) if match else None


def _tags(refs: Mapping[str, str]) -> list[str]:
    return [
        name.removeprefix("refs/tags/") for name in refs if name.startswith("refs/tags/") and not name.endswith(_PEELED)
    ]


def _tag(refs: Mapping[str, str], name: str) -> Choice:
    ref = f"refs/tags/{name}"
    return Choice(name, "tag", ref, refs.get(f"{ref}{_PEELED}", refs[ref]))
