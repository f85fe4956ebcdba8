"""Keys of known shapes, planted wherever a person may have one, are found in nothing that Corral wrote or showed."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from corral.client.connection import Client
from corral.core.sealing import unsealed
from corral.faces.cli.app import run
from corral.faces.cli.terminal.context import Common
from tests.support.coordinated import Coordinated, eventually

KEYS = {
    name: f"sk-ant-api03-{name}-0123456789abcdefghijklmnopqrstuvwxyz-AA"
    for name in ("environment", "stored", "dotenv", "printed", "verified", "typed")
}
TOKENS = {
    "GITHUB_TOKEN": "ghp_0123456789abcdefghijklmnopqrstuvwxyz",
    "AWS_SECRET_ACCESS_KEY": "wJalrXUtnFEMI/K7MDENG/bPxRf",
}
"""Further secrets of a person's shell."""
SECRETS = [*KEYS.values(), *TOKENS.values()]


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.req("FR-CONFIG-004", "NFR-SEC-001", "NFR-SEC-002")
def test_no_planted_key_is_in_a_log_an_error_an_event_a_process_or_a_workers_environment(
    coordinate: Callable[..., Coordinated], sealed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify = f"echo {_split(KEYS['verified'])}; [ $(ls | wc -l) = 2 ]"  # it names no file, which would need an approval
    house = coordinate(config="tasks: {max_retries: 0}\nlogging: {level: DEBUG}", verify=(verify,))
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEYS["environment"])
    for name, value in TOKENS.items():
        monkeypatch.setenv(name, value)
    (house.root / ".git" / "info" / "exclude").write_text(".env\n")
    (house.root / ".env").write_text(f"ANTHROPIC_API_KEY={KEYS['dotenv']}\n")
    shown = _store(house, KEYS["stored"])
    house.run("daemon", "start")
    failing = house.submit("fails", f"env; echo {_split(KEYS['printed'])}; exit 3")
    red = house.submit("is red", "env; echo x > b")
    waited = house.run("wait", failing, red, "--timeout", "60", check=False)
    shown += waited.stdout + waited.stderr
    assert [row["state"] for row in house.json("merge", "list")] == ["failed"], "its verification printed the key"
    monkeypatch.chdir(house.root)
    for words in (
        ("config", "key-status"), ("config", "show"), ("status",), ("daemon", "logs", "--lines", "1000"),
        ("config", "set-key", KEYS["typed"]), ("config", "set", "landing.verify", "x: ["), ("task", "detail", failing),
        ("task", "logs", failing), ("task", "detail", red), ("merge", "detail", red), ("merge", "log", red), ("doctor",),
        ("--debug", "config", "key-status"),
    ):  # fmt: skip
        shown += _seen(*words)
    assert "HOME=" in shown, "the worker's environment is shown"
    assert [secret for secret in SECRETS if secret in shown] == []
    eventually(lambda: not unsealed(house.root / ".corral" / "logs"))
    written = {file: file.read_bytes() for file in [*house.root.rglob("*"), *sealed.rglob("*")] if file.is_file()}
    places = {
        (str(file.relative_to(house.root.parent)), secret)
        for file, content in written.items()
        for secret in SECRETS
        if secret.encode() in content and file != house.root / ".env"
    }
    assert places == set()
    kept = [file for part in ("tasks", "merges") for file in (house.root / ".corral" / "logs" / part).rglob("*.log")]
    assert b"".join(written[file] for file in kept).count(b"[redacted]***") >= 2, "what they printed was overwritten"
    assert all(file.stat().st_mode & 0o077 == 0 for file in kept)
    if Path("/proc").is_dir():
        listed = Path(f"/proc/{house.daemon_pid()}/cmdline").read_bytes()
        assert not [secret for secret in SECRETS if secret.encode() in listed]


def _split(key: str) -> str:
    """A shell word that prints a key which the command line does not contain."""
    return f"{key[:20]}''{key[20:]}"


def _store(house: Coordinated, key: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "corral", "config", "set-key", "--file"],
        cwd=house.root,
        input=key,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def _seen(*words: str) -> str:
    """Everything that a command writes."""
    Common.output, Common.verbose, Common.debug = None, False, False
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
            run([*words])
    finally:
        Client.observer = None  # of --debug
    return out.getvalue()
