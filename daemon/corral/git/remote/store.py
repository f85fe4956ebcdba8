"""A bare repository of Corral's own that keeps what was fetched of one template.

Its objects are named by their content, so that git itself proves that nothing in it was changed since. Its settings are written
again before each use: nothing in the folder can make git run anything.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path

from corral.core.errors import GitFailed, InvalidInput, NotFound, NotTrusted
from corral.git import refs
from corral.git.process.bounds import Bounds
from corral.git.process.command import Git, Result, with_credentials
from corral.git.remote.address import Address
from corral.git.remote.parts import MOST_BYTES, MOST_FILES, Part, Parts, is_part
from corral.git.remote.versions import Choice

TRIES = 3
FETCH_S = 180.0
"""Seconds for all requests to a repository for one command."""
MOST_ON_DISK = 200_000_000
"""Maximum number of bytes that a fetch may add; a template is text."""
_MOST_LISTED = 32_000_000
_SETTINGS = f"[core]\n\trepositoryformatversion = 0\n\tbare = true\n\tbigFileThreshold = {MOST_BYTES}\n"
"""A file that is too large for a template is never read into memory as a whole."""
_FINAL = re.compile(
    r"not found|does not exist|Authentication failed|could not read Username|Permission denied|Host key verification"
    r"|not appear to be a git repository|transport '.*' not allowed|dubious ownership|couldn't find remote ref|not our ref"
    r"|fsck error|badTree|unadvertised object"
)
"""Failures that another try does not change."""
_EPOCH = {f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER") for what, value in (
    ("NAME", "template"), ("EMAIL", "template@localhost"), ("DATE", "1970-01-01T00:00:00Z"))}  # fmt: skip


class TemplateStore:
    """Everything that was fetched of one template.

    Args:
        folder: The bare repository; created if it is missing.
        pause: Wait some seconds between two tries.
    """

    def __init__(self, folder: Path, pause: Callable[[float], None]) -> None:
        self._folder, self._pause = folder, pause
        self._bounds: Bounds | None = None
        self._git = Git(folder)
        if not (folder / "HEAD").exists():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._git.check("init", "--quiet", "--bare", "--template=", str(folder))
        (folder / "config").write_text(_SETTINGS, encoding="utf-8")
        for name in ("objects/info/alternates", "info/grafts", "config.worktree"):
            (folder / name).unlink(missing_ok=True)
        self._forget_partial()

    def remote_refs(self, address: Address) -> dict[str, str]:
        """The refs of the template's repository, by name.

        Raises:
            GitFailed: It cannot be reached.
        """
        result = self._ask(address, "ls-remote", "--quiet", "--", address.url)
        pairs = (line.split("\t", 1) for line in result.text.splitlines() if "\t" in line)
        return {name: sha for sha, name in pairs}

    def fetch(self, address: Address, choice: Choice) -> str:
        """Fetch one version without its history, and return its commit.

        Raises:
            GitFailed: It cannot be fetched, or is too large.
            NotFound: There is no such commit.
        """
        if choice.ref:
            local_ref = f"refs/corral/{choice.kind}/{choice.name}"
            try:
                self._fetch(address, "--depth=1", f"+{choice.ref}:{local_ref}")
                return self.commit_of(local_ref)
            except GitFailed:
                if choice.kind != "commit":
                    raise
        # Not every server sends a commit by its name: then all branches and tags are fetched and searched.
        self._fetch(address, "+refs/heads/*:refs/corral/all/heads/*", "+refs/tags/*:refs/corral/all/tags/*")
        result = self._git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{choice.name}^{{commit}}")
        if not result.ok:
            raise NotFound(
                f"The template has no commit {choice.name!r}.", remedy="Name a commit on one of its branches, in full."
            )
        return result.text.strip()

    def commit_of(self, ref: str) -> str:
        """The commit of a ref that was fetched."""
        return self._git.must("rev-parse", "--verify", "--end-of-options", f"{ref}^{{commit}}")

    def has(self, commit: str) -> bool:
        """Whether a commit was fetched."""
        return self._git.run("cat-file", "-e", f"{commit}^{{commit}}").ok

    def has_tag(self, name: str) -> bool:
        """Whether a tag was fetched by its name."""
        return self._git.run("show-ref", "--verify", "--quiet", f"refs/corral/tag/{name}").ok

    def signer(self, commit: str, tag: str | None, allowed: Path) -> str:
        """The signer of a commit, or of the tag by which it was fetched.

        Raises:
            NotTrusted: See :func:`require_signer`.
        """
        return require_signer(self._git, commit, f"refs/corral/tag/{tag}" if tag else None, allowed)

    def prove(self) -> None:
        """Let git compare every object with its name.

        Raises:
            NotTrusted: Something was changed.
        """
        result = self._git.run("fsck", "--full", "--no-dangling", "--no-progress", timeout_s=FETCH_S)
        if not result.ok:
            raise NotTrusted(
                "The cached copy of the template was changed or is damaged.",
                cause=f"git fsck: {result.stderr.strip()[:300] or result.text.strip()[:300]}",
                remedy="Nothing was installed. `corral template cache --clear`, then try again: the template is fetched again.",
            )

    def keep(self, parts: Parts) -> str:
        """Store files as a commit that is the same for the same files; for an archive or a folder."""
        index = self._folder / "corral.index"
        index.unlink(missing_ok=True)
        lines = []
        for path, part in sorted(parts.items()):
            mode = {"link": "120000", "submodule": "160000"}.get(part.kind, "100755" if part.executable else "100644")
            sha = self._git.must("hash-object", "-w", "--no-filters", "--stdin", input=part.data)
            lines.append(f"{mode} {sha}\t{path}\0")
        self._git.check("update-index", "-z", "--index-info", input="".join(lines).encode(), index_file=index)
        tree = self._git.must("write-tree", index_file=index)
        index.unlink(missing_ok=True)
        commit = self._git.must("commit-tree", tree, input=b"template\n", env=_EPOCH)
        self._git.check("update-ref", f"refs/corral/commit/{commit}", commit)
        return commit

    def read(self, commit: str, subfolder: str = "") -> dict[str, Part]:
        """The parts of a template in a commit.

        Raises:
            InvalidInput: There are too many, or they are too large.
            NotFound: There is no such subfolder.
        """
        listed = self._list_files(commit, subfolder)
        files = {path: entry for path, entry in listed.items() if entry[0] != "160000"}
        if len(listed) > MOST_FILES or sum(size for _, _, size in files.values()) > MOST_BYTES:
            raise InvalidInput(
                f"The template has more than {MOST_FILES} files, or more than {MOST_BYTES // 1_000_000} MB of them.",
                remedy="Nothing was installed. Name another template, or a #SUBFOLDER.",
            )
        contents = refs.contents(self._git, [sha for _, sha, _ in files.values()])
        parts = {
            path: Part(content, mode == "100755", "link" if mode == "120000" else "file")
            for (path, (mode, _, _)), content in zip(files.items(), contents, strict=True)
        }
        return {**parts, **{path: Part(b"", kind="submodule") for path in listed if path not in files}}

    def _list_files(self, commit: str, subfolder: str) -> dict[str, tuple[str, str, int]]:
        tree = f"{commit}:{subfolder}" if subfolder else commit
        result = self._git.run("ls-tree", "-r", "-z", "-l", "--full-tree", tree, most=_MOST_LISTED)
        if not result.ok:
            raise NotFound(
                f"The template has no folder {subfolder!r}.",
                cause="The name is mistyped, or other versions have it.",
                remedy="Name a folder that this version has.",
            )
        entries = {}
        for line in result.names:
            facts, path = line.split("\t", 1)
            mode, _, sha, size = facts.split()
            if is_part(path):
                entries[path] = (mode, sha, 0 if size == "-" else int(size))
        return entries

    def _forget_partial(self) -> None:
        """Delete what a killed fetch left; the cache's lock keeps others away."""
        for file in (*(self._folder / "objects" / "pack").glob("tmp_*"), *self._folder.glob("*.lock")):
            file.unlink(missing_ok=True)

    def _fetch(self, address: Address, *what: str) -> None:
        flags, specs = ([what[0]], what[1:]) if what[0].startswith("--") else ([], what)
        quiet = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"]
        self._ask(address, "fetch", *quiet, *flags, "--", address.url, *specs)

    def _ask(self, address: Address, *args: str) -> Result:
        """Speak to the template's repository: three tries, a second and two apart."""
        self._bounds = self._bounds or Bounds(self._folder, disk=MOST_ON_DISK, time_s=FETCH_S)
        config = _transport_config(address.transport)
        for attempt in range(1, TRIES + 1):
            result = self._git.run(
                *args, timeout_s=FETCH_S, env=with_credentials(), config=config, most=_MOST_LISTED, bounds=self._bounds
            )
            if result.ok:
                return result
            self._forget_partial()
            if result.cut or _FINAL.search(result.stderr) or attempt == TRIES:
                raise _fetch_failure(address, result, attempt)
            self._pause(float(2 ** (attempt - 1)))
        raise AssertionError("unreachable")


def _transport_config(transport: str) -> Mapping[str, str]:
    return {
        "protocol.allow": "never",
        f"protocol.{transport}.allow": "always",
        "fetch.fsckObjects": "true",
        "fetch.unpackLimit": "1",
        "http.lowSpeedLimit": "1000",
        "http.lowSpeedTime": "30",
    }


def _fetch_failure(address: Address, result: Result, tries: int) -> GitFailed:
    failed = result.failure()
    message, cause, remedy = (
        failed.message.partition(": ")[2],
        "The address is wrong, the network or the server is down, or the server wants credentials.",
        "Check the address with `git ls-remote`, then try again.",
    )
    if result.cut:
        message, cause = result.cut, "The server's answer has no end, or is too large or too slow for a template."
        remedy = "Check the address, or name another template."
    return GitFailed(
        f"The template {address.url} cannot be fetched ({'1 try' if tries == 1 else f'{tries} tries'}): {message}",
        cause=cause,
        remedy=f"Nothing was installed. {remedy}",
        details=failed.details,
    )


# -- The signer of a fetched version. Git verifies the signature; only SSH keys of one file of allowed signers count.
#
# A tag's own signature counts first: it also signs the tag's name, so that an old signed version cannot be served as
# a new one.

_SSH = "-----BEGIN SSH SIGNATURE-----"
_GOOD = re.compile(r'^Good "git" signature for (.+) with \S+ key (SHA256:\S+)$', re.MULTILINE)


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
    content = git.must("cat-file", "commit", commit)
    return _verify(git, "verify-commit", commit, content, f"the commit {commit[:12]}", allowed)


def _tag_signer(git: Git, commit: str, ref: str, allowed: Path) -> str | None:
    """The signer of an annotated tag; None if it is a plain name of the commit, or an annotation without a signature."""
    kind = git.run("cat-file", "-t", ref)
    if not kind.ok or kind.text.strip() != "tag":
        return None
    content = git.must("cat-file", "tag", ref)
    if "-----BEGIN" not in content:
        return None
    name = ref.removeprefix("refs/corral/tag/")
    signer = _verify(git, "verify-tag", ref, content, f"the tag {name}", allowed)
    header = content.split("\n\n", 1)[0].splitlines()
    target = git.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{ref}^{{commit}}")
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
    result = git.run(verb, "--raw", what, config=config)
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
