"""The environment of processes that run other people's code: an allow-list.

A Claude Code worker gets Claude's credentials and no others. A command, which any agent may submit, a program that is no Claude
Code, and the commands of a conversation with the Messages API get none: a program finds those in its user's files. A
verification, which runs code that an agent wrote, gets no proxy's password either.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, MutableMapping
from pathlib import Path

_PROXIES = frozenset(
    spelling
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "FTP_PROXY", "ALL_PROXY", "NO_PROXY")
    for spelling in (name, name.lower())
)
_PLAIN = frozenset(
    {
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TMPDIR", "LANG", "LANGUAGE", "TZ"),
        *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "PIP_CERT"),
        *("XDG_RUNTIME_DIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"),
        # Folders of toolchains: without them programs on the PATH may not even start. A variable that selects a toolchain
        # for one terminal (PYENV_VERSION, RUSTUP_TOOLCHAIN) does not pass: a fresh clone would not have it.
        *("CARGO_HOME", "RUSTUP_HOME", "GOPATH", "GOROOT", "GOCACHE", "GOMODCACHE"),
        *("JAVA_HOME", "GRADLE_USER_HOME", "MAVEN_HOME", "SDKMAN_DIR", "DOTNET_ROOT", "GEM_HOME", "RBENV_ROOT"),
        *("NVM_DIR", "VOLTA_HOME", "PNPM_HOME", "COREPACK_HOME", "BUN_INSTALL", "DENO_DIR"),
        *("PYENV_ROOT", "UV_CACHE_DIR", "PIP_CACHE_DIR", "ASDF_DIR", "ASDF_DATA_DIR", "MISE_DATA_DIR"),
    }
)
_OF_A_TERMINAL = frozenset({"TERM", "SHELL", "TMPDIR", "XDG_RUNTIME_DIR"})
"""Variables that differ from one terminal, or one login, to the next, although nothing else does."""
_CLAUDE = re.compile(r"ANTHROPIC_\w+|CLAUDE_CODE_\w+|CLAUDE_CONFIG_DIR|DISABLE_AUTOUPDATER")
_ONE_SESSION = re.compile(
    r"CLAUDE_CODE_(?:\w+_)?(?:SESSIONS?|ENTRYPOINT|DESCRIPTOR|FD|SOCKET|SSE_PORT|TASK_LIST_ID|REMOTE|BRIDGE)(?:_\w+)?"
)
"""Variables that the client sets for its own children: identity, sockets and descriptors."""


def worker_environment(
    environ: Mapping[str, str], additions: Mapping[str, str], *, is_claude: bool = False
) -> dict[str, str]:
    """The whole environment of a worker.

    Args:
        environ: The source; only harmless variables pass.
        additions: Variables that win over it. Folders in its PATH come before those of ``environ``.
        is_claude: Whether it is the Claude Code client: Claude's own variables pass too, with its credentials.
    """
    env = {name: value for name, value in environ.items() if _is_plain(name) or (is_claude and _is_claudes(name))}
    return _with_additions(env, additions)


def verification_environment(
    environ: Mapping[str, str], additions: Mapping[str, str], checkout: Path | None = None
) -> dict[str, str]:
    """The whole environment of a verification or a setup command: a worker's, without credentials.

    Args:
        checkout: The person's checkout: paths of ``environ`` inside it do not pass. For example, a daemon started in an
            activated virtual environment has that environment's programs on its ``PATH``.
    """
    env = {name: value for name, value in environ.items() if _is_plain(name) and not _holds_password(name, value)}
    if checkout is not None and not _is_inside(env.get("HOME", ""), checkout):
        env = {name: rest for name, value in env.items() if (rest := _without(value, checkout)) or not value}
    return _with_additions(env, additions)


def _without(value: str, checkout: Path) -> str:
    """A variable's value without the paths in a checkout; it may be a list of them."""
    return os.pathsep.join(part for part in value.split(os.pathsep) if not _is_inside(part, checkout))


def _is_inside(path: str, checkout: Path) -> bool:
    return path.startswith("/") and Path(os.path.realpath(path)).is_relative_to(checkout)


def lasting_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables of a verification that can decide its outcome; independent of the terminal that started the daemon.

    A folder that is in PATH twice counts once.
    """
    env = {name: value for name, value in verification_environment(environ, {}).items() if name not in _OF_A_TERMINAL}
    if "PATH" in env:
        env["PATH"] = ":".join(dict.fromkeys(env["PATH"].split(":")))
    return env


def take_recorded(environ: MutableMapping[str, str], recorded: Mapping[str, str]) -> None:
    """Make the recorded environment this process's own, in so far as it can decide an outcome; the rest stays."""
    for name in lasting_environment(environ):
        del environ[name]
    environ.update(recorded)


def _is_plain(name: str) -> bool:
    return name in _PLAIN or name in _PROXIES or name.startswith("LC_")


def _is_claudes(name: str) -> bool:
    return _CLAUDE.fullmatch(name) is not None and not _ONE_SESSION.fullmatch(name)


def _holds_password(name: str, value: str) -> bool:
    return name in _PROXIES and "@" in value


def _with_additions(env: dict[str, str], additions: Mapping[str, str]) -> dict[str, str]:
    first, rest = additions.get("PATH", ""), env.get("PATH", "")
    if first and rest and not f":{first}".endswith(f":{rest}"):
        first = f"{first}:{rest}"
    path = first or rest
    return {**env, **additions, **({"PATH": path} if path else {})}
