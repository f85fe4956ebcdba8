"""The wrapper around git: every git that Corral runs goes through :meth:`Git.run`.

Guarantees: git sees an environment made here (no inherited ``GIT_*``, no SSH agent), configuration that switches off
everything a repository could make git execute (hooks, fsmonitor, pagers, signing, prompts), the requested git directory
and work tree whatever the current folder is, a time limit, and no push that could overwrite what others pushed. Named filters
and merge drivers cannot be switched off; ``doctor.problems`` lists them.
"""

from __future__ import annotations

import os
import re
import signal
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Any

from corral.core import files
from corral.core.errors import GitFailed, InvalidInput, NotAProject
from corral.git.process import process
from corral.git.process.bounds import Bounds

_INHERITED = ("PATH", "HOME", "XDG_CONFIG_HOME", "TZ", "TMPDIR", "USER", "LOGNAME", "GIT_CONFIG_NOSYSTEM")
"""The inherited variables. GIT_CONFIG_NOSYSTEM only ever removes configuration."""

_PINNED = {
    "safe.bareRepository": "explicit",
    "core.hooksPath": "/dev/null",
    "core.fsmonitor": "false",
    "core.pager": "cat",
    "core.askPass": "",
    "credential.helper": "",
    "diff.external": "",
    "protocol.ext.allow": "never",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "rerere.enabled": "false",
    "commit.gpgSign": "false",
    "merge.verifySignatures": "false",
    "merge.autoStash": "false",
    "merge.default": "text",
    "log.showSignature": "false",
    "submodule.recurse": "false",
    "i18n.commitEncoding": "UTF-8",
    # `worktree remove` looks for untracked files the way the user's `status` does.
    "status.showUntrackedFiles": "all",
    # Git itself waits for a ref lock that is held briefly: milliseconds.
    "core.filesRefLockTimeout": "5000",
    "core.packedRefsTimeout": "10000",
    # What a ref names, and the ref, outlive a power cut. By default git writes neither objects nor refs through.
    "core.fsync": "committed,reference",
    "core.fsyncMethod": "batch",
}

_FIXED = {
    "LANG": "C",
    "LC_ALL": "C",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_EDITOR": ":",
    # Replacements and grafts are this clone's alone: every other clone sees the original commits.
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GIT_GRAFT_FILE": "/dev/null/none",
    "GIT_CONFIG_COUNT": str(len(_PINNED)),
    **{f"GIT_CONFIG_KEY_{n}": key for n, key in enumerate(_PINNED)},
    **{f"GIT_CONFIG_VALUE_{n}": value for n, value in enumerate(_PINNED.values())},
}


_READERS = frozenset(
    {
        "cat-file", "check-attr", "check-ignore", "diff-files", "diff-index", "diff-tree", "for-each-ref", "log", "ls-files",
        "ls-tree", "merge-base", "merge-tree", "rev-list", "rev-parse", "show", "show-ref", "status", "version",
    }
)  # fmt: skip
"""Commands that change nothing, or at most add objects: repeated after a kill."""

_KILLED = (-signal.SIGKILL, -signal.SIGTERM)

_PUSHES = re.compile(
    r"--(?:quiet|porcelain|no-verify|no-signed|no-follow-tags|no-recurse-submodules|receive-pack=git-receive-pack)|--"
    r"|--force-with-lease=refs/heads/[^:+\s]+:(?:[0-9a-f]{64}|[0-9a-f]{40})"
    r"|[A-Za-z0-9_][A-Za-z0-9_.-]*"
    r"|(?:[0-9a-f]{64}|[0-9a-f]{40}):refs/heads/[^:+\s]+"
)
"""All that may stand behind ``push``: of it only ``--force-with-lease`` forces anything, and that only off a named commit."""

_OF_THE_NETWORK = (
    "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR", "CURL_CA_BUNDLE",
    "http_proxy", "https_proxy", "all_proxy", "no_proxy", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
)  # fmt: skip


class Outcome(Enum):
    """How a git command ended, for code that branches on it."""

    OK = "ok"
    CONFLICT = "conflict"
    """A merge was tried and has conflicts."""
    REFUSED = "refused"
    """Git refused (or, for a question, answered "no"), and changed nothing."""
    LOCK = "lock"
    """Another git holds a lock, or a killed one left it."""
    INFRA = "infra"
    """Anything else: a broken repository, a full disk, a signal, a time-out."""


_LOCK = re.compile(r"\.lock': File exists|could not lock config file|Another git process seems to be running")
_UNABLE = re.compile(r"Unable to create '.*\.lock'")
"""The system refused a lock file, as on a full disk. Of a ref's git says "cannot lock ref" then too, as in a refusal."""
_REFUSED = re.compile(
    r"but expected|reference already exists|unable to resolve reference|cannot lock ref|Not possible to fast-forward"
    r"|would be overwritten|would lose untracked|refusing to|already exists|contains modified or untracked"
    r"|is already checked out|cannot be moved or removed|You have not concluded|not something we can merge"
)


_NO_INDEX = "corral.no-index"
"""A file that never exists; to git that is an empty index."""
_OF_COMMITS = ("diff-tree", "merge-tree")
"""Commands about commits, which read an index all the same: a damaged one fails them, and its ``.gitmodules`` decides merges."""


def classify(verb: str, rc: int, stderr: str) -> Outcome:
    """Decide the outcome from the exit code and, only if that is not enough, from the message (in C locale).

    A non-zero exit is never by itself a conflict: only ``merge-tree`` reports "conflict" by exiting 1.
    """
    if rc == 0:
        return Outcome.OK
    if _LOCK.search(stderr):
        return Outcome.LOCK
    if rc == 1 and verb == "merge-tree":
        return Outcome.CONFLICT
    if rc == 1 or (_REFUSED.search(stderr) and not _UNABLE.search(stderr)):
        return Outcome.REFUSED
    return Outcome.INFRA


@dataclass(frozen=True)
class Result:
    """The result of one git command. ``argv`` is without the wrapper's own options; ``rc`` is negative for a signal."""

    argv: tuple[str, ...]
    rc: int
    stdout: bytes
    stderr: str
    outcome: Outcome
    cut: str = ""
    """The bound that ended it; empty: none."""

    @property
    def text(self) -> str:
        """Standard output as text; bytes that are not UTF-8 survive (``surrogateescape``)."""
        return os.fsdecode(self.stdout)

    @property
    def names(self) -> list[str]:
        """The items of an output whose items end in NUL."""
        return [name for name in self.text.split("\0") if name]

    @property
    def ok(self) -> bool:
        """Whether git exited 0."""
        return self.outcome is Outcome.OK

    def failure(self) -> GitFailed:
        """The error to raise if the caller cannot continue."""
        lines = [line for line in self.stderr.splitlines() if line.strip()]
        message = next((line for line in lines if line.startswith(("fatal: ", "error: "))), "".join(lines[:1]))
        locked = "Another git command is running, or a killed one left its lock file."
        stderr, outcome = self.stderr[-4000:], self.outcome.value
        return GitFailed(
            f"git {self.argv[0]} failed: {message[:300] or f'exit code {self.rc}'}",
            cause=locked if self.outcome is Outcome.LOCK else "",
            remedy="Install git 2.38 or newer, then `corral daemon restart`." if self.rc == process.NOT_FOUND else "",
            details={"argv": list(self.argv), "rc": self.rc, "stderr": stderr, "outcome": outcome},
        )


@dataclass(frozen=True)
class Identity:
    """The author of a commit."""

    name: str
    email: str


class Git:
    """One checkout, or one repository without a checkout. Holds no process and no open file; thread-safe.

    Args:
        git_dir: The worktree's own git directory; the common one for work on refs alone.
        work_tree: Top of the checkout, or None.
    """

    def __init__(self, git_dir: Path, work_tree: Path | None = None) -> None:
        self.git_dir = git_dir
        self.work_tree = work_tree

    def __repr__(self) -> str:
        return f"Git({str(self.git_dir)!r}, {str(self.work_tree)!r})"

    def run(
        self,
        *args: str,
        input: bytes | None = None,
        timeout_s: float = 60,
        index_file: Path | None = None,
        env: Mapping[str, str] | None = None,
        config: Mapping[str, str] | None = None,
        most: int = process.OUTPUT_CAP,
        bounds: Bounds | None = None,
    ) -> Result:
        """Run ``git <args>`` here.

        Args:
            args: The verb first. User input must already be a full object name, a full ref, or follow ``--``.
            input: Standard input; None is ``/dev/null``.
            timeout_s: Seconds until git and its children are killed.
            index_file: An index to use instead of the checkout's.
            env: Variables to add (an identity, dates).
            config: Configuration to add for this command.
            most: Bytes of output beyond which git is killed; the result then fails, with the output so far.
            bounds: What git and all that it starts may use besides; they are killed beyond it.
        """
        if args[0] == "push" and not all(_PUSHES.fullmatch(arg) for arg in args[1:]):
            raise InvalidInput(
                "This push is not one that Corral makes.", cause="It could overwrite what others pushed."
            )
        top = self.work_tree or self.git_dir
        argv = ["git", "-C", str(top), "--no-pager", f"--git-dir={self.git_dir}"]
        if self.work_tree is not None:
            argv.append(f"--work-tree={self.work_tree}")
        for key, value in (config or {}).items():
            argv += ["-c", f"{key}={value}"]
        environment = environ()
        if index_file is None and args[0] in _OF_COMMITS:
            index_file = self.git_dir / _NO_INDEX
        if index_file is not None:
            environment["GIT_INDEX_FILE"] = str(index_file)
        environment.update(env or {})
        return _run([*argv, *args], args, environment, input, timeout_s, most, bounds)

    def must(self, *args: str, **kw: Any) -> str:
        """Run, and return standard output without surrounding white space.

        Raises:
            GitFailed: Git did not exit 0.
        """
        return self.check(*args, **kw).text.strip()

    def check(self, *args: str, **kw: Any) -> Result:
        """Run, and return the result.

        Raises:
            GitFailed: Git did not exit 0.
        """
        result = self.run(*args, **kw)
        if not result.ok:
            raise result.failure()
        return result

    def flush(self) -> None:
        """Wait until every object of the repository is on its disk: the git of an agent or a person does not.

        Raises:
            GitFailed: The disk does not take them.
        """
        try:
            files.flush(self.common_dir)
        except OSError as error:
            raise GitFailed(
                f"What is in {self.common_dir} could not be written to its disk: {error.strerror}."
            ) from error

    @property
    def top(self) -> Path:
        """The top of the checkout; for one that has a checkout."""
        assert self.work_tree is not None
        return self.work_tree

    @cached_property
    def common_dir(self) -> Path:
        """The git directory that all worktrees of the repository share."""
        try:
            text = (self.git_dir / "commondir").read_text().rstrip("\n")
        except FileNotFoundError:
            return self.git_dir
        return Path(os.path.normpath(self.git_dir / text))

    def branch(self) -> str | None:
        """The full ref that HEAD names, whether or not it has a commit; None when detached."""
        text = self._head_text()
        if text == "ref: refs/heads/.invalid":  # a reftable repository: HEAD is not in this file
            result = self.run("symbolic-ref", "-q", "HEAD")
            return result.text.strip() if result.ok else None
        return text.removeprefix("ref: ") if text.startswith("ref: ") else None

    def head(self) -> str | None:
        """The commit that HEAD is at; None where there is no commit yet."""
        text = self._head_text()
        if not text.startswith("ref: "):
            return text
        loose = self.loose(text.removeprefix("ref: "))
        if loose is not None:
            return loose
        result = self.run("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
        return result.text.strip() if result.ok else None

    def loose(self, ref: str) -> str | None:
        """Read a ref's own file, without starting a process; None means: ask git.

        Exact: git writes ``packed-refs`` before it deletes such a file, and never the other way round.
        """
        try:
            text = (self.common_dir / ref).read_bytes().decode("ascii", "replace").rstrip("\n")
        except OSError:
            return None
        return text if OID.fullmatch(text) else None

    def stored(self, ref: str) -> str | None:
        """Read a ref as :meth:`loose` does, or from ``packed-refs``; ``""``: there is none, None: ask git."""
        loose = self.loose(ref)
        if loose is not None:
            return loose
        try:
            if not stat.S_ISDIR((self.common_dir / ref).lstat().st_mode):
                return None
        except (FileNotFoundError, NotADirectoryError):
            pass
        except OSError:
            return None
        try:
            packed = (self.common_dir / "packed-refs").read_bytes()
        except FileNotFoundError:
            return None if (self.common_dir / "reftable").exists() else ""
        except OSError:
            return None
        end = packed.find(b" %s\n" % os.fsencode(ref))
        sha = packed[packed.rfind(b"\n", 0, max(end, 0)) + 1 : end].decode("ascii", "replace") if end >= 0 else ""
        return sha if not sha or OID.fullmatch(sha) else None

    def _head_text(self) -> str:
        try:
            return (self.git_dir / "HEAD").read_text(errors="surrogateescape").rstrip("\n")
        except OSError as error:
            raise NotAProject(
                f"{self.git_dir} is not a git directory.",
                cause="The checkout, or its entry in the repository, was deleted.",
                remedy="Run `corral doctor`.",
            ) from error


def with_credentials() -> dict[str, str]:
    """The variables with which git may ask the user's SSH agent and credential helper; for a fetch that a user asked for."""
    index = list(_PINNED).index("credential.helper")
    unpinned = {f"GIT_CONFIG_KEY_{index}": "protocol.ext.allow", f"GIT_CONFIG_VALUE_{index}": "never"}
    return {**unpinned, **_of_the_network(), "GIT_SSH_COMMAND": _SSH}


def with_own_credentials(git: Git) -> dict[str, str]:
    """The same for a repository whose configuration Corral did not write: the user's own and the system's count, not that.

    Where it names a credential helper, none is asked: git would ask that one too.
    """
    keys = r"^(credential\.(.*\.)?helper|core\.sshcommand)$"
    listed = git.run("config", "-z", "--show-scope", "--name-only", "--get-regexp", keys).text.split("\0")
    by_scope = {(scope, key.rpartition(".")[2]) for scope, key in zip(listed[::2], listed[1::2], strict=False)}
    variables = {**with_credentials(), "GIT_PROXY_COMMAND": ""}
    planted = {key for scope, key in by_scope if scope not in ("system", "global", "command")}
    if "helper" in planted:
        variables = {name: value for name, value in variables.items() if not name.startswith("GIT_CONFIG_")}
    if "sshcommand" not in planted and not by_scope.isdisjoint({("system", "sshcommand"), ("global", "sshcommand")}):
        del variables["GIT_SSH_COMMAND"]
    return variables


_SSH = "ssh -oBatchMode=yes -oConnectTimeout=20"
"""Never asks."""


def _of_the_network() -> dict[str, str]:
    return {name: os.environ[name] for name in _OF_THE_NETWORK if name in os.environ}


OID = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")
"""A whole object name."""


def environ() -> dict[str, str]:
    """The environment of every git: inherited and pinned variables."""
    return {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **_FIXED}


def as_env(identity: Identity) -> dict[str, str]:
    """The variables that make git commit as ``identity``."""
    return {
        "GIT_AUTHOR_NAME": identity.name,
        "GIT_AUTHOR_EMAIL": identity.email,
        "GIT_COMMITTER_NAME": identity.name,
        "GIT_COMMITTER_EMAIL": identity.email,
    }


def version() -> tuple[int, ...]:
    """The version of the git in use: ``(2, 39, 5)``."""
    match = re.search(r"(\d+(?:\.\d+)+)", _run(["git", "version"], ("version",), environ(), None, 10).text)
    return tuple(int(part) for part in match[1].split(".")) if match else ()


def discovered_top(path: Path) -> Path | None:
    """The work tree that a git started in ``path`` would find by itself."""
    result = _run(["git", "-C", str(path), "rev-parse", "--show-toplevel"], ("rev-parse",), environ(), None, 10)
    return Path(result.text.removesuffix("\n")) if result.ok else None


def open_repository(common_dir: Path) -> Git:
    """A repository by its common git directory, for work that needs no checkout.

    Raises:
        NotAProject: There is no repository there.
    """
    if not (common_dir / "HEAD").exists() or not (common_dir / "objects").is_dir():
        raise NotAProject(f"{common_dir} is not a git repository.")
    return Git(common_dir)


def pointed_to(dot_git: Path) -> Path:
    """The git directory that a ``.git`` is, or names."""
    if dot_git.is_dir():
        return dot_git
    text = dot_git.read_text(errors="surrogateescape").removeprefix("gitdir: ").rstrip("\n")
    return Path(os.path.normpath(dot_git.parent / text))


def open_checkout(path: Path) -> Git:
    """A checkout by its top folder (of the main worktree or a linked one); files are read, git is not run.

    Raises:
        NotAProject: ``path`` is not the top of a checkout.
    """
    try:
        git_dir = pointed_to(path / ".git")
    except OSError as error:
        raise NotAProject(f"{path} is not the top of a git checkout.") from error
    if not (git_dir / "HEAD").exists():
        raise NotAProject(
            f"{path} has lost its git directory.",
            cause=f"{git_dir} does not exist, or is damaged.",
            remedy="Run `corral doctor`.",
        )
    return Git(git_dir, path)


def _run(
    argv: list[str],
    shown: tuple[str, ...],
    env: Mapping[str, str],
    stdin: bytes | None,
    timeout_s: float,
    most: int = process.OUTPUT_CAP,
    bounds: Bounds | None = None,
) -> Result:
    ended = process.execute(argv, env, stdin=stdin, timeout_s=timeout_s, cap=most, bounds=bounds)
    if ended.rc in _KILLED and not ended.cut and shown[0] in _READERS:
        ended = process.execute(argv, env, stdin=stdin, timeout_s=timeout_s, cap=most)
    stderr = os.fsdecode(ended.stderr)
    if ended.cut:
        return Result(shown, ended.rc or -15, ended.stdout, f"{ended.cut}\n{stderr}", Outcome.INFRA, ended.cut)
    return Result(shown, ended.rc, ended.stdout, stderr, classify(shown[0], ended.rc, stderr))
