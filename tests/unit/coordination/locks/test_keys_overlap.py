"""Which keys overlap, and how far one reaches."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.coordination.locks.keys import PathIndex, ancestors, key_covers, keys_overlap, literal_key, parse_key, reach
from tests.support.examples import examples

pytestmark = pytest.mark.one_python


@pytest.mark.parametrize(
    ("left", "right", "overlap"),
    [
        ("src", "src/a/b.py", True),
        ("src", "src2/a", False),
        ("src/a", "src/a", True),
        ("src/*.py", "src/a.py", True),
        ("src/*", "src/a/b/c.py", True),
        ("src/**/t*", "src/*/test.py", True),
        ("src/*.py", "docs/*.py", False),
        ("**", "anything", True),
        ("api:GET /v1", "api:GET /v1/users", False),
        ("api:GET /v1", "api:get /v1/", True),
        ("**", "api:GET /v1", False),
        ("SRC", "src/x", False),
        ("app/\\[id\\]", "app/\\[id\\]/x", True),
        ("app/\\[id\\]", "app/i", False),
        ("app/\\[id\\]", "app/\\[*", True),
        ("README.md", "**/*.py", False),
        ("src/Makefile", "src/**/*.py", False),
        ("src", "src/**/*.py", True),
        ("src", "**/*.py", False),
        ("src/", "**/*.py", True),
        ("src/", "src", True),
        ("src/", "src/a.py", True),
        ("api/", "src/", False),
    ],
)
def test_overlap(left: str, right: str, overlap: bool) -> None:
    assert keys_overlap(parse_key(left), parse_key(right)) is overlap
    assert keys_overlap(parse_key(right), parse_key(left)) is overlap


_PATHS = st.lists(st.sampled_from(("a", "b", "ab", "*", "a*", "?", "**", "[ab]", "d:x")), min_size=1, max_size=4)


@settings(max_examples=examples(400), deadline=None)
@given(_PATHS, _PATHS)
def test_what_overlaps_lies_within_reach(left: list[str], right: list[str]) -> None:
    one, other = (parse_key("./" + "/".join(parts)) for parts in (left, right))
    if keys_overlap(one, other) and reach(one) and not other.is_pattern:
        below = reach(one)
        assert other.match_key in (below, *ancestors(below)) or other.match_key.startswith(f"{below}/")


# Few and many: where few hold the text of a glob only those are looked at.
_PLAIN = st.lists(st.sampled_from(("a", "b", "ab", "a.b", "d:x", "xx")), min_size=1, max_size=4).map("/".join)
_PLAIN = _PLAIN | _PLAIN.map("{}/".format)
_HELD = st.lists(_PLAIN, max_size=8) | st.lists(_PLAIN, min_size=50, max_size=60, unique=True)
_ASKED = st.lists(st.sampled_from(("a", "ab", "*", "a*", "?b", "*.b", "[ab]b", "d:x", "x*")), min_size=1, max_size=4)


@settings(max_examples=examples(400), deadline=None)
@given(_HELD, _ASKED)
def test_a_glob_finds_in_a_crowd_what_it_overlaps_one_by_one(held: list[str], asked: list[str]) -> None:
    glob = parse_key("./" + "/".join(asked))
    keys = [parse_key("./" + path) for path in dict.fromkeys(held)] + [parse_key("api:GET /a")]
    crowd = PathIndex("\0".join(["", *(key.match_key for key in keys), ""]))
    if glob.is_pattern:
        assert sorted(crowd.met(glob)) == sorted(key.match_key for key in keys if keys_overlap(glob, key))


def test_reach() -> None:
    expected = {"src/a.py": "src/a.py", "src/**": "src", "src/a/*.py": "src/a", "*.py": "", "**": ""}
    expected |= {"./d:x/*": "./d:x", "api:GET /x*": "api:GET /x*", "a\\*/b*": "a*"}
    assert {text: reach(parse_key(text)) for text in expected} == expected


def test_what_covers_what() -> None:
    for mine, other, covers in (
        ("src", "src/a/b.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/a.js", False),
        ("src/a.py", "src", False),
        ("src/**", "src/*.py", False),
        ("src/**", "src/*", True),
        ("**", "api:GET /x", False),
        ("api:GET /x", "api:get x", True),
        ("./d:*", "./d:x", True),
        ("src/", "src/a.py", True),
        ("src/", "src/*.py", True),
        ("src", "src/", False),
        ("s*/", "src/", True),
        ("s*c", "src/", False),
    ):
        assert key_covers(parse_key(mine), parse_key(other)) is covers, (mine, other)


def test_overlap_where_case_folds() -> None:
    assert keys_overlap(parse_key("SRC", fold=True), literal_key("src/X.py", fold=True))
    assert keys_overlap(parse_key("*.PY", fold=True), literal_key("ß.py", fold=True))
    assert keys_overlap(parse_key("STRASSE", fold=True), literal_key("straße", fold=True))


def test_a_path_is_a_folder_where_it_is_written_so_or_is_one_on_disk() -> None:
    on_disk = {"src"}.__contains__
    assert parse_key("src", is_folder=on_disk) == parse_key("src/") == parse_key("./src//", is_folder=on_disk)
    assert parse_key("src/a.py", is_folder=on_disk).match_key == "src/a.py"
    assert parse_key(parse_key("src/").file_path) == parse_key("src/")
    assert parse_key("SRC/", fold=True).match_key == "src/" and parse_key("./db:x/").match_key == "./db:x/"


def test_every_folder_above() -> None:
    assert ancestors("a/b/c.py") == ["a", "a/b"]
    assert ancestors("a") == []
