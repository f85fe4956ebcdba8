"""YAML is read as plain values, and nothing in it can surprise, expand or run."""

from __future__ import annotations

import pytest
import yaml

from corral.config import document
from corral.config.document import MAX_BYTES, MAX_DEPTH, DocumentError, plain_scalar, read_mapping

BOMB = b"".join(b"l%d: &l%d [*l%d, *l%d]\n" % (n, n, n - 1, n - 1) if n else b"l0: &l0 [x]\n" for n in range(30))


@pytest.fixture(params=["CBaseLoader", "BaseLoader"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers of PyYAML: which one is there depends on how it was built."""
    monkeypatch.setattr(document, "_PARSER", getattr(yaml, request.param))


@pytest.mark.parametrize("text", ["", "\n", "# only a comment\n", "---\n", "\ufeff"])
def test_an_empty_document_is_an_empty_mapping(text: str) -> None:
    assert read_mapping(text.encode()) == {}


def test_nested_values_keep_their_types() -> None:
    text = "a: {b: [1, -2, 1.5, 1e3, true, null, ~]}\nc: \"1\"\nd: 'true'\ne: |\n  two\n  lines\n1: x\n"
    assert read_mapping(text.encode()) == {
        "a": {"b": [1, -2, 1.5, 1000.0, True, None, None]},
        "c": "1",
        "d": "true",
        "e": "two\nlines\n",
        "1": "x",
    }


@pytest.mark.parametrize(
    "word", ["off", "on", "no", "yes", "y", "2026-01-01", "1:30", "010", "0x10", "1_000", ".inf", "=", "<<"]
)
def test_words_that_other_readers_turn_into_something_else_stay_words(word: str) -> None:
    assert plain_scalar(word) == word
    assert read_mapping(f"key: {word}".encode()) == {"key": word}


@pytest.mark.req("X14")
@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (BOMB, "line 1: anchors and aliases"),
        (b"a: *b", "anchors and aliases"),
        (b"&a a: 1", "anchors and aliases"),
        (b"a: !!python/object/apply:os.system [id]", "tags"),
        (b"a: !!binary aGk=", "tags"),
        (b"a: 1\nb: {c: 1,\n    c: 2}", "line 3: `c` is given twice"),
        (b"- a\n- b", "must be a mapping"),
        (b"just a text", "must be a mapping"),
        (b"[a]: 1", "a key must be a word"),
        (b"a: 1\n---\nb: 2\n", "more than one document"),
        (b"a: [1,", "is not YAML"),
        (b"a: b: c", "line 1: is not YAML"),
        (b"a: 1\n\tb: 2", "is not YAML"),
        (b"a: \x00", "is not YAML"),
        (b"a: caf\xe9", "is not UTF-8 (byte 6)"),
        (b"a: " + b"[" * (MAX_DEPTH + 5), "nested deeper than"),
        (b"{a: " * 100_000, "nested deeper than"),
        (b"#" * (MAX_BYTES + 1), "larger than 1 MB"),
    ],
)
def test_what_is_refused_says_why(data: bytes, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        read_mapping(data)
    assert reason in str(caught.value)


def test_the_limits_themselves_are_accepted() -> None:
    deepest = b"a: " + b"[" * (MAX_DEPTH - 1) + b"x" + b"]" * (MAX_DEPTH - 1)
    assert read_mapping(deepest)
    assert read_mapping(b"a: 1\n" + b"#" * (MAX_BYTES - 5)) == {"a": 1}


def test_a_number_of_any_length_costs_nothing() -> None:
    digits = "9" * 500_000
    assert read_mapping(f"a: {digits}".encode()) == {"a": digits}
