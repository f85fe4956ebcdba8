"""Logs that programs wrote themselves lose their secrets, and nothing else, once nobody writes to them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from corral.core import sealing
from corral.core.redaction import remember_secret, remember_secrets

KEY = "sk-ant-api03-0123456789abcdefghijklmnop"
BLOCK = "-----BEGIN RSA PRIVATE KEY-----\n" + "MIIEabcdefgh\n" * 40 + "-----END RSA PRIVATE KEY-----\n"


@pytest.mark.req("NFR-SEC-002")
def test_secrets_are_overwritten_and_every_other_byte_stays(tmp_path: Path) -> None:
    remember_secret("an-opaque-value-0")
    log = tmp_path / "1.log"
    before = (
        f"über {KEY}, naïve\n".encode()
        + b"\xff\xfe raw \x00 bytes\n"
        + b'{"text":"HOME=/x\\n' + KEY.encode() + b'\\nan-opaque-value-0"}\n'
        + b"https://me:pw@example.org/ and \x1b[31msk-ant-api03-\x1b[1m0123456789abcdef\x1b[0m coloured\n"
    )  # fmt: skip
    log.write_bytes(before)
    os.utime(log, (1000, 1000))
    inode = log.stat().st_ino
    assert sealing.seal(log) == 5
    after = log.read_bytes()
    mask = b"[redacted]" + b"*" * (len(KEY) - 10)
    assert after == (
        b"\xc3\xbcber " + mask + b", na\xc3\xafve\n"
        b"\xff\xfe raw \x00 bytes\n"
        b'{"text":"HOME=/x\\n' + mask + b'\\n[redacted]*******"}\n'
        b"https://*****@example.org/ and \x1b[31m[redacted]" + b"*" * 23 + b"\x1b[0m coloured\n"
    )
    assert (log.stat().st_ino, log.stat().st_mtime, len(after)) == (inode, 1000, len(before))
    sealing.seal(log)
    assert log.read_bytes() == after, "sealing again changes nothing"
    remember_secrets({})


@pytest.mark.req("NFR-SEC-002")
@pytest.mark.parametrize("secret", [KEY, BLOCK], ids=["key", "block"])
@pytest.mark.parametrize("between", ["\n", " ", "é"], ids=["lines", "one_line", "two_bytes"])
def test_a_secret_on_any_border_of_two_windows_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, secret: str, between: str
) -> None:
    monkeypatch.setattr(sealing, "WINDOW", 1 << 10)
    monkeypatch.setattr(sealing, "OVERLAP", 1 << 8)
    log = tmp_path / "1.log"
    for shift in range(0, 1 << 10, 13):
        text = ("." * 50 + between) * 16 + "." * shift + f" {secret.strip()} " + ("." * 50 + between) * 40
        log.write_bytes(text.encode())
        sealing.seal(log)
        first, _, last = text.partition(secret.strip())
        after = log.read_bytes()
        assert set(after[len(first.encode()) : -len(last.encode())]) <= set(b"[redacted]*"), shift
        assert (after[: len(first.encode())], after[-len(last.encode()) :]) == (first.encode(), last.encode()), shift


def test_what_is_no_log_is_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_text(KEY)
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "1.log").symlink_to(outside)
    os.mkfifo(folder / "2.log")
    (folder / "3.log").write_text(KEY)
    (folder / "4.log").write_text(KEY)
    assert sealing.seal(folder / "none.log") == sealing.seal(folder / "1.log") == sealing.seal(folder / "2.log") == 0
    sealing.seal_where_possible(tmp_path, folder, "3")
    assert [KEY in (folder / name).read_text() for name in ("3.log", "4.log")] == [False, True]
    sealing.seal_where_possible(tmp_path, folder)
    assert KEY not in (folder / "4.log").read_text()
    assert outside.read_text() == KEY
    assert sealing.unsealed(tmp_path) == []


@pytest.mark.req("NFR-SEC-002")
def test_a_log_is_noted_until_it_is_sealed_and_a_note_leads_nowhere_else(tmp_path: Path) -> None:
    logs = tmp_path / "logs"
    (logs / "tasks" / "a b").mkdir(parents=True)
    file = logs / "tasks" / "a b" / "1.log"
    file.write_text(KEY)
    sealing.put_off(logs, file)
    sealing.put_off(logs, file)
    for name in ("..%2Foutside.log", "%2Fetc%2Fpasswd"):
        (logs / sealing.UNSEALED / name).touch()
    assert sealing.unsealed(logs) == [file]
    file.unlink()
    file.mkdir()  # what cannot be opened for writing
    with pytest.raises(OSError):
        sealing.seal(file)
    sealing.is_sealed(logs, file)
    assert sealing.unsealed(logs) == []
    sealing.seal_where_possible(logs, file.parent)
    assert sealing.unsealed(logs) == [file]
    file.rmdir()
    file.write_text(KEY)
    sealing.seal_where_possible(logs, file.parent)
    assert (sealing.unsealed(logs), KEY in file.read_text()) == ([], False)
