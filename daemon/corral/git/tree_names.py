"""All names of a commit's files: with symbolic links in it, a file has more than one."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from corral.git import refs
from corral.git.process.command import Git
from corral.git.refs import oid

LINK = "120000"
"""The mode of a symbolic link."""
_MOST_STEPS = 40
"""Maximum number of links followed one after another, as on Linux."""
_MOST_ROUNDS = 4
"""Maximum depth of links in a name; a link into its own folder would give endless names."""
_MOST_NAMES = 20_000


@dataclass(frozen=True)
class Tree:
    """The files of one commit.

    Attributes:
        files: Every path, including links.
        links: By path, each link's target inside the repository, as it is written there (normalised).
    """

    files: list[str]
    links: dict[str, str]

    def names_of(self, path: str) -> set[str] | None:
        """Every name that a change of ``path`` changes: its own, those by links to it, and for a link its target's.

        None: there are too many.
        """
        names = latest = {path, *self._below(path)}
        for _ in range(_MOST_ROUNDS):
            latest = {
                _move_path(name, folder, link)
                for name in latest
                for folder in _itself_and_above(name)
                for link in self._links_to.get(folder, ())
            } - names
            names = names | latest
            if len(names) > _MOST_NAMES:
                return None
        return names

    @cached_property
    def _links_to(self) -> dict[str, list[str]]:
        """The links that lead to a path, by that path."""
        leading: dict[str, list[str]] = {}
        for link, path in self.links.items():
            for place in {path, self._resolve(path)}:
                leading.setdefault(place, []).append(link)
        return leading

    def _below(self, link: str) -> Iterator[str]:
        """The names reached through a link."""
        if link not in self.links:
            return
        folder = self._resolve(self.links[link])
        for file in self.files:
            if folder in _itself_and_above(file):
                yield _move_path(file, folder, link)

    def _resolve(self, path: str) -> str:
        """The path with all links followed."""
        for _ in range(_MOST_STEPS):
            link = next((above for above in _itself_and_above(path) if above in self.links), None)
            if link is None:
                break
            path = _move_path(path, link, self.links[link])
        return path


def read(git: Git, commit: str) -> Tree:
    """Read the files and links of a commit or tree.

    Raises:
        GitFailed: There is no such commit.
    """
    entries = [entry.partition("\t") for entry in git.check("ls-tree", "-r", "-z", oid(commit)).names]
    blobs = {path: about.split()[2] for about, _, path in entries if about.startswith(LINK)}
    written = refs.blobs(git, blobs.values()) if blobs else []
    links = {}
    for path, text in zip(blobs, written, strict=True):
        leads_to = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
        if not leads_to.startswith(("/", "../")) and leads_to != "..":
            links[path] = leads_to
    return Tree([path for _, _, path in entries], links)


def _move_path(path: str, old: str, new: str) -> str:
    """Convert a path below ``old`` to one below ``new``."""
    return posixpath.normpath(f"{new}/{posixpath.relpath(path, old)}")


def _itself_and_above(path: str) -> Iterator[str]:
    """A path, its parent folders, and the top (``.``)."""
    while path and path != ".":
        yield path
        path = posixpath.dirname(path)
    yield "."
