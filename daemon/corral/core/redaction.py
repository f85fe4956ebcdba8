"""Remove secrets from text: known shapes, and the values of secret environment variables.

Shapes cannot catch everything, so the values of variables whose names contain KEY, TOKEN, SECRET or PASSWORD are
removed everywhere after :func:`remember_secrets`. Every shape is matched in linear time.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from pydantic_core import to_json

REDACTED = "[redacted]"

_VARIABLE = re.compile(r"KEY|TOKEN|SECRET|PASSWORD", re.IGNORECASE)
_FIELD = re.compile(r"(^|_)(api_?key|token|secret|password|authorization)$", re.IGNORECASE)
_FIELD_ENDS = re.compile(r"(?:api_?key|token|secret|password|authorization)\"", re.IGNORECASE)
_OFTEN_SEEN = 120
"""Shorter texts (ids, names, paths) repeat: the result for each is cached."""
_SHORTEST = 8
"""Shorter values would match inside ordinary words."""

_VALUE = r"[^\s\"',;]"


def _word(begin: str) -> str:
    """A pattern of fixed width where a word begins, or one in a JSON string: after an escaped line's end or colour.

    The text before the word is checked last: a pattern that begins with a literal is searched for ten times as fast.
    """
    return rf"{begin}(?:(?<!\w{begin})|(?<=\\[nrtbf]{begin})|(?<=[\d;\[]m{begin}))"


_NAME = rf"{_word('[A-Z]')}[A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD)"
_SCHEME = r"(?:(?:basic|token)\s+)?"
_SHAPES = {
    rf"({_word('(?i:bearer)')}\s+)(?:(?=[^\s\"',;]*[0-9]){_VALUE}{{6,}}|{_VALUE}{{16,}})": "bearer",
    rf"({_word('(?i:authorization)')}[\"']?\s*[:=]\s*[\"']?(?i:{_SCHEME}))(?!(?i:bearer)\b){_VALUE}{{6,}}": "authorization",
    rf"({_NAME}[\"']?\s*[:=]\s*[\"']?){_VALUE}{{6,}}": "KEY TOKEN SECRET PASSWORD",
    r"(://)[^\s/:@]*:[^\s/]*(?=@)": "://",
    r"-----BEGIN [A-Z0-9 ]{0,30}PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z0-9 ]{0,30}PRIVATE KEY-----|\Z)": "-----BEGIN",
    rf"{_word('sk-')}(?:ant-|(?=[\w-]*[0-9]))[\w-]{{10,}}": "sk-",
    rf"{_word('gh[pousr]_')}[A-Za-z0-9]{{16,}}": "ghp_ gho_ ghu_ ghs_ ghr_",
    rf"{_word('hf_')}[A-Za-z0-9]{{16,}}": "hf_",
    rf"{_word('npm_')}[A-Za-z0-9]{{16,}}": "npm_",
    rf"{_word('[rs]k_(?:live|test)_')}[A-Za-z0-9]{{16,}}": "k_live_ k_test_",
    rf"{_word('github_pat_')}[\w-]{{10,}}": "github_pat_",
    rf"{_word('glpat-')}[\w-]{{10,}}": "glpat-",
    rf"{_word('xox[a-z]-')}[\w-]{{10,}}": "xox",
    rf"{_word('pypi-AgE')}[\w-]{{10,}}": "pypi-AgE",
    rf"{_word('A[KS]IA')}[A-Z0-9]{{16}}\b": "AKIA ASIA",
    rf"{_word('AIza')}[\w-]{{35}}": "AIza",
    rf"{_word('eyJ')}[\w-]{{10,}}\.[\w-]{{10,}}\.[\w-]*": "eyJ",
    re.escape(REDACTED) + r"\*+": f"{REDACTED}*",
}
"""Shapes of secrets, each with literals of which such a secret contains one; a group is the part that is not replaced."""
_IN_ANY_CASE = ("bearer", "authorization")
_PATTERNS = [(re.compile(shape), tuple(parts.split())) for shape, parts in _SHAPES.items()]
_PARTS = tuple(part for _, parts in _PATTERNS for part in parts if part not in _IN_ANY_CASE)


_ESCAPE = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]")
"""A terminal's escape sequences: CSI, OSC, and the short ones."""


_of_environment: frozenset[str] = frozenset()
_added: frozenset[str] = frozenset()
_values: tuple[str, ...] = ()
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
    global _values, _version
    _values = tuple(sorted(_of_environment | _added, key=len, reverse=True))
    _version += 1  # afterwards: results that another thread cached without the new secret are not used again


def redact(text: str) -> str:
    """Replace every secret in the text with ``[redacted]``. Pass the whole text, or a split secret is missed.

    Secrets with escape sequences inside are found too (coloured output can split a token); then the text loses its
    escape sequences.
    """
    return _redact_cached(text, _version) if len(text) <= _OFTEN_SEEN else _redact_uncached(text)


def may_hold_secret(text: str) -> bool:
    """Whether a text contains a part of a secret's shape; False is certain, and ten times as fast as matching."""
    for part in _PARTS:  # a loop: any() and a generator take half as long again
        if part in text:
            return True
    lower = text.lower()
    if "bearer" in lower or "authorization" in lower or "\x1b" in text or "\x9b" in text:
        return True
    return any(value in text for value in _values)


@lru_cache(4096)
def _redact_cached(text: str, _version: int) -> str:
    return _redact_uncached(text)


def _redact_uncached(text: str) -> str:
    if not may_hold_secret(text):
        return text
    if "\x1b" in text or "\x9b" in text:
        plain = _ESCAPE.sub("", text)
        if _spans(plain):
            text = plain
    pieces, done = [], 0
    for first, last in _spans(text):
        pieces += [text[done:first], REDACTED]
        done = last
    return "".join([*pieces, text[done:]]) if done else text


def _spans(text: str) -> list[tuple[int, int]]:
    """The begin and end of each secret, in order and without overlap; only shapes with a literal in the text are searched."""
    lower = text.lower()
    spans = [
        _span(match)
        for pattern, parts in _PATTERNS
        if any(part in (lower if part in _IN_ANY_CASE else text) for part in parts)
        for match in pattern.finditer(text)
    ]
    for value in _values:
        if value in text:
            spans += [match.span() for match in re.finditer(re.escape(value), text)]
    return _merge_spans(spans)


def _merge_spans(overlapping: list[tuple[int, int]]) -> list[tuple[int, int]]:
    spans: list[tuple[int, int]] = []
    for first, last in sorted(overlapping):
        if spans and first < spans[-1][1]:
            first, last = spans[-1][0], max(last, spans.pop()[1])
        spans.append((first, last))
    return spans


def secret_spans(text: str) -> list[tuple[int, int]]:
    """The begin and end of each secret in a text, in order; an escape sequence inside one is a part of it."""
    if not may_hold_secret(text):
        return []
    spans = _spans(text)
    if "\x1b" in text or "\x9b" in text:
        spans += _spans_without_escapes(text)
    return _merge_spans(spans)


def _span(match: re.Match[str]) -> tuple[int, int]:
    return match.end(match.lastindex) if match.lastindex else match.start(), match.end()


def _spans_without_escapes(text: str) -> Iterator[tuple[int, int]]:
    # The begin of each piece between two escape sequences, in the text and in the text without them.
    in_text, in_plain, pieces = [0], [0], []
    for escape in _ESCAPE.finditer(text):
        pieces.append(text[in_text[-1] : escape.start()])
        in_plain.append(in_plain[-1] + len(pieces[-1]))
        in_text.append(escape.end())
    pieces.append(text[in_text[-1] :])
    for first, last in _spans("".join(pieces)):
        begins, ends = bisect_right(in_plain, first) - 1, bisect_right(in_plain, last - 1) - 1
        yield first - in_plain[begins] + in_text[begins], last - in_plain[ends] + in_text[ends]


def without_secrets(value: Any) -> Any:
    """A copy of a JSON value with every secret in its texts replaced."""
    try:
        text = to_json(value).decode()  # a fifth of the time of json.dumps
    except ValueError:  # half a surrogate pair, or too deep
        return redact_values(value)
    # A backslash: some character is written as another, so that a secret with it would not be recognised.
    return redact_values(value) if "\\" in text or may_hold_secret(text) else value


def redact_values(value: Any) -> Any:
    """A JSON value without secrets in its texts."""
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {name: redact_values(inner) for name, inner in value.items()}
    return [redact_values(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def may_name_secret(text: str) -> bool:
    """Whether a JSON text may have a field that :func:`is_secret_name`; False is certain if it has no backslash."""
    return _FIELD_ENDS.search(text) is not None


def is_secret_name(name: str) -> bool:
    """Whether a field with this name holds only a secret (``password``, ``api_key``; not ``input_tokens``)."""
    return _FIELD.search(name) is not None


def _is_path(value: str) -> bool:
    try:
        return value.startswith("/") and Path(value).exists()
    except (OSError, ValueError):
        return False
