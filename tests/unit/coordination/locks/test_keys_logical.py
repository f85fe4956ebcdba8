"""Logical keys: canonical, opaque, and told from files that look like them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.coordination.locks import globs
from corral.coordination.locks.keys import NAMESPACES, LockKey, ancestors, keys_overlap, literal_key, parse_key
from corral.core.errors import CorralError, NotPermitted
from tests.support.examples import examples


@pytest.mark.req("LOCKKEY-5")
@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("api:POST /v1/users", "api:POST /v1/users"),
        ("api: get   v1//users/", "api:GET /v1/users"),
        ("API:Get /", "api:GET /"),
        ("api:GET /V1/{id}?q=*", "api:GET /V1/{id}?q=*"),
        ("db:schema:Users", "db:schema:users"),
        ("DB:Schema: public.Users ", "db:schema:public.users"),
        ("db:migration-slot", "db:migration-slot"),
        ("event:User.Created", "event:user.created"),
        ("flag: Dark/Mode ", "flag:Dark/Mode"),
        ("env:STAGING", "env:STAGING"),
        ("contract:../x", "contract:../x"),
        ("feature:FEAT-123:pause", "feature:FEAT-123:pause"),
        ("flag:e\u0301*", "flag:é*"),
    ],
)
def test_logical_keys_are_canonical_and_opaque(text: str, key: str) -> None:
    for fold in (False, True):
        assert parse_key(text, fold=fold, exists=lambda _: True) == LockKey(key, key, False)
    assert parse_key(key) == LockKey(key, key, False)
    assert ancestors(key) == []


_WORD = st.text(alphabet="abcxyzABCXYZ0189_-", min_size=1, max_size=8)
_SPACE = st.text(alphabet=" ", max_size=3)


@st.composite
def _two_spellings(draw: st.DrawFn) -> tuple[str, str]:
    """A logical key in its canonical spelling, and somehow."""
    namespace = draw(st.sampled_from(("api", "db:schema", "event", "flag")))
    words = draw(st.lists(_WORD, min_size=1, max_size=4))
    gaps = [draw(_SPACE) for _ in range(3)]
    as_typed = draw(st.sampled_from((str.upper, str.lower, str.title)))
    spelled = "".join(as_typed(char) for char in namespace)
    if namespace == "api":
        method = draw(st.sampled_from(("GET", "POST", "delete", "Patch")))
        slashes = [draw(st.sampled_from(("/", "//", "/./"))) for _ in words]
        path = "".join(slash + word for slash, word in zip(slashes, words, strict=True))
        tail = draw(st.sampled_from(("", "/")))
        return f"api:{method.upper()} /{'/'.join(words)}", f"{spelled}:{gaps[0]}{method} {gaps[1]}{path}{tail}{gaps[2]}"
    body = ".".join(words) if namespace != "flag" else " ".join(words)
    canonical = body if namespace == "flag" else body.lower()
    return f"{namespace}:{canonical}", f"{gaps[0]}{spelled}:{gaps[1]}{body}{gaps[2]}"


@pytest.mark.req("LOCKKEY-5")
@settings(deadline=None)
@given(_two_spellings())
def test_two_spellings_of_a_logical_key_are_one_key_and_its_canonical_one_stays_as_it_is(pair: tuple[str, str]) -> None:
    canonical, typed = pair
    key = parse_key(typed)
    assert key == parse_key(canonical) == LockKey(canonical, canonical, False)
    assert keys_overlap(key, parse_key(canonical))


@settings(max_examples=examples(300), deadline=None)
@given(st.text(alphabet="abAB./\\*?[]: ", min_size=1, max_size=16), st.booleans())
def test_what_is_stored_is_canonical_already(text: str, fold: bool) -> None:
    try:
        key = parse_key(text, fold=fold)
    except CorralError:
        return
    again = parse_key(key.file_path if key.is_pattern else globs.escape(key.file_path), fold=fold)
    assert (again.match_key, again.is_pattern) == (key.match_key, key.is_pattern)
    assert keys_overlap(key, again)


def test_the_disk_is_asked_only_where_it_decides() -> None:
    asked: list[str] = []

    def exists(path: str) -> bool:
        asked.append(path)
        return False

    for text in ("src/a.py", "docs/", "./a b/é", "api:GET /v1/[id]", "./db:x"):
        parse_key(text, exists=exists)
    assert asked == []
    for text in ("app/[id].py", "src/*.py"):
        parse_key(text, exists=exists)
    assert asked == ["app/[id].py", "src/*.py"]


@pytest.mark.req("LOCKKEY-6")
@pytest.mark.parametrize(
    "text",
    [
        "api:GET",
        "api:/v1/users",
        "api:G3T /x",
        "api:GET /a /b",
        "api:GET /a/../b",
        "event:a..b",
        "event:a b",
        "event:.a",
        "db:schema:",
        "db:schema:a b",
        "db:schema:a;drop",
        "flag:a\nb",
        "env:\x1b[31m",
        "feature:" + "x" * 513,
    ],
)
def test_malformed_logical_keys_are_not_permitted(text: str) -> None:
    with pytest.raises(NotPermitted) as caught:
        parse_key(text)
    assert caught.value.to_wire()["error"]["name"] == "operation_not_permitted"


@pytest.mark.req("LOCKKEY-6")
@pytest.mark.parametrize(
    "text",
    [
        "invalid:prefix:key",
        "http://x/y",
        "apis:GET /x",
        "foo:bar.txt",
        "x:*",
        "api:",
        "flag: ",
        "INVALID:x",
        "my-ns:key",
    ],
)
def test_other_namespaces_are_not_permitted(text: str) -> None:
    with pytest.raises(NotPermitted) as caught:
        parse_key(text, exists=lambda _: False)
    assert caught.value.to_wire()["error"]["name"] == "operation_not_permitted"


def test_a_file_may_look_like_a_namespace() -> None:
    key = LockKey("./foo:bar.txt", "./foo:bar.txt", False)
    assert parse_key("./foo:bar.txt") == key
    assert parse_key("foo:bar.txt", exists=lambda path: path == "foo:bar.txt") == key
    assert literal_key("foo:bar.txt", fold=False) == key
    assert parse_key("src/foo:bar.txt") == LockKey("src/foo:bar.txt", "src/foo:bar.txt", False)
    assert literal_key("DB:x/y", fold=True) == LockKey("./DB:x/y", "./db:x/y", False)
    assert ancestors("./db:x/y/z") == ["./db:x", "./db:x/y"]
    assert not keys_overlap(parse_key("./db:x"), parse_key("db:x"))
    assert keys_overlap(parse_key("./d?:*"), literal_key("db:x/y", fold=False))
    assert not keys_overlap(parse_key("*"), parse_key("db:x"))


@pytest.mark.parametrize(
    "text",
    ["daemon/corral/coordination/locks/tools.py", "daemon/corral/faces/mcp/help.md", "skills/reserving-files/SKILL.md"],
)
def test_what_a_model_reads_of_logical_keys_names_every_namespace(text: str) -> None:
    words = (Path(__file__).parents[4] / text).read_text(encoding="utf-8")
    assert [name for name in NAMESPACES if f"{name}:" not in words] == []
