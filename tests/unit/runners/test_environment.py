"""What passes into the environment of a worker and of a verification."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from corral.runners.environment import verification_environment, worker_environment

Make = Callable[[Mapping[str, str], Mapping[str, str]], dict[str, str]]
PLAIN = {
    "PATH": "/system/bin",
    "HOME": "/home/ada",
    "USER": "ada",
    "LOGNAME": "ada",
    "SHELL": "/bin/zsh",
    "TERM": "xterm",
    "TMPDIR": "/tmp",
    "LANG": "C.UTF-8",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
    "HTTPS_PROXY": "http://proxy:3128",
    "http_proxy": "http://proxy:3128",
    "no_proxy": "localhost",
    "SSL_CERT_FILE": "/etc/ca.pem",
    "NODE_EXTRA_CA_CERTS": "/etc/ca.pem",
    "XDG_RUNTIME_DIR": "/run/user/1000",
    "CARGO_HOME": "/opt/cargo",
    "GOPATH": "/opt/go",
    "JAVA_HOME": "/opt/java",
}
CLAUDE = {
    "ANTHROPIC_API_KEY": "key",
    "ANTHROPIC_BASE_URL": "http://127.0.0.1:1",
    "ANTHROPIC_MODEL": "m",
    "CLAUDE_CODE_OAUTH_TOKEN": "token",
    "CLAUDE_CODE_MAX_RETRIES": "2",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CONFIG_DIR": "/home/ada/.claude",
}
ONE_SESSIONS_OWN = (
    "CLAUDECODE",
    "CLAUDE_CODE_SESSION_ID",
    "CLAUDE_CODE_CHILD_SESSION",
    "CLAUDE_CODE_ENTRYPOINT",
    "CLAUDE_CODE_SSE_PORT",
    "CLAUDE_CODE_TASK_LIST_ID",
    "CLAUDE_CODE_MESSAGING_SOCKET",
    "CLAUDE_CODE_OAUTH_TOKEN_FILE_DESCRIPTOR",
    "CLAUDE_CODE_REMOTE_SESSION_ID",
    "CLAUDE_CODE_REMOTE",
    "CLAUDE_PROJECT_DIR",
    "CLAUDE_ENV_FILE",
    "CLAUDE_PLUGIN_ROOT",
    "CLAUDE_EFFORT",
)
OTHERS_SECRETS = (
    "SSH_AUTH_SOCK",
    "GITHUB_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "NPM_TOKEN",
    "DB_PASSWORD",
    "OPENAI_API_KEY",
)
CALLERS_GIT = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_CONFIG_COUNT", "GIT_AUTHOR_NAME", "GIT_SSH_COMMAND")
CALLERS_CORRAL = ("CORRAL_TASK_ID", "CORRAL_SESSION_ID")
EVERYTHING = {
    **PLAIN,
    **CLAUDE,
    **dict.fromkeys(
        [*ONE_SESSIONS_OWN, *OTHERS_SECRETS, *CALLERS_GIT, *CALLERS_CORRAL, "PYTHONPATH", "LD_PRELOAD"], "x"
    ),
}


def test_only_the_claude_client_gets_what_is_claudes() -> None:
    assert worker_environment(EVERYTHING, {}, is_claude=True) == {**PLAIN, **CLAUDE}
    assert worker_environment(EVERYTHING, {}) == PLAIN


def test_a_verification_gets_no_credential() -> None:
    assert verification_environment(EVERYTHING, {}) == PLAIN


def test_a_proxy_with_a_password_is_a_credential() -> None:
    proxies = {"HTTPS_PROXY": "http://ada:secret@proxy:3128", "HTTP_PROXY": "ada:secret@proxy:3128", "ALL_PROXY": "p:1"}
    assert verification_environment(proxies, {}) == {"ALL_PROXY": "p:1"}
    assert worker_environment(proxies, {}) == proxies


@pytest.mark.parametrize("make", [worker_environment, verification_environment])
@pytest.mark.parametrize(
    ("ours", "first", "together"),
    [
        ("/system/bin", "/tools", "/tools:/system/bin"),
        ("/system/bin", "/tools:/system/bin", "/tools:/system/bin"),
        ("/system/bin", "/tools/system/bin", "/tools/system/bin:/system/bin"),
        ("/system/bin", None, "/system/bin"),
        (None, "/tools", "/tools"),
        (None, None, None),
    ],
)
def test_folders_that_are_added_come_first(
    make: Make, ours: str | None, first: str | None, together: str | None
) -> None:
    environ = {} if ours is None else {"PATH": ours}
    additions = {} if first is None else {"PATH": first}
    assert make(environ, additions).get("PATH") == together


@pytest.mark.parametrize("make", [worker_environment, verification_environment])
def test_additions_win(make: Make) -> None:
    assert make(EVERYTHING, {"HOME": "/other", "GIT_AUTHOR_NAME": "Ada"}).items() >= {
        ("HOME", "/other"),
        ("GIT_AUTHOR_NAME", "Ada"),
    }
