"""The signer of a fetched version. Git verifies the signature; only SSH keys of one file of allowed signers count.

A tag's own signature counts first: it also signs the tag's name, so that an old signed version cannot be served as a new one.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from corral.core.errors import NotTrusted
from corral.git.process.command import Git

_SSH = "-----BEGIN SSH SIGNATURE-----"
_GOOD = re.compile(r'^Good "git" signature for (.+) with \S+ key (SHA256:\S+)$', re.MULTILINE)
_OBJECTS = {"GIT_NO_REPLACE_OBJECTS": "1"}


def require_signer(git: Git, commit: str, tag: str | None, allowed: Path) -> str:
    """Name who signed a version: a principal of the file, and the key.

    Args:
        tag: The ref of the requested tag as it was fetched (``refs/corral/tag/NAME``); None: a branch or a commit.
        allowed: A file as ``ssh-keygen`` reads it; see ALLOWED SIGNERS in its manual.

    Raises:
        NotTrusted: It is not signed, by nobody in the file, or the tag was signed under another name.
    """
    try:
        allowed.read_bytes()
    except OSError as error:
        raise NotTrusted(
            f"The file of allowed signers {allowed} cannot be read: {error.strerror}.",
            remedy="Correct `templates.allowed_signers` (`corral config explain templates.allowed_signers`).",
        ) from error
    if tag is not None and (signer := _tag_signer(git, commit, tag, allowed)) is not None:
        return signer
    content = git.must("cat-file", "commit", commit, env=_OBJECTS)
    return _verify(git, "verify-commit", commit, content, f"the commit {commit[:12]}", allowed)


def _tag_signer(git: Git, commit: str, ref: str, allowed: Path) -> str | None:
    """The signer of an annotated tag; None if it is a plain name of the commit, or an annotation without a signature."""
    kind = git.run("cat-file", "-t", ref, env=_OBJECTS)
    if not kind.ok or kind.text.strip() != "tag":
        return None
    content = git.must("cat-file", "tag", ref, env=_OBJECTS)
    if "-----BEGIN" not in content:
        return None
    name = ref.removeprefix("refs/corral/tag/")
    signer = _verify(git, "verify-tag", ref, content, f"the tag {name}", allowed)
    header = content.split("\n\n", 1)[0].splitlines()
    target = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}", env=_OBJECTS)
    if f"tag {name}" not in header or target.text.strip() != commit:
        raise _refusal(f"the tag {name}", "its signature was made for another name or commit")
    return signer


def _verify(git: Git, verb: str, what: str, content: str, shown: str, allowed: Path) -> str:
    if _SSH not in content:
        raise _refusal(shown, "it has no signature of an SSH key")
    config = {
        "gpg.ssh.allowedSignersFile": str(allowed),
        "gpg.ssh.program": "ssh-keygen",
        "gpg.minTrustLevel": "fully",
        # A key of the person's own ring is no allowed signer.
        "gpg.program": os.devnull, "gpg.openpgp.program": os.devnull, "gpg.x509.program": os.devnull,
    }  # fmt: skip
    result = git.run(verb, "--raw", what, config=config, env=_OBJECTS)
    good = _GOOD.search(result.stderr)
    if not result.ok or good is None:
        message = next(
            (line for line in result.stderr.splitlines() if line.strip()), "no signature that can be verified"
        )
        raise _refusal(shown, f"git: {message[:200]}")
    return f"{good[1]} ({good[2]})"


def _refusal(what: str, reason: str) -> NotTrusted:
    return NotTrusted(
        f"{what[0].upper()}{what[1:]} of the template is signed by nobody who is allowed to.",
        cause=reason[0].upper() + reason[1:] + ".",
        remedy="Ask its maintainers for a signed version, or see `templates.allowed_signers`.",
    )
