"""Repositories that are deleted with a worktree: those of its submodules, inside its git directory.

A commit in one of them is safe if its upstream has it: a remote-tracking branch reaches it, or it was itself fetched.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from corral.core.errors import NotAProject
from corral.git.checkouts.status import Change
from corral.git.process.command import OID, Git, open_checkout

_GITLINK = "160000 "


def at_risk(checkout: Git, changes: Sequence[Change]) -> list[str]:
    """Submodules with work that would be lost with their worktree: changes (in ``changes``), or unpublished commits."""
    risky = {change.path for change in changes if change.dirty_inside}
    for git_dir, label in _repositories(checkout).items():
        # Tags do not count for either side: upstream's are often on no branch of it.
        if _goes_beyond_upstream(git_dir, "--exclude=refs/remotes/*", "--exclude=refs/tags/*", "--all"):
            risky.add(label)
    return sorted(risky)


def unpublished_submodules(checkout: Git) -> list[str]:
    """Submodules whose commit, as HEAD names it, exists in no repository but this worktree's.

    Another checkout of that HEAD could not find the commit. Submodules that are not initialised here are skipped.
    """
    own = _repositories(checkout)
    if not own:
        return []
    lasting = list(_below(checkout.common_dir / "modules"))
    unpublished = []
    for path, sha in _gitlinks(checkout, "ls-tree", "-r", "-z", "HEAD"):
        homes = [git_dir for git_dir in own if _has(git_dir, sha)]
        if (
            homes
            and not any(_has(git_dir, sha) for git_dir in lasting)
            and all(_goes_beyond_upstream(git_dir, sha) for git_dir in homes)
        ):
            unpublished.append(path)
    return unpublished


def _repositories(checkout: Git) -> dict[Path, str]:
    """The git directories that are deleted with a worktree, each with its path in the worktree, else its name."""
    own = checkout.git_dir / "modules"
    roots = (own.resolve(), checkout.top.resolve())
    repositories: dict[Path, str] = {}
    pending = [(checkout, "")]
    while pending:
        around, prefix = pending.pop()
        for path, _ in _gitlinks(around, "ls-files", "--stage", "-z"):
            try:
                inner = open_checkout(around.top / path)
            except NotAProject:  # not initialised
                continue
            git_dir = inner.git_dir.resolve()
            if git_dir not in repositories and any(root in git_dir.parents for root in roots):
                repositories[git_dir] = f"{prefix}{path}"
                pending.append((inner, f"{prefix}{path}/"))
    for git_dir in _below(own):
        repositories.setdefault(git_dir.resolve(), str(git_dir.relative_to(own)))
    return repositories


def _gitlinks(git: Git, *listing: str) -> list[tuple[str, str]]:
    lines = git.check(*listing).text.split("\0")
    entries = [line.partition("\t") for line in lines if line.startswith(_GITLINK)]
    return [(path, next(part for part in meta.split(" ") if OID.fullmatch(part))) for meta, _, path in entries]


def _below(folder: Path) -> Iterator[Path]:
    """The git directories in a ``modules`` folder, whose names may contain slashes, and those nested inside them."""
    for child in sorted(folder.iterdir()) if folder.is_dir() else ():
        if (child / "HEAD").is_file() and (child / "objects").is_dir():
            yield child
            yield from _below(child / "modules")
        elif not child.is_symlink():
            yield from _below(child)


def _has(git_dir: Path, sha: str) -> bool:
    return Git(git_dir).run("cat-file", "-e", f"{sha}^{{commit}}").ok


def _goes_beyond_upstream(git_dir: Path, *tips: str) -> bool:
    """Whether a commit of ``tips`` is not known to be upstream; True for an unreadable repository."""
    # A shallow clone has no branch that reaches a submodule's pinned commit, but records that it was fetched. A
    # repository may also have fetched from itself.
    fetched = [
        line[:64].split()[0]
        for name in ("FETCH_HEAD", "shallow")
        if (git_dir / name).is_file()
        for line in (git_dir / name).read_text(errors="surrogateescape").splitlines()
        if OID.match(line) and not line.endswith(" of .")
    ]
    result = Git(git_dir).run(
        "rev-list", "--max-count=1", "--ignore-missing", "--stdin", *tips, "--not", "--remotes",
        input="".join(f"^{sha}\n" for sha in fetched).encode(),
    )  # fmt: skip
    return not result.ok or bool(result.stdout)
