"""What a lock is taken on."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.coordination import globs
from corral.coordination.keys import (
    LockKey,
    ancestors,
    key_covers,
    keys_overlap,
    literal_key,
    parse_key,
    reach,
    relative_target,
)
from corral.errors import CorralError, InvalidInput, NotPermitted


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/x/../a.py", "src/a.py"),
        ("src/", "src"),
        ("././src/./", "src"),
        ("a b/é.py", "a b/é.py"),
        ("e\u0301", "é"),
        ("src/{{name}}/{slug}.py", "src/{{name}}/{slug}.py"),
        ("app/\\[id\\]/x", "app/[id]/x"),
        (".gitignore", ".gitignore"),
        (".github/x.yml", ".github/x.yml"),
        ("~/x", "~/x"),
        ("-rf", "-rf"),
        ("👩\u200d🚀.md", "👩\u200d🚀.md"),
    ],
)
def test_paths_are_normalised(text: str, path: str) -> None:
    assert parse_key(text) == LockKey(path, path, False)


@given(st.text(alphabet="aZ09_-./\u212a", min_size=1, max_size=12), st.booleans())
def test_an_ordinary_path_is_read_as_any_other(text: str, fold: bool) -> None:
    try:
        whole = parse_key(f"./{text}", fold=fold)
    except InvalidInput:
        with pytest.raises(InvalidInput):
            parse_key(text, fold=fold)
        return
    if not text.startswith("/"):
        assert parse_key(text, fold=fold) == whole


@pytest.mark.parametrize(
    "text", ["src\\a.py", "src\\api\\users.py", "a\\", "src/{api,web}/*.py", "{a,b}.py", "!src/a.py", "./!src/**"]
)
def test_what_other_tools_expand_is_refused_unless_it_is_the_name_of_something(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_key(text)
    with pytest.raises(InvalidInput):
        parse_key(text, exists=lambda _path: False)
    name = text.removeprefix("./")
    assert parse_key(text, exists=lambda path: path == name) == LockKey(name, name, False)


def test_case_is_folded_for_comparing_and_kept_for_showing() -> None:
    assert parse_key("Src/README.md", fold=True) == LockKey("Src/README.md", "src/readme.md", False)
    assert parse_key("Src/[A-B]*", fold=True) == LockKey("Src/[A-B]*", "src/[A-Ba-b]*", True)
    assert parse_key("Src/README.md").match_key == "Src/README.md"


def test_globs_stay_globs_unless_that_is_the_name_of_something() -> None:
    assert parse_key("./src//**/*.py") == LockKey("src/**/*.py", "src/**/*.py", True)
    page = "app/[id]/page.tsx"
    assert parse_key(page).is_pattern
    assert parse_key(f"./{page}", exists=lambda path: path == page) == LockKey(page, page, False)
    assert parse_key("x" * 300 + "*", exists=lambda path: Path(path).exists()).is_pattern


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


@settings(max_examples=300, deadline=None)
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
def test_malformed_logical_keys_are_invalid(text: str) -> None:
    with pytest.raises(InvalidInput):
        parse_key(text)


@pytest.mark.req("LOCKKEY-6")
@pytest.mark.parametrize(
    "text", ["invalid:prefix:key", "http://x/y", "apis:GET /x", "foo:bar.txt", "x:*", "api:", "flag: "]
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


def hostile() -> list[str]:
    """More than two hundred ways out of the repository, into git's folder, or through a terminal."""
    git = [
        ".git",
        ".GIT",
        ".Git",
        "git~1",
        "GIT~1",
        "Git~1",
        ".git.",
        ".git ",
        ".git. .",
        ".git...",
        ".git::$INDEX_ALLOCATION",
    ]
    git += [
        ".git:x",
        ".git\\config",
        ".g\u200cit",
        ".gi\u200dt",
        "\ufeff.git",
        ".git\u202e",
        ".\u206agit",
        "git~1 ",
        "git~1.",
    ]
    within = ["{}", "./{}", "{}/config", "a/{}", "a/{}/hooks/pre-commit", "a/../{}", "{}/../x", "vendor/lib//{}/HEAD"]
    paths = [place.format(name) for name in git for place in within]
    up = ["..", "../x", "a/../..", "a/../../x", "./../x", "a/b/../../../etc/passwd", "..//x", "*/../x", "a*/../../x"]
    up += ["src/[ab]/../x", "**/..", "../" * 50 + "etc", ".../x", "a/.. /x", "... ", ". ./x", " ./x"]
    absolute = ["/", "//", "/etc/passwd", "//host/share", "/.git", "C:/x", "C:\\x", "c:/Windows", "z:\\"]
    empty = ["", " ", "   ", ".", "./", ".//.", "a/..", "./a/../", "\t", "\u3000", "\u00a0"]
    control = [
        f"a{chr(point)}b" for point in [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029, *range(0x202A, 0x202F)]
    ]
    control += [f"a{chr(point)}" for point in range(0x2066, 0x206A)] + [
        "a\n",
        "\na",
        "a\udcff",
        "\ud800",
        "x\x1b]0;t\x07",
    ]
    bombs = [
        "*a" * 17,
        "[" * 3 + "]" * 3 + "*" + "a" * 512,
        "*/" * 33 + "x",
        "a" * 4097,
        "é" * 2049,
        "[z-a]",
        "[[:alpha:]]*",
    ]
    return paths + up + absolute + empty + control + bombs


def test_the_corpus_is_large() -> None:
    assert len(set(hostile())) >= 200


@pytest.mark.parametrize("fold", [False, True])
def test_hostile_paths_are_refused_with_a_reason(fold: bool) -> None:
    for text in hostile():
        try:
            key = parse_key(text, fold=fold, exists=lambda _: False)
        except InvalidInput as refusal:
            assert refusal.cause != InvalidInput.default_cause and refusal.remedy
            assert refusal.message.isprintable(), text
        else:
            pytest.fail(f"{text!r} became {key}")


@settings(max_examples=500, deadline=None)
@given(st.text(max_size=40) | st.text(alphabet="./\\ab*?[]!:~ giIT1\n\u202e\ud800", max_size=20), st.booleans())
def test_any_text_is_a_key_or_a_clear_refusal(text: str, fold: bool) -> None:
    try:
        key = parse_key(text, fold=fold)
    except CorralError as error:
        assert isinstance(error, (InvalidInput, NotPermitted))
        return
    for spelling in (key.file_path, key.match_key):
        assert unicodedata.is_normalized("NFC", spelling)
        assert not spelling.startswith("/") and ".." not in spelling.split("/")
    assert keys_overlap(key, key)
    if not key.is_pattern and "\\" not in text and "[" not in text:
        assert parse_key(key.file_path, fold=fold, exists=lambda _: True) == key


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
    ],
)
def test_overlap(left: str, right: str, overlap: bool) -> None:
    assert keys_overlap(parse_key(left), parse_key(right)) is overlap
    assert keys_overlap(parse_key(right), parse_key(left)) is overlap


_PATHS = st.lists(st.sampled_from(("a", "b", "ab", "*", "a*", "?", "**", "[ab]", "d:x")), min_size=1, max_size=4)


@settings(max_examples=400, deadline=None)
@given(_PATHS, _PATHS)
def test_what_overlaps_lies_within_reach(left: list[str], right: list[str]) -> None:
    one, other = (parse_key("./" + "/".join(parts)) for parts in (left, right))
    if keys_overlap(one, other) and reach(one) and not other.is_pattern:
        below = reach(one)
        assert other.match_key in (below, *ancestors(below)) or other.match_key.startswith(f"{below}/")


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
    ):
        assert key_covers(parse_key(mine), parse_key(other)) is covers, (mine, other)


def test_overlap_where_case_folds() -> None:
    assert keys_overlap(parse_key("SRC", fold=True), literal_key("src/X.py", fold=True))
    assert keys_overlap(parse_key("*.PY", fold=True), literal_key("ß.py", fold=True))
    assert keys_overlap(parse_key("STRASSE", fold=True), literal_key("straße", fold=True))


def test_every_folder_above() -> None:
    assert ancestors("a/b/c.py") == ["a", "a/b"]
    assert ancestors("a") == []


def test_a_real_name_is_a_key_whatever_it_is() -> None:
    assert literal_key("a*[b]?.py", fold=False) == LockKey("a*[b]?.py", "a*[b]?.py", False)
    assert literal_key("caf\udce9", fold=False) == LockKey("caf\\xe9", "caf\\xe9", False)
    odd = literal_key("line\nbreak\u202e", fold=False)
    assert odd == LockKey("line\\nbreak\\u202e", "line\nbreak\u202e", False)
    odd.match_key.encode()


def test_the_target_is_where_the_write_goes(tmp_path: Path) -> None:
    checkout, outside = tmp_path / "repo", tmp_path / "outside"
    (checkout / "src").mkdir(parents=True)
    outside.mkdir()
    (checkout / "src/a.py").write_text("")
    (checkout / "link.py").symlink_to("src/a.py")
    (checkout / "lib").symlink_to("src")
    (checkout / "chain").symlink_to("lib")
    (checkout / "dangling").symlink_to("src/new.py")
    (checkout / "away").symlink_to(outside)
    (outside / "in").symlink_to(checkout / "src")
    (tmp_path / "alias").symlink_to(checkout)
    expected = {
        "src/a.py": "src/a.py",
        "link.py": "src/a.py",
        "lib/a.py": "src/a.py",
        "chain/new/deep/x.py": "src/new/deep/x.py",
        "dangling": "src/new.py",
        "not/yet/there.py": "not/yet/there.py",
        "lib/../src/a.py": "src/a.py",
        "away/x": None,
        "away/in/a.py": "src/a.py",
        "../outside/x": None,
        "../repo2": None,
        ".": None,
        "a\x00b": None,
        "\ud800": None,
    }
    for path, target in expected.items():
        assert relative_target(checkout / path, checkout) == target, path
        assert relative_target(Path(path), checkout) == target, path
        assert relative_target(tmp_path / "alias" / path, tmp_path / "alias") == target, path
    assert relative_target(Path("/etc/passwd"), checkout) is None
    assert relative_target(outside / "in" / "b.py", checkout) == "src/b.py"


def test_a_loop_of_links_is_answered(tmp_path: Path) -> None:
    (tmp_path / "x").symlink_to("y")
    (tmp_path / "y").symlink_to("x")
    assert relative_target(tmp_path / "x" / "a", tmp_path) in ("x/a", "y/a", None)
