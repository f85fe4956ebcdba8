"""Remove secrets from text: known shapes, and the values of secret environment variables.

Shapes cannot catch everything, so the values of variables whose names contain KEY, TOKEN, SECRET or PASSWORD are
removed everywhere after :func:`remember_secrets`. Every shape is matched in linear time.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

REDACTED = "[redacted]"

_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_FIELD = re.compile(r"(^|_)(api_?key|token|secret|password|authorization)$", re.IGNORECASE)
_OFTEN_SEEN = 120
"""Shorter texts (ids, names, paths) come again and again: each is looked through once."""
_SHORTEST = 8
"""Shorter values would match inside ordinary words."""

_VALUE = r"[^\s\"',;]"
_SHAPES = (
    rf"((?i:\bbearer)\s+)(?:(?=[^\s\"',;]*[0-9]){_VALUE}{{6,}}|{_VALUE}{{16,}})",
    rf"((?i:\bauthorization)[\"']?\s*[:=]\s*[\"']?(?i:(?:basic|token)\s+)?)(?!(?i:bearer)\b){_VALUE}{{6,}}",
    rf"(\b[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)[\"']?\s*[:=]\s*[\"']?){_VALUE}{{6,}}",
    r"(://)[^\s/:@]*:[^\s/]*(?=@)",
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----|\Z)",
    r"\bsk-(?:ant-|(?=[\w-]*[0-9]))[\w-]{10,}",
    r"\b(?:gh[pousr]_|hf_|npm_|[rs]k_(?:live|test)_)[A-Za-z0-9]{16,}",
    r"\b(?:github_pat_|glpat-|xox[a-z]-|pypi-AgE)[\w-]{10,}",
    r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    r"\bAIza[\w-]{35}",
    r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]*",
)
"""Shapes of secrets; a group is the part that is kept."""


_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
"""A terminal's escape sequences: CSI, OSC, and the short ones."""


def _pattern(values: Iterable[str]) -> re.Pattern[str]:
    longest_first = sorted(values, key=len, reverse=True)
    return re.compile("|".join([*map(re.escape, longest_first), *_SHAPES]))


_of_environment: frozenset[str] = frozenset()
_added: frozenset[str] = frozenset()
_secrets = _pattern(())
_version = 0


def remember_secrets(environ: Mapping[str, str]) -> None:
    """Remove the values of this environment's secrets from now on; replaces those of an earlier call.

    Short values stay, and so do paths of existing files: a key file's path is no secret, and helps to find faults.
    """
    global _of_environment
    values = [value for name, value in environ.items() if _VARIABLE.search(name) and not _is_path(value)]
    _of_environment = _spellings(values)
    _compile()


def remember_secret(value: str) -> None:
    """Remove this value too from now on, unless it is short: a key that was read from a file or a keychain."""
    global _added
    if not _spellings([value]) <= _added:
        _added |= _spellings([value])
        _compile()


def _spellings(values: Iterable[str]) -> frozenset[str]:
    return frozenset(text for value in values if len(value) >= _SHORTEST for text in (value, repr(value)[1:-1]))


def _compile() -> None:
    global _secrets, _version
    _secrets = _pattern(_of_environment | _added)
    _version += 1  # afterwards: what another thread just looked through without the new secret is not found again


def redact(text: str) -> str:
    """Replace every secret in the text with ``[redacted]``. Pass the whole text, or a split secret is missed.

    Secrets with escape sequences inside are found too (coloured output can split a token); then the text loses its
    escape sequences.
    """
    return _redacted_once(text, _version) if len(text) <= _OFTEN_SEEN else _redacted(text)


@lru_cache(4096)
def _redacted_once(text: str, _version: int) -> str:
    return _redacted(text)


def _redacted(text: str) -> str:
    if "\x1b" in text or "\x9b" in text:
        plain = _ESCAPE.sub("", text)
        if _secrets.search(plain):
            text = plain
    return _secrets.sub(rf"\1\2\3\4{REDACTED}", text) if _secrets.search(text) else text


def without_secrets(value: Any) -> Any:
    """The same JSON value with every secret in its texts replaced."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: without_secrets(inner) for name, inner in value.items()}
    return [without_secrets(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def is_secret_name(name: str) -> bool:
    """Whether a field with this name holds only a secret (``password``, ``api_key``; not ``input_tokens``)."""
    return _FIELD.search(name) is not None


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except (OSError, ValueError):
        return False
