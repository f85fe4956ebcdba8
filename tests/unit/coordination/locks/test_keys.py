"""What a lock is taken on: paths as they are typed, hostile ones, and the target of a write."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from corral.coordination.locks.keys import LockKey, keys_overlap, literal_key, parse_key, relative_target
from corral.core.errors import CorralError, InvalidInput, NotPermitted
from tests.support.examples import examples


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("src/a.py", "src/a.py"),
        ("./src//a.py", "src/a.py"),
        ("src/x/../a.py", "src/a.py"),
        ("src/", "src/"),
        ("././src/./", "src/"),
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


@pytest.mark.req("X5")
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


@settings(max_examples=examples(500), deadline=None)
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


def test_a_real_name_is_a_key_whatever_it_is() -> None:
    assert literal_key("a*[b]?.py", fold=False) == LockKey("a*[b]?.py", "a*[b]?.py", False)
    assert literal_key("caf\udce9", fold=False) == LockKey("caf\\xe9", "caf\\xe9", False)
    odd = literal_key("line\nbreak\u202e", fold=False)
    assert odd == LockKey("line\\nbreak\\u202e", "line\nbreak\u202e", False)
    odd.match_key.encode()


@pytest.mark.req("X5")
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
