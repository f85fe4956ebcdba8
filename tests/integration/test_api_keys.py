"""The commands for the key, with a keychain that behaves, or does not, and with the real daemon."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from corral.config.keys.keychain import Keychain
from corral.config.keys.lookup import WebhookSecret
from corral.core.errors import ApiKeyUnavailable
from tests.conftest import commit, git
from tests.support.coordinated import Coordinated, eventually
from tests.support.keychains import TestKeychain, no_keychain

KEY = "sk-ant-api03-0123456789-abcdefghij-Wx7Z"
OTHER = "sk-ant-api03-9876543210-jihgfedcba-Qr5S"


@pytest.fixture
def keychain(sealed: Path) -> TestKeychain:
    return TestKeychain(sealed)


def corral(cwd: Path, *args: str, typed: str = "", **env: str) -> Any:
    """Run a command with a text as its standard input; its output never shows a key."""
    done = subprocess.run(
        [sys.executable, "-m", "corral", "config", *args],
        cwd=cwd,
        env={**os.environ, **env},
        input=typed,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert not any(key in done.stdout + done.stderr for key in (KEY, OTHER))
    return done


def status(cwd: Path, **env: str) -> dict[str, Any]:
    done = corral(cwd, "key-status", "--json", **env)
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


@pytest.mark.req("FR-CONFIG-004", "NFR-SEC-001")
def test_a_key_is_kept_in_the_keychain_shown_by_its_end_and_removed(tmp_path: Path, keychain: TestKeychain) -> None:
    assert status(tmp_path)["source"] is None
    done = corral(tmp_path, "set-key", typed=f"{KEY}\n")
    assert done.stdout == "The key is stored in the keychain.\n"
    assert list(keychain.entries.values()) == [KEY]
    key = status(tmp_path)
    assert (key["source"], key["ending"]) == ("keychain", "Wx7Z")
    shown = corral(tmp_path, "key-status").stdout
    assert "…Wx7Z (used)" in shown and "-Wx7Z" not in shown
    assert corral(tmp_path, "remove-key").stdout == "The key is removed from the keychain.\n"
    assert keychain.entries == {} and status(tmp_path)["source"] is None
    assert corral(tmp_path, "remove-key").stdout.startswith("No key is stored.")


@pytest.mark.req("FR-CONFIG-004", "NFR-SEC-001")
@pytest.mark.parametrize("world", ["none", "unencrypted", "refused"])
def test_without_a_keychain_that_encrypts_the_key_is_in_an_encrypted_file(
    tmp_path: Path, sealed: Path, world: str
) -> None:
    keychain = TestKeychain(sealed, priority=0.5 if world == "unencrypted" else 5)
    if world == "none":
        no_keychain(sealed)
    done = corral(tmp_path, "set-key", *(["--file"] if world == "refused" else []), typed=KEY)
    assert done.stdout == "The key is stored in the encrypted file.\n"
    assert keychain.entries == {}, "a keychain that does not encrypt is none"
    assert (status(tmp_path)["source"], status(tmp_path)["ending"]) == ("encrypted_file", "Wx7Z")
    stored = [path for path in sealed.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    assert stored == []
    assert corral(tmp_path, "remove-key").stdout == "The key is removed from the encrypted file.\n"
    assert not list((sealed / ".config" / "corral").iterdir())


@pytest.mark.req("FR-CONFIG-004")
def test_a_key_as_an_argument_is_refused_and_not_repeated(tmp_path: Path, keychain: TestKeychain) -> None:
    for words in ([KEY], [f"--key={KEY}"], ["--", KEY]):
        done = corral(tmp_path, "set-key", *words)
        assert done.returncode == 2 and "never an argument" in done.stderr, done.stderr
        done = corral(tmp_path, "set-key", *words, "--json")
        assert done.returncode == 2 and KEY not in done.stdout
    done = corral(tmp_path, "set-key", typed="two words\n")
    assert done.returncode == 2 and "This is no API key" in done.stderr
    assert keychain.entries == {}


@pytest.mark.req("FR-CONFIG-004")
def test_every_error_of_the_webhooks_secret_names_it_and_its_command(
    tmp_path: Path, sealed: Path, keychain: TestKeychain
) -> None:
    def fails(*words: str, typed: str = "", **env: str) -> str:
        done = corral(tmp_path, *words, "--webhook", typed=typed, **env)
        assert done.returncode != 0 and "API key" not in done.stderr and KEY not in done.stderr, done.stderr
        return str(done.stderr)

    for words, typed in (([KEY], ""), ([], "two words\n")):
        error = fails("set-key", *words, typed=typed)
        assert "webhook secret" in error and "set-key --webhook" in error
    assert "webhook secret" in fails("remove-key", CORRAL_TASK_ID="x")
    keychain.behave("locked")
    assert "set-key --webhook --file" in fails("set-key", typed=KEY)
    assert corral(tmp_path, "set-key", "--webhook", "--file", typed=KEY).returncode == 0
    (folder := sealed / ".config" / "corral").joinpath("webhook-secret.secret").write_bytes(bytes(32))
    with pytest.raises(ApiKeyUnavailable, match="The webhook secret in") as refused:
        WebhookSecret({"XDG_CONFIG_HOME": str(folder.parent)}).find()
    assert "set-key --webhook" in refused.value.remedy


@pytest.mark.req("FR-CONFIG-004")
def test_an_agent_neither_stores_nor_removes_a_key(tmp_path: Path, keychain: TestKeychain) -> None:
    for words in (["set-key"], ["remove-key"]):
        done = corral(tmp_path, *words, typed=KEY, CORRAL_TASK_ID="x")
        assert done.returncode == 1 and "needs a person" in done.stderr
    assert keychain.entries == {}


@pytest.mark.req("FR-CONFIG-004")
def test_the_prompt_does_not_show_what_is_typed(tmp_path: Path, keychain: TestKeychain) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        os.execv(sys.executable, [sys.executable, "-m", "corral", "config", "set-key"])
    shown = b""
    while b"API key" not in shown:
        shown += os.read(terminal, 1024)
    os.write(terminal, f"{KEY}\n".encode())
    try:
        while data := os.read(terminal, 1024):
            shown += data
    except OSError:
        pass  # the end of a terminal whose last process is gone
    assert os.waitpid(pid, 0)[1] == 0, shown
    assert KEY.encode() not in shown and b"stored in the keychain" in shown
    assert list(keychain.entries.values()) == [KEY]


@pytest.mark.req("FR-CONFIG-004")
@pytest.mark.parametrize(("behaviour", "message"), [("locked", "keychain is locked"), ("failing", "keychain failed")])
def test_a_locked_or_failing_keychain_is_an_error_with_a_remedy(
    tmp_path: Path, keychain: TestKeychain, behaviour: str, message: str
) -> None:
    keychain.behave(behaviour)
    done = corral(tmp_path, "set-key", typed=KEY)
    assert done.returncode == 1 and message in done.stderr and "corral config set-key --file" in done.stderr
    assert corral(tmp_path, "set-key", "--file", typed=OTHER).returncode == 0
    assert status(tmp_path)["source"] == "encrypted_file"
    (_, second, _, _) = status(tmp_path)["places"]
    assert message in second["problem"]


@pytest.mark.req("FR-CONFIG-004")
def test_a_hanging_keychain_is_bounded_and_its_process_is_gone(sealed: Path, keychain: TestKeychain) -> None:
    keychain.behave("hanging")
    began = time.monotonic()
    with pytest.raises(ApiKeyUnavailable, match="did not answer within 4 s") as refused:
        Keychain(os.environ, 4.0).get()
    assert (keychain.folder / "asked").exists() and time.monotonic() - began < 60
    assert "set-key --file" in refused.value.remedy
    children = psutil.Process().children(recursive=True)
    alive = [child for child in children if child.is_running() and child.status() != psutil.STATUS_ZOMBIE]
    assert not [child for child in alive if "keychain_process" in str(child.cmdline())]


@pytest.mark.req("FR-CONFIG-004")
def test_a_key_in_a_tracked_dotenv_is_named_and_not_used(house: Coordinated, keychain: TestKeychain) -> None:
    file = house.root / ".env"
    file.write_text(f"ANTHROPIC_API_KEY={KEY}\n")
    key = status(house.root)
    assert (key["source"], key["ending"]) == ("dotenv", "Wx7Z")
    assert "add .env to .gitignore" in key["places"][-1]["note"]
    commit(house.root, {".gitignore": ".env\n"})
    assert status(house.root)["places"][-1]["note"] is None
    git(house.root, "add", "--force", ".env")
    key = status(house.root)
    assert key["source"] is None and "tracked by git" in key["places"][-1]["problem"]
    assert "git rm --cached .env" in corral(house.root, "key-status").stdout


@pytest.mark.req("FR-CONFIG-004")
def test_the_daemon_takes_a_stored_key_at_once_and_a_change_is_seen(
    house: Coordinated, sealed: Path, keychain: TestKeychain
) -> None:
    assert house.ask("GET", "/keys")["source"] is None
    assert json.loads(corral(house.root, "set-key", "--json", typed=KEY).stdout)["daemon"]["source"] == "keychain"
    assert house.ask("GET", "/keys") == {"source": "keychain", "ending": "Wx7Z", "problem": None, "remedy": None}
    assert [runner["problem"] for runner in house.ask("GET", "/runners") if runner["name"] == "anthropic"] == [None]
    keychain.behave("locked")
    house.ask("POST", "/keys/reload")
    refused = house.run("task", "submit", "--runner", "anthropic", "--title", "x", "--prompt", "x", check=False)
    assert "keychain is locked" in refused.stderr and "set-key --file" in refused.stderr
    shown = corral(house.root, "key-status", ANTHROPIC_API_KEY=OTHER).stdout
    assert "…Qr5S (used)" in shown and "The running daemon has no key: The system's keychain is locked." in shown
    keychain.behave("well")
    assert json.loads(corral(house.root, "remove-key", "--json").stdout)["daemon"]["source"] is None
    eventually(lambda: house.ask("GET", "/keys")["source"] is None)
