"""Glob against glob, checked against trying every path there is over a small alphabet."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.coordination.locks import globs
from corral.coordination.locks.glob_search import finder
from corral.coordination.locks.globs import Pattern, compile_pattern, is_pattern, meets_path, overlaps, plain
from corral.core.errors import InvalidInput
from tests.support.examples import examples
from tests.support.steps import lines_run

pytestmark = pytest.mark.one_python


def compiled(text: str, fold: bool = False) -> Pattern:
    return compile_pattern(text, fold=fold)


# The oracle knows patterns as lists of segments, and segments as lists of these atoms: no parser is shared.
ATOMS: dict[str, Callable[[str], bool] | None] = {
    "a": lambda c: c == "a",
    "b": lambda c: c == "b",
    "?": lambda c: True,
    "[ab]": lambda c: c in "ab",
    "[!a]": lambda c: c != "a",
    "[a-b]": lambda c: c in "ab",
    "*": None,
}


def words(alphabet: str, longest: int) -> list[str]:
    return ["".join(chars) for length in range(1, longest + 1) for chars in itertools.product(alphabet, repeat=length)]


def name_matches(atoms: tuple[str, ...], name: str) -> bool:
    if not atoms:
        return not name
    accept = ATOMS[atoms[0]]
    if accept is None:
        return any(name_matches(atoms[1:], name[at:]) for at in range(len(name) + 1))
    return bool(name) and accept(name[0]) and name_matches(atoms[1:], name[1:])


Parts = tuple[Any, ...]


def path_matches(segments: Parts, path: tuple[str, ...]) -> bool:
    """Whether the pattern is a spelling of just this path."""
    if not segments:
        return not path
    if segments[0] == "**":
        if len(segments) == 1:
            return len(path) >= 1
        return any(path_matches(segments[1:], path[at:]) for at in range(len(path) + 1))
    return bool(path) and name_matches(segments[0], path[0]) and path_matches(segments[1:], path[1:])


def says_folder(segments: Parts, path: tuple[str, ...]) -> bool:
    """Whether a pattern writes this path with a slash behind its last name."""
    beginnings = (segments[:at] for at in range(1, len(segments)))
    return any(part[-1] in (("a",), ("b",)) and path_matches(part, path) for part in beginnings)


def covers(segments: Parts, path: tuple[str, ...], *others: Parts) -> bool:
    """Whether the pattern covers a path in a world that has no folders but those which one of the patterns speaks of."""
    if path_matches(segments, path):
        return True
    above = [path[:at] for at in range(1, len(path)) if path_matches(segments, path[:at])]
    return bool(above) and (segments[-1] in ("**", ("*",)) or any(says_folder(o, p) for o in others for p in above))


def meet(left: Parts, right: Parts) -> bool:
    """Whether both cover one of all the paths there are."""
    return any(covers(left, path, right) and covers(right, path, left) for path in PATHS)


atoms = st.sampled_from(sorted(ATOMS))
names = st.lists(atoms, min_size=1, max_size=3).map(tuple).filter(lambda name: set(name) != {"*"} or len(name) == 1)
letters = st.tuples(atoms)
patterns = st.lists(st.one_of(names, st.just("**")), min_size=1, max_size=3).map(tuple)
folders = st.lists(st.one_of(letters, st.just("**")), min_size=1, max_size=3).map(tuple)

# x stands for every character that no atom names, so these are all the names and paths that need to be tried: the fixed
# parts of two patterns side by side are never longer.
NAMES = words("abx", 6)
PATHS = [tuple(path) for path in words("abx", 5)]
MIXED = [(a, b) for a in words("abx", 3) for b in words("abx", 2)] + [(name,) for name in words("abx", 4)] + PATHS


def spelled(pattern: tuple[Any, ...]) -> str:
    return "/".join("".join(segment) for segment in pattern)


@settings(max_examples=examples(500), deadline=None)
@given(names, names)
def test_names_overlap_exactly_where_a_common_one_exists(left: tuple[str, ...], right: tuple[str, ...]) -> None:
    common = any(name_matches(left, name) and name_matches(right, name) for name in NAMES)
    a, b = compiled("".join(left)), compiled("".join(right))
    assert (overlaps(a, b), overlaps(b, a)) == (common, common)


@settings(max_examples=examples(500), deadline=None)
@given(folders, folders)
def test_patterns_overlap_exactly_where_a_common_path_exists(left: tuple[Any, ...], right: tuple[Any, ...]) -> None:
    common = meet(left, right)
    a, b = compiled(spelled(left)), compiled(spelled(right))
    assert (overlaps(a, b), overlaps(b, a)) == (common, common)


@settings(max_examples=examples(500), deadline=None)
@given(patterns, patterns, st.sampled_from(MIXED))
def test_a_common_path_is_never_missed(left: tuple[Any, ...], right: tuple[Any, ...], path: tuple[str, ...]) -> None:
    if covers(left, path, right) and covers(right, path, left):
        assert overlaps(compiled(spelled(left)), compiled(spelled(right)))


@settings(max_examples=examples(500), deadline=None)
@given(patterns, st.sampled_from(MIXED))
def test_matching_is_membership(pattern: tuple[Any, ...], path: tuple[str, ...]) -> None:
    folders_above = [path[:at] for at in range(1, len(path))]
    assert compiled(spelled(pattern)).matches("/".join(path)) == any(
        path_matches(pattern, folder) for folder in (path, *folders_above)
    )


SOME = ["/".join(path) for path in MIXED[::7]] + ["a", "b", "x/a.b", "[ab]", "*", "\\", "a\nb", "é", "1", "]-^"]


def found(pattern: Pattern, paths: list[str]) -> list[str]:
    text = "\0".join(["", *paths, ""])
    return [match[1] for match in finder(pattern).finditer(text) if meets_path(pattern, match[1])]


@settings(max_examples=examples(400), deadline=None)
@given(st.one_of(patterns.map(spelled), st.text(alphabet="ab1*?[]!^-\\/.x", min_size=1, max_size=12)))
def test_what_is_found_among_many_is_what_each_alone_would_meet(text: str) -> None:
    try:
        pattern = compiled(text)
    except InvalidInput:
        return
    assert found(pattern, SOME) == [path for path in SOME if meets_path(pattern, path)]


SHORT = st.sampled_from([path for path in PATHS if len(path) <= 2 and "x" not in path])


@settings(max_examples=examples(400), deadline=None)
@given(folders, SHORT)
def test_what_a_pattern_meets_of_a_file(pattern: Parts, path: tuple[str, ...]) -> None:
    common = meet(pattern, tuple((name,) for name in path))
    assert meets_path(compiled(spelled(pattern)), "/".join(path)) == common
    assert overlaps(compiled(spelled(pattern)), plain("/".join(path), fold=False)) == common


@settings(max_examples=examples(400), deadline=None)
@given(folders, SHORT)
def test_what_a_pattern_meets_of_a_folder(pattern: Parts, path: tuple[str, ...]) -> None:
    inside = meet(pattern, (*((name,) for name in path), "**"))
    assert meets_path(compiled(spelled(pattern)), "/".join(path) + "/") == inside


OVERLAPPING = [
    ("src/api", "src/api/users.py"),
    ("src/*", "src/a/b.py"),
    ("src/**", "src"),
    ("**", "anything/at/all"),
    ("**/*.py", "src/**/test_*"),
    ("src/**/x", "src/x"),
    ("a*", "*b"),
    ("*.py", "[!.]*"),
    ("[a-f]x", "[e-z]?"),
    ("**/a/**", "b/**"),
    ("packages/*-core", "packages/a-core/**/*.py"),
    ("packages/*-core/", "packages/*/x.py"),
    ("src", "src/**/*.py"),
    ("src/", "**/*.py"),
    ("./src//api/", "src/api"),
    ("src/\\*", "src/[*]"),
    ("é", "e\u0301"),
    ("a/**/**/b", "a/b"),
    ("x**y", "x1y"),
    ("[]]", "]"),
    ("[!]]", "a"),
    ("[a-]", "-"),
    ("[", "["),
    ("a[b", "a\\[b"),
    ("src\\api", "src\\\\api"),
]
APART = [
    ("src/api", "src/api2"),
    ("src/*.py", "src/*.rs"),
    ("*.py", "src/a.py"),
    ("src/*/x/y", "src/a/z"),
    ("a?c", "ac"),
    ("[a-f]", "[g-z]"),
    ("[!a]", "a"),
    ("\\*", "x"),
    ("src/[!a]*", "src/a*"),
    ("docs/**", "src/**"),
    ("x/**", "y/**"),
    ("A", "a"),
    ("a*b", "a*c"),
    ("src/?", "src/ab"),
    ("**/*.py", "README.md"),
    ("src/**/*.py", "src/Makefile"),
    ("**/*.py", "**/*.md"),
    ("src/**/*.py", "src/*/README.md"),
    ("**/a", "**/b"),
    ("*.py", "src"),
    ("packages/*-core", "packages/*/x.py"),
]


@pytest.mark.parametrize(("left", "right"), OVERLAPPING)
def test_these_overlap(left: str, right: str) -> None:
    assert overlaps(compiled(left), compiled(right)) and overlaps(compiled(right), compiled(left))


@pytest.mark.parametrize(("left", "right"), APART)
def test_these_do_not(left: str, right: str) -> None:
    assert not overlaps(compiled(left), compiled(right)) and not overlaps(compiled(right), compiled(left))


@pytest.mark.req("G20")
@pytest.mark.parametrize(
    ("left", "right", "meet"),
    [
        ("SRC/*.PY", "src/a.py", True),
        ("[A-C]x", "bX", True),
        ("[!A]", "a", False),
        ("straße", "STRASSE", True),
        ("É*", "e\u0301A", True),
        ("[Α-Ω]", "σ", True),
    ],
)
def test_case_counts_only_where_it_does_on_disk(left: str, right: str, meet: bool) -> None:
    assert overlaps(compiled(left, fold=True), compiled(right, fold=True)) is meet
    assert compiled(left, fold=True).matches(right) is meet


def test_without_folding_case_counts() -> None:
    assert not overlaps(compiled("SRC/*"), compiled("src/*"))
    assert not compiled("[A-C]").matches("a")


@settings(max_examples=examples(200), deadline=None)
@given(patterns, patterns, st.booleans())
def test_the_canonical_text_means_the_same(left: tuple[Any, ...], right: tuple[Any, ...], fold: bool) -> None:
    a, b = compiled(spelled(left).upper(), fold), compiled(spelled(right), fold)
    again = compiled(a.text)
    assert again.text == a.text
    assert overlaps(again, compiled(b.text)) == overlaps(a, b)


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet="ab*?[]!^-\\/.é\u0301ßA", max_size=14), st.booleans())
def test_any_text_is_a_pattern_or_refused_and_its_canonical_text_is_stable(text: str, fold: bool) -> None:
    try:
        pattern = compile_pattern(text, fold=fold)
    except InvalidInput:
        return
    assert overlaps(pattern, pattern)
    assert compile_pattern(pattern.text, fold=False).text == pattern.text
    assert is_pattern(text) == is_pattern(pattern.text)


@pytest.mark.parametrize("text", ["*", "src/?", "a[bc]", "**/x", "[!a]b", "\\\\*"])
def test_wildcards_are_seen(text: str) -> None:
    assert is_pattern(text)


@pytest.mark.parametrize("text", ["", "src/a.py", "a[b", "\\*", "\\[id\\]", "src\\api", "a]b", "[a/b]", "!x"])
def test_plain_text_is_not_a_pattern(text: str) -> None:
    assert not is_pattern(text)


def test_plain_takes_every_character_literally() -> None:
    page = plain("app/[id]/*.tsx", fold=False)
    assert page.matches("app/[id]/*.tsx") and not page.matches("app/i/x.tsx")
    assert compiled(page.text).matches("app/[id]/*.tsx") and not is_pattern(page.text)


@pytest.mark.req("X13")
@pytest.mark.parametrize(
    "text",
    [
        "a" * 513,
        "*a" * 17,
        "/".join("*" * 17),
        "**/a/" * 17,
        "/".join("a" * 33) + "*",
        "",
        "/",
        "./.",
        "[z-a]",
        "[!\x00-\U0010ffff]",
        "[[:alpha:]]x",
        "ﬃ" * 300,
    ],
)
def test_beyond_the_limits_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        compile_pattern(text, fold=True)
    assert caught.value.cause != InvalidInput.default_cause and caught.value.remedy


def test_at_the_limits_is_accepted() -> None:
    for text in ("a" * 512, "*a" * 16, "**/" + "x/" * 30 + "x"):
        assert overlaps(compiled(text), compiled(text))


HOSTILE = [
    ("*a" * 16 + "b", "a" * 512),
    ("*a" * 16 + "b", "*a" * 16 + "c"),
    ("*?" * 16 + "?" * 400, "?*" * 16 + "?" * 380),
    ("**/a/" * 14 + "b", "**/a/" * 14 + "c"),
    ("*a*a*a*a*b", "a" * 300),
    ("[!b]*" * 16 + "[!a]" * 90, "*[!a]" * 16 + "[!b]" * 90),
    (
        "".join(f"[{chr(1000 + 3 * n)}]" for n in range(170)),
        "*" + "".join(f"[!{chr(1000 + 3 * n)}]" for n in range(120)),
    ),
]


@pytest.mark.req("X13")
@pytest.mark.parametrize(("left", "right"), HOSTILE)
def test_hostile_patterns_take_bounded_steps(left: str, right: str) -> None:
    a, b = compiled(left), compiled(right)
    assert lines_run(globs, lambda: overlaps(a, b)) < 600_000
    assert lines_run(globs, lambda: a.matches("a" * 512)) < 600_000


@pytest.mark.parametrize("text", ["?" * 511, "*?" * 16 + "?" * 400, "[ab]" * 100, "*a" * 16 + "b"])
def test_hostile_patterns_are_looked_for_among_many_in_no_time(text: str) -> None:
    re.purge()
    paths, pattern = ["a" * 250] * 400, compiled(text)
    began = time.thread_time()
    assert found(pattern, paths) == [path for path in paths[:1] if meets_path(pattern, path)] * len(paths)
    assert time.thread_time() - began < 1.0, (
        "it takes some hundredths; were a star tried again and again, it took for ever"
    )


def test_a_long_plain_path_costs_its_length() -> None:
    path = "/".join(["folder"] * 500)
    pattern = compiled("**/f*r/" * 8 + "x")
    assert not pattern.matches(path)
    assert lines_run(globs, lambda: pattern.matches(path)) < 300_000


@pytest.mark.req("X13")
@pytest.mark.parametrize("text", ["*a" * 17, "a/" * 32 + "*", "?" * 513])
def test_a_pattern_with_more_than_can_be_compared_in_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidInput):
        compiled(text)
