"""Spans of time as people write and read them."""

from __future__ import annotations

import pytest

from corral.core.instants import LONGEST_SPAN_S, in_words, short_span, span_s, when_landed


@pytest.mark.parametrize(
    ("text", "seconds"), [("1s", 1), ("90s", 90), ("15m", 900), (" 1.5H ", 5400), ("7d", 604_800), ("2w", 1_209_600)]
)
def test_a_span_is_read_as_people_write_it(text: str, seconds: float) -> None:
    assert span_s(text) == seconds


def test_ten_years_are_the_longest_span() -> None:
    assert span_s("3650d") == LONGEST_SPAN_S


@pytest.mark.parametrize("text", ["", "7", "d", "0s", "-1h", "7 d", "3651d", "7days"])
def test_what_is_no_span_is_refused_by_its_text(text: str) -> None:
    with pytest.raises(ValueError, match=f"'{text}' is no span of time"):
        span_s(text)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-3, "0 s"),
        (59, "59 s"),
        (60, "1 min"),
        (3599, "60 min"),
        (3600, "1 h"),
        (86_399, "24 h"),
        (86_400, "1 d"),
        (200_000, "2 d"),
    ],
)
def test_a_duration_is_said_in_its_largest_unit(seconds: float, words: str) -> None:
    assert in_words(seconds) == words


@pytest.mark.parametrize(
    ("expected_s", "words"), [(None, ""), (0.0, "takes longer than usual"), (120.0, "lands in about 2 min")]
)
def test_it_is_said_when_a_request_lands(expected_s: float | None, words: str) -> None:
    assert when_landed(expected_s) == words


@pytest.mark.parametrize(
    ("seconds", "text"), [(-1, "0s"), (59.9, "59s"), (60, "1m"), (7199, "1h"), (8 * 86_400 + 5, "8d"), (1e8, "1157d")]
)
def test_a_duration_is_written_in_its_largest_unit_for_a_column(seconds: float, text: str) -> None:
    assert short_span(seconds) == text
