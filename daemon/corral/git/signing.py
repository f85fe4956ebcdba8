"""Signatures of commits that were built before: the same tree and message, signed as the user's own configuration says.

Only the system's and the user's configuration count. A repository may come from anywhere, and would otherwise choose the
program that is run, and the key. The wrapper itself never signs.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from corral.core.errors import GitFailed
from corral.git.process.command import Git

LIMIT_S = 20.0
"""Time limit for one signature: a program that waits for a passphrase waits for nobody here."""

_OWN = ("system", "global")
_KEYS = r"^(commit\.gpgsign|user\.signingkey|gpg\.(format|program|(openpgp|x509|ssh)\.program))$"
_PROGRAMS = {
    "openpgp": ("gpg.program", "gpg"),
    "x509": ("gpg.x509.program", "gpgsm"),
    "ssh": ("gpg.ssh.program", "ssh-keygen"),
}
_AGENTS = ("SSH_AUTH_SOCK", "GNUPGHOME", "GPG_AGENT_INFO")
_TRUE = ("true", "yes", "on", "1")
_PERSON = re.compile(rb"(.*) <(.*)> (\d+ [+-]\d{4})")


@dataclass(frozen=True)
class Signer:
    """How the user signs; an empty ``key`` is the committer's, as git chooses it."""

    key: str
    config: Mapping[str, str]


def own(repo: Git) -> Signer | None:
    """How the user's own configuration has commits signed; None: it does not.

    Raises:
        GitFailed: The configuration cannot be read; or an SSH key is to sign, and none is named.
    """
    result = repo.run("config", "--show-scope", "-z", "--get-regexp", _KEYS)
    if result.rc not in (0, 1):
        raise result.failure()
    values = dict[str, str]()
    for scope, item in zip(result.names[0::2], result.names[1::2], strict=False):
        if scope in _OWN:
            key, has_value, value = item.partition("\n")
            values["gpg.program" if key == "gpg.openpgp.program" else key] = value if has_value else "true"
    if values.get("commit.gpgsign", "false").lower() not in _TRUE:
        return None
    kind = values.get("gpg.format", "openpgp")
    if kind not in _PROGRAMS:
        raise GitFailed(f"gpg.format is {kind[:80]!r} in your git configuration, which Corral does not know.")
    key = values.get("user.signingkey", "")
    if kind == "ssh" and not key:
        raise GitFailed(
            "commit.gpgSign is set and gpg.format is `ssh` in your git configuration, but no key is named.",
            remedy="git config --global user.signingKey KEY",
        )
    name, usual = _PROGRAMS[kind]
    return Signer(key, {"gpg.format": kind, name: values.get(name, usual)})


def sign(repo: Git, sha: str, parents: Mapping[str, str], signer: Signer | None) -> str:
    """Make a commit again, signed, with other parents where those have been made again.

    Args:
        parents: New names of commits.
        signer: None: it is only given its new parents.

    Returns:
        The new commit, which no ref names yet; the same one if nothing is to be changed.

    Raises:
        GitFailed: It could not be signed; the message has git's words.
    """
    head, _, message = repo.check("cat-file", "commit", sha).stdout.partition(b"\n\n")
    fields = [line.partition(b" ")[::2] for line in head.split(b"\n")]
    named = {key: value for key, value in fields if key}
    before = [value.decode() for key, value in fields if key == b"parent"]
    after = [parents.get(parent, parent) for parent in before]
    if before == after and (signer is None or b"gpgsig" in named or b"gpgsig-sha256" in named):
        return sha
    author, committer = _PERSON.fullmatch(named[b"author"]), _PERSON.fullmatch(named[b"committer"])
    if author is None or committer is None:
        raise GitFailed(f"The commit {sha[:12]} names no author that git could write again.")
    who = dict[str, str]()
    for role, person in (("AUTHOR", author), ("COMMITTER", committer)):
        name, email, date = map(os.fsdecode, person.groups())
        who |= {f"GIT_{role}_NAME": name, f"GIT_{role}_EMAIL": email, f"GIT_{role}_DATE": f"@{date}"}
    options = ["--no-gpg-sign"]
    if signer is not None:
        options = [f"-S{signer.key or os.fsdecode(committer[1] + b' <' + committer[2] + b'>')}"]
        who |= {name: os.environ[name] for name in _AGENTS if name in os.environ}
    tree = named[b"tree"].decode()
    result = repo.run(
        "commit-tree", *options, *_as_options(after), "-F", "-", tree,
        input=message, env=who, config=signer.config if signer else {}, timeout_s=LIMIT_S,
    )  # fmt: skip
    if not result.ok:
        words = " ".join(line.strip() for line in result.stderr.splitlines() if line.strip())
        raise GitFailed(
            f"It could not be signed, as commit.gpgSign in your git configuration asks: {words[:500] or result.rc}",
            remedy="Sign a commit of your own, so that the key is unlocked; then: corral merge retry ID",
        )
    return result.text.strip()


def _as_options(parents: Sequence[str]) -> list[str]:
    return [option for parent in parents for option in ("-p", parent)]
