"""A value in a file that a person wrote is changed, and nothing else in it is."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from corral.config.custom.edit import with_value, without_value
from corral.config.document import DocumentError, read_mapping

FILE = """\
# The settings of our team.
landing:
  target: main  # not master
  # What must pass:
  verify:  # in this order
    - "ruff check ."
    - pytest -q  # slow

locks: {ttl_s: 60, enforcement: warn}  # short
# The end of the locks.
tasks:
supervisor:
    max_agents: 3
    # commented: 1

# The last line.
"""


def comments(data: bytes) -> list[str]:
    return [line.partition("#")[2] for line in data.decode().splitlines() if "#" in line]


@pytest.mark.req("FR-CONFIG-001")
@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("landing.target", "dev", "  target: dev  # not master"),
        ("landing.verify", ["make test", "x"], '  verify: ["make test", x]  # in this order  # slow'),
        ("landing.timeout_s", 5.5, "  timeout_s: 5.5"),
        ("locks.ttl_s", 5, "locks: {ttl_s: 5, enforcement: warn}  # short"),
        ("locks.on_daemon_down", "deny", "locks: {ttl_s: 60, enforcement: warn, on_daemon_down: deny}  # short"),
        ("tasks.max_retries", None, "tasks: {max_retries: null}"),
        ("supervisor.max_agents", 7, "    max_agents: 7"),
        ("supervisor.state_dir", "a b", '    state_dir: "a b"'),
        ("runners.claude.model", "no", "    model: no"),
        ("alias.mine", "task list $@", '  mine: "task list $@"'),
    ],
)
def test_one_value_changes_and_all_comments_stay(path: str, value: Any, line: str) -> None:
    made = with_value(FILE.encode(), path.split("."), value)
    assert line in made.decode().splitlines()
    if path == "landing.verify":
        made = made.replace(b"order  # slow", b"order\n# slow")
    assert comments(FILE.encode()) == comments(made)
    before, after = FILE.splitlines(), made.decode().splitlines()
    removed = [line for line in before if line not in after]
    assert len(removed) <= (3 if path == "landing.verify" else 1), removed
    made = made.replace(b"order\n# slow", b"order  # slow")
    again = with_value(made, path.split("."), value)
    assert again == made, "the same value again changes nothing"
    for ending in (made.replace(b"\n", b"\r\n"), b"\xef\xbb\xbf" + made):
        assert read_mapping(with_value(ending, path.split("."), value)) == read_mapping(made)
    assert b"\n" not in with_value(FILE.encode().replace(b"\n", b"\r\n"), path.split("."), value).replace(b"\r\n", b"")


@pytest.mark.parametrize("start", ["", "# only a comment\n", "# no line end", "{}", "a: 1", "landing:\n  target: main"])
def test_a_section_is_added_to_any_file(start: str) -> None:
    made = with_value(start.encode(), ["locks", "ttl_s"], 5)
    assert read_mapping(made)["locks"] == {"ttl_s": 5}
    assert start == "{}" or made.decode().startswith(start)


def test_a_key_is_removed_with_a_section_that_becomes_empty() -> None:
    assert with_value(FILE.encode(), ["locks", "ttl_s"], 60) == FILE.encode()
    gone = without_value(FILE.encode(), ["locks", "ttl_s"])
    assert "locks: {enforcement: warn}  # short\n" in gone.decode() and comments(gone) == comments(FILE.encode())
    assert "locks: {ttl_s: 60}  # short\n" in without_value(FILE.encode(), ["locks", "enforcement"]).decode()
    gone = without_value(FILE.encode(), ["landing", "verify"])
    assert gone.decode().splitlines()[2:6] == [
        "  target: main  # not master",
        "  # What must pass:",
        "",
        FILE.splitlines()[8],
    ]
    gone = without_value(FILE.encode(), ["supervisor", "max_agents"])
    assert "supervisor" not in read_mapping(gone) and "# commented: 1" in gone.decode()
    for missing in (["landing", "nothing"], ["nothing", "at_all"], ["tasks", "max_retries"]):
        with pytest.raises(KeyError):
            without_value(FILE.encode(), missing)


@pytest.mark.parametrize("wrong", ["a: &x 1\nb: *x\n", "- a\n", "landing: 5\n", "landing: [1\n"])
def test_a_file_that_is_not_accepted_is_not_changed(wrong: str) -> None:
    with pytest.raises(DocumentError):
        with_value(wrong.encode(), ["landing", "target"], "main")


def test_a_multi_line_text_is_replaced() -> None:
    made = with_value(b"a:\n  b: |\n    one\n    two\n  c: 1\n", ["a", "b"], "three")
    assert read_mapping(made) == {"a": {"b": "three", "c": 1}}


WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=12)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**9), 10**9) | WORDS,
    lambda inner: st.lists(inner, max_size=3),
    max_leaves=4,
)
KEYS = st.from_regex(r"[a-z_]{1,5}", fullmatch=True)


@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, max_size=3), max_size=3), KEYS, KEYS, VALUES, st.booleans())
def test_whatever_the_file_says_the_rest_reads_as_before(
    content: dict[str, Any], section: str, key: str, value: Any, flow: bool
) -> None:
    data = yaml.safe_dump(content, default_flow_style=flow, allow_unicode=True).encode() if content else b""
    try:
        before = read_mapping(data)
        made = with_value(data, [section, key], value)
    except DocumentError:
        return
    if isinstance(before.get(section), dict) or before.get(section) is None:
        before[section] = {**(before.get(section) or {}), key: value}
    assert read_mapping(made) == before
    gone = read_mapping(without_value(made, [section, key]))
    before[section].pop(key)
    if not before[section]:
        before.pop(section)
    assert gone == before
