"""No secret that has a known shape, or that the environment names, is left in a text; innocent text is left alone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from corral.core.redaction import is_secret_name, redact, remember_secrets


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    remember_secrets({})
    yield
    remember_secrets({})


PEM = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\nAAAA\n-----END OPENSSH PRIVATE KEY-----"


@pytest.mark.req("NFR-SEC-002")
@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("key sk-ant-api03-AbCd_efgh-ijkl in it", "key [redacted] in it"),
        ("sk-proj-abcdefgh12345678", "[redacted]"),
        ("ghp_0123456789abcdefghijklmnopqrstuvwxyz", "[redacted]"),
        ("github_pat_11ABCDEFG0123456789_abcdef", "[redacted]"),
        ("glpat-abcdefghij0123456789", "[redacted]"),
        ("xoxb-123456789012-abcdefghijkl", "[redacted]"),
        ("hf_abcdefghijklmnopqrstuvwxyz0123", "[redacted]"),
        ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
        ("AIzaSyA-1234567890abcdefghijklmnopqrstu", "[redacted]"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl", "[redacted]"),
        ("Authorization: Bearer abc123def", "Authorization: Bearer [redacted]"),
        ("bearer abcdefghijklmnopqrstuvwxyz", "bearer [redacted]"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "'authorization': 'Basic [redacted]'"),
        ("Authorization: token 0123456789", "Authorization: token [redacted]"),
        ("AWS_SECRET_ACCESS_KEY=wJalrXUtnFEMI/K7MDENG", "AWS_SECRET_ACCESS_KEY=[redacted]"),
        ('DB_PASSWORD: "correct-horse" next', 'DB_PASSWORD: "[redacted]" next'),
        ("https://me:p@ss@example.test/r.git", "https://[redacted]@example.test/r.git"),
        ("https://:token@example.test", "https://[redacted]@example.test"),
        (f"before\n{PEM}\nafter", "before\n[redacted]\nafter"),
        (PEM[:60], "[redacted]"),
    ],
)
def test_a_secret_is_taken_out_and_the_rest_stays(text: str, left: str) -> None:
    assert redact(text) == left


@pytest.mark.parametrize(
    "text",
    [
        "",
        "task-aaaaaaaaaaaaaaaaaaaaaaaaaaa1",
        "sk-learn-integration-tests",
        "npm_config_user_agent",
        "bearer authentication is required",
        "input_tokens: 123456, max_tokens=32000",
        "git clone ssh://git@example.test/repo",
        "http://127.0.0.1:8080/api?at=a@b.c",
        "0123456789abcdef0123456789abcdef01234567",
        "5f0c6f0e-8a39-4c0c-9f11-2b0b8b7c9a11",
        "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
        "the key to the password store is a secret token",
    ],
)
def test_innocent_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.req("NFR-SEC-002", "X15")
def test_what_the_environment_calls_a_secret_is_taken_out_wherever_it_occurs() -> None:
    remember_secrets(
        {
            "MY_API_KEY": "canary-one",
            "Db_Password": "canary-one-two",
            "X_SECRET": "it's\na canary",
            "CITOKEN": "canary.*three",
        }
    )
    assert redact("<canary-one>") == "<[redacted]>"
    assert redact("canary-one-two") == "[redacted]", "the longer value is not left half"
    assert redact("canary.*three canaryXXthree") == "[redacted] canaryXXthree"
    assert redact("it's\na canary") == "[redacted]"
    assert redact(
        f"{ValueError('it is ' + repr(chr(10)))!r}: {'it' + chr(39) + 's' + chr(10) + 'a canary'!r}"
    ).endswith('"[redacted]"')


def test_what_would_wreck_every_line_is_not_taken_for_a_secret(tmp_path: Path) -> None:
    remember_secrets(
        {"MAX_OUTPUT_TOKENS": "32000", "KEY_FILE": str(tmp_path), "EMPTY_TOKEN": "", "PATH": "/canary/path"}
    )
    text = f"32000 {tmp_path}/x /canary/path"
    assert redact(text) == text


def test_only_the_present_secrets_are_known() -> None:
    remember_secrets({"A_TOKEN": "first-canary"})
    remember_secrets({"A_TOKEN": "second-canary"})
    assert redact("first-canary second-canary") == "first-canary [redacted]"


@pytest.mark.parametrize(
    "name", ["token", "password", "api_key", "apikey", "github_token", "Authorization", "client_secret"]
)
def test_a_field_that_is_named_like_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize(
    "name", ["input_tokens", "lease_token_count", "key", "tokens", "passwords_checked", "secretary"]
)
def test_a_field_that_only_sounds_like_one(name: str) -> None:
    assert not is_secret_name(name)


@pytest.mark.parametrize(
    "part",
    [
        "A_",
        "://",
        "://a:",
        "-----BEGIN ",
        "-----BEGIN PRIVATE KEY-----",
        "bearer ",
        "eyJaaaaaaaaaaa.",
        "authorization: ",
        "A_KEY ",
    ],
)
def test_no_text_takes_more_than_linear_time(part: str) -> None:
    """A pattern that backtracks quadratically needs minutes for this much; a linear one a fraction of a second."""
    text = part * (400_000 // len(part))
    started = time.process_time()
    redact(text)
    assert time.process_time() - started < 5


@pytest.mark.req("X15")
@pytest.mark.parametrize("between", ["\x1b[31m", "\x1b[0;1m", "\x9b1m", "\x1b]8;;http://x\x07", "\x1bM"])
def test_a_secret_with_escape_sequences_in_it_is_one_too(between: str) -> None:
    remember_secrets({"API_TOKEN": "correct-horse-battery"})
    for secret in ("sk-ant-api03-abcdefghij0123", "correct-horse-battery"):
        cut = f"{secret[:9]}{between}{secret[9:]}"
        text = redact(f"it is {cut}, in colour")
        assert text == "it is [redacted], in colour"
    innocent = f"all {between}green"
    assert redact(innocent) == innocent


@pytest.mark.req("NFR-SEC-002")
def test_a_text_that_was_seen_before_its_secret_was_known_is_looked_through_again() -> None:
    assert redact("open sesame-2026") == "open sesame-2026"
    remember_secrets({"DOOR_PASSWORD": "sesame-2026"})
    assert redact("open sesame-2026") == "open [redacted]"
