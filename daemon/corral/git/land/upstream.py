"""A branch of a remote: fetch it, and push a commit to it that was built upon what was fetched.

Bounded in time, asks nobody for anything, and overwrites nothing: a push names the commit that the branch has to be at. What
the repository's own configuration would execute for it is switched off
(:func:`~corral.git.process.command.with_own_credentials`), the hook ``pre-push`` included. Its tracking branch moves as after a
fetch and a push of the user's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from shlex import quote

from corral.core.errors import InvalidInput
from corral.core.redaction import REDACTED, redact
from corral.core.visible import one_line
from corral.git import refs
from corral.git.land import kept
from corral.git.process.command import Git, Result, with_own_credentials

FETCH_S = 120.0
PUSH_S = 600.0
PROBE_S = 20.0
"""Seconds until the remote's answer is not waited for any longer."""
AGAIN = "It is tried again by itself."
"""Ends each remedy."""
_LONGEST_WORDS = 500
_USER = re.compile(r"(https?://)[^\s/@'\"]+@")
_QUERY = re.compile(r"(https?://[^\s?'\"]+)\?[^\s'\"]+")
_SAYS_NOTHING = ("hint: ", "error: failed to push some refs", "Please make sure you have", "and the repository exists")
_NO_SUCH_BRANCH = "couldn't find remote ref"
_TRANSPORTS = ("https", "http", "ssh", "git", "file")
_SETTINGS = {
    "protocol.allow": "never",
    **{f"protocol.{transport}.allow": "always" for transport in _TRANSPORTS},
    "http.lowSpeedLimit": "1000",
    "http.lowSpeedTime": "30",
    "core.alternateRefsCommand": ":",
}


@dataclass(frozen=True)
class Failure:
    """Why a remote did not do what it was asked for.

    Attributes:
        words: In its own words, or git's; one line, without a secret.
        remedy: What to type, or to look at.
    """

    words: str
    remedy: str


def seen_ref(target: str) -> str:
    """The ref at what a remote's target (short name) was when it was last fetched."""
    return f"refs/corral/remote/{kept.folder(target)}/seen"


def joined_ref(target: str) -> str:
    """The ref at the merge of a remote's target with the one here, where each has commits that the other has not."""
    return f"refs/corral/remote/{kept.folder(target)}/joined"


def fetch(repo: Git, remote: str, branch_ref: str, into_ref: str) -> str | Failure:
    """Fetch a branch of a remote (a full ref) into a ref of Corral's own, and return its commit."""
    if unusable := _unusable(repo, remote):
        return unusable
    options = (
        "--quiet", "--no-tags", "--no-prune", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head",
        "--upload-pack=git-upload-pack",
    )  # fmt: skip
    spec = f"+{refs.full_ref(branch_ref)}:{refs.full_ref(into_ref)}"
    result = _ask(repo, remote, "fetch", *options, "--", remote, spec, timeout_s=FETCH_S)
    if not result.ok:
        if _NO_SUCH_BRANCH in result.stderr:
            name = branch_ref.removeprefix("refs/heads/")
            return Failure(f"it has no branch {name}", f"Push it once yourself: git push {remote} {quote(name)}")
        return _failure(remote, result)
    return refs.read(repo, into_ref) or Failure(f"{into_ref} is gone", "It is fetched again.")


def probe(repo: Git, remote: str) -> Failure | None:
    """Whether a remote answers; None: it does."""
    if unusable := _unusable(repo, remote):
        return unusable
    asked = ("ls-remote", "--quiet", "--heads", "--upload-pack=git-upload-pack", "--", remote)
    result = _ask(repo, remote, *asked, timeout_s=PROBE_S)
    return None if result.ok else _failure(remote, result)


def push(repo: Git, remote: str, branch_ref: str, new_sha: str, old_sha: str) -> Failure | None:
    """Push a commit to a branch of a remote (a full ref) that is at ``old_sha``, with its LFS objects; None: it is there.

    After a failure the branch may have moved all the same, e.g. if the answer was lost: fetch it.

    Args:
        old_sha: An ancestor of ``new_sha``; ``""``: wherever it is before ``new_sha``, or there is none.

    Raises:
        InvalidInput: ``new_sha`` does not descend from ``old_sha``.
    """
    if old_sha and not refs.is_ancestor(repo, old_sha, new_sha):
        raise InvalidInput(f"{new_sha} does not descend from {old_sha}.", cause="A push never rewrites a branch.")
    failure = _unusable(repo, remote) or _upload(repo, remote, new_sha)
    if failure is not None:
        return failure
    lease = [f"--force-with-lease={branch_ref}:{refs.oid(old_sha)}"] if old_sha else []
    options = (
        "--porcelain", "--quiet", "--no-verify", "--no-signed", "--no-follow-tags", "--no-recurse-submodules",
        "--receive-pack=git-receive-pack",
    )  # fmt: skip
    spec = f"{refs.oid(new_sha)}:{refs.full_ref(branch_ref)}"
    result = _ask(repo, remote, "push", *options, *lease, "--", remote, spec, timeout_s=PUSH_S)
    instead = ", or have it get the branches of landed tasks alone (landing.push: branch)" if old_sha else ""
    return None if result.ok else _failure(remote, result, instead)


def _upload(repo: Git, remote: str, sha: str) -> Failure | None:
    """Upload the LFS objects of a commit before itself: who has it gets them all."""
    if "lfs" not in filters(repo, sha):
        return None
    if not is_installed(repo):
        words = "its files are in Git LFS (.gitattributes says filter=lfs), and git lfs is not installed here"
        return Failure(words, "Install git-lfs on the daemon's PATH, then: corral daemon restart")
    result = upload(repo, remote, sha, timeout_s=PUSH_S, env=with_own_credentials(repo))
    return None if result.ok else _failure(remote, result)


def _ask(repo: Git, remote: str, *args: str, timeout_s: float) -> Result:
    settings: Mapping[str, str] = {**_SETTINGS, f"remote.{remote}.mirror": "false"}
    return repo.run(*args, timeout_s=timeout_s, env=with_own_credentials(repo), config=settings)


def _unusable(repo: Git, remote: str) -> Failure | None:
    """Why a remote cannot be used as it is configured."""
    urls = repo.run("remote", "get-url", "--push", "--all", remote)
    if not urls.ok:
        return Failure("it is not configured here", f"git remote add {remote} URL")
    if len(urls.text.splitlines()) > 1:
        return Failure("it has several addresses to push to", f"Leave one: git remote set-url --push {remote} URL")
    specs = repo.run("config", "--get-all", f"remote.{remote}.fetch").text.splitlines()
    if any(not spec.partition(":")[2].startswith("refs/remotes/") for spec in specs if ":" in spec):
        usual = f"git config --replace-all remote.{remote}.fetch '+refs/heads/*:refs/remotes/{remote}/*'"
        return Failure("whoever fetches from it overwrites branches of this repository", usual)
    return None


def _failure(remote: str, result: Result, instead: str = "") -> Failure:
    rejected = [line.split("\t")[2] for line in result.text.splitlines() if line.startswith("!\t")]
    hints = [line.removeprefix("remote:").strip() for line in result.stderr.splitlines()]
    lines = [line for line in (*rejected, *hints) if line and not line.startswith(_SAYS_NOTHING)]
    text = "; ".join(line.removeprefix("fatal: ").removeprefix("error: ") for line in lines)
    words = one_line(redacted(text or f"git ended with {result.rc}"))
    words = words if len(words) <= _LONGEST_WORDS else f"{words[:_LONGEST_WORDS]}…"
    if any(line.startswith("[remote rejected]") for line in rejected):
        return Failure(words, f"{remote} refuses it by a rule of its own: change that there{instead}. {AGAIN}")
    return Failure(words, f"See whether it works for you: git fetch {remote}. {AGAIN}")


def redacted(text: str) -> str:
    """A text without secrets, those in addresses included."""
    return redact(_QUERY.sub(rf"\1?{REDACTED}", _USER.sub(rf"\1{REDACTED}@", text)))


# -- Git LFS: the objects that a commit's files stand for are uploaded before the commit, as its own hook would

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
