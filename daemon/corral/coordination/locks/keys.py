"""Lock keys: a path, a glob, or a logical key such as ``api:GET /v1/users``.

A key has two spellings: ``file_path`` is what people see and may type again, ``match_key`` is what is compared and stored for
look-up. A path whose first segment looks like a namespace (``db:notes``) carries ``./`` in both, so that no path is ever
mistaken for a logical key. A path that is a folder ends in ``/`` in both: it was written so, or is one on disk. Logical keys are
opaque: equal or not, never patterns, never folders.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from corral.coordination.locks import glob_search, globs
from corral.core.errors import InvalidInput, NotPermitted
from corral.store.rows.sessions import StoredKey

NAMESPACES = ("api", "db", "event", "flag", "env", "contract", "feature")
MAX_PATH_BYTES = 4096
MAX_LOGICAL_CHARACTERS = 512
_MAX_SEGMENT_BYTES = 255

_LOGICAL = re.compile(rf"({'|'.join(NAMESPACES)}):(.*)", re.IGNORECASE | re.DOTALL)
_PREFIXED = re.compile(r"[a-z]+:")
_APART = r"(?:\./|(?!\./|[a-z]+:))"
"""How a match key begins that is a path's: see :func:`_apart_from_logical`."""
_ORDINARY = re.compile(r"[a-z0-9_-][a-z0-9_.-]*(?:/[a-z0-9_-][a-z0-9_.-]*)*", re.ASCII | re.IGNORECASE)
_UNCLEAR = frozenset("*?[]\\{!")
_MISTAKEN = (
    (re.compile(r"\\(?![*?\[\]\\])"), "It holds a backslash; folders are separated by `/`."),
    (re.compile(r"\{[^/{}]*,[^/{}]*\}"), "Braces are not expanded here; name each path by itself."),
    (re.compile(r"^!"), "Nothing can be left out of a key; name what you need."),
)
"""Characters that other tools interpret, refused where no file has that name, and why."""
_MEANT_LOGICAL = re.compile(r"(?![A-Za-z]:[/\\])[^\W\d_][\w.+-]*:")
"""How a key begins that is meant for a namespace, known or not."""
_DRIVE = re.compile(r"[A-Za-z]:[/\\]")
# Spellings that some file system takes for `.git`: dots and spaces at the end, streams, the short name, ignored characters.
_DOT_GIT = re.compile(r"(\.git|git~1)[. ]*([:\\].*)?", re.DOTALL)
_IGNORED_BY_HFS = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_REVERSES_TEXT = frozenset(map(chr, [*range(0x202A, 0x202F), *range(0x2066, 0x206A)]))
_IDENTIFIER = re.compile(r"[\w$-]+(\.[\w$-]+)*")
_DOTTED = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")


@dataclass(frozen=True)
class LockKey:
    """The object of a lock.

    Attributes:
        file_path: The shown form: repository-relative with ``/``, or the logical key in its canonical spelling.
        match_key: The normalised spelling, equal for whatever is the same key.
        is_pattern: Whether ``match_key`` is a glob.
    """

    file_path: str
    match_key: str
    is_pattern: bool

    @property
    def is_logical(self) -> bool:
        """Whether it names no file."""
        return _is_logical(self.match_key)


def parse_key(
    text: str,
    *,
    fold: bool = False,
    exists: Callable[[str], bool] | None = None,
    is_folder: Callable[[str], bool] | None = None,
) -> LockKey:
    """Read a key that somebody typed.

    Args:
        text: A repository-relative path or glob, or a logical key.
        fold: Whether the file system folds case.
        exists: Whether a repository-relative path exists: then its special characters are part of its name.
        is_folder: Whether such a path is a folder; None: only what ends in ``/`` is one.

    Raises:
        InvalidInput: Not a usable path or glob; the cause says why.
        NotPermitted: A namespace that is not known, or not a usable logical key.
    """
    if len(text) <= MAX_PATH_BYTES and _ORDINARY.fullmatch(text):  # most paths are: nothing in them needs a check
        return _in_folder(LockKey(text, text.lower() if fold else text, False), text, is_folder)
    if not text.strip():
        raise _refused(text, "It is empty.")
    if len(text) > MAX_PATH_BYTES:  # first, since the next checks read each character
        raise _refused(text, f"It is longer than {MAX_PATH_BYTES} bytes.")
    if any(_is_control(char) for char in text):
        raise _refused(text, "It holds a control character, a line break, or a character that cannot be stored.")
    logical = _LOGICAL.fullmatch(text.strip())
    if logical:
        key = _logical(text, logical[1].lower(), unicodedata.normalize("NFC", logical[2]).strip())
        return LockKey(key, key, False)
    path = _relative(text)
    prefixed = _MEANT_LOGICAL.match(text) is not None
    # Read the disk only where the answer matters: every edit's path comes through here.
    unclear = prefixed or not _UNCLEAR.isdisjoint(path)
    is_name = unclear and exists is not None and _storable(path) and exists(path)
    if prefixed and not is_name:
        raise NotPermitted(
            f"{text[:80]!r} is in no known namespace.",
            cause=f"Logical keys begin with one of {', '.join(f'{name}:' for name in NAMESPACES)}.",
            remedy=f"If it is a file, write it as ./{text[:80]}",
        )
    for spelling, cause in () if is_name else _MISTAKEN:
        if spelling.search(path):
            raise _refused(text, cause)
    slash = "/" if text.endswith(("/", "/.")) else ""
    if is_name or not globs.is_pattern(path):
        name = path if is_name else globs.unescape(path)
        return _in_folder(literal_key(name, fold=fold), name, is_folder if not slash else lambda _: True)
    shown = _apart_from_logical(unicodedata.normalize("NFC", path)) + slash
    return LockKey(shown, _apart_from_logical(globs.compile_pattern(path + slash, fold=fold).text), True)


def _in_folder(key: LockKey, path: str, is_folder: Callable[[str], bool] | None) -> LockKey:
    """The key, or the folder's key where the path is a folder."""
    if is_folder is None or not is_folder(path):
        return key
    return LockKey(f"{key.file_path}/", f"{key.match_key}/", False)


def literal_key(path: str, *, fold: bool) -> LockKey:
    """The key of a file or folder that is known by its real name; no character in it is special.

    Args:
        path: Repository-relative, normalised, as :func:`relative_target` or git gives it.
        fold: Whether the file system folds case.
    """
    text = os.fsencode(path).decode("utf-8", "backslashreplace")
    composed = unicodedata.normalize("NFC", text)
    shown = "".join(char.encode("unicode_escape").decode() if _is_control(char) else char for char in composed)
    return LockKey(_apart_from_logical(shown), _apart_from_logical(globs.normalise(text, fold=fold)), False)


def stored_key(row: StoredKey) -> LockKey:
    """The key of a stored lock, or of one that is waited for."""
    return LockKey(file_path=row["file_path"], match_key=row["match_key"], is_pattern=bool(row["is_pattern"]))


def relative_target(path: Path, checkout: Path) -> str | None:
    """Where a write to ``path`` really goes, relative to the checkout; None if that is outside of it.

    Every symlink is followed, a final one too; what does not exist yet may be missing.

    Args:
        path: Absolute, or relative to the checkout.
        checkout: The top folder of a worktree.
    """
    try:
        target, top = (Path(os.path.realpath(place)) for place in (checkout / path, checkout))
    except ValueError:
        return None  # a NUL byte: no file has such a name
    return target.relative_to(top).as_posix() if target != top and target.is_relative_to(top) else None


def ancestors(match_key: str) -> list[str]:
    """The match keys of every folder above a path, the highest first, without their ``/``; none for a logical key."""
    if _is_logical(match_key):
        return []
    path = _bare(_path_of(match_key))
    return [_apart_from_logical(path[:at]) for at, char in enumerate(path) if char == "/"]


def keys_overlap(a: LockKey, b: LockKey) -> bool:
    """Whether something is covered by both keys. Both must have been made with the same ``fold``."""
    if a.match_key == b.match_key:
        return True
    if _is_logical(a.match_key) or _is_logical(b.match_key):
        return False
    if not (a.is_pattern or b.is_pattern):
        mine, theirs = f"{_bare(a.match_key)}/", f"{_bare(b.match_key)}/"
        return mine.startswith(theirs) or theirs.startswith(mine)
    return globs.overlaps(_pattern(a), _pattern(b))


def key_covers(a: LockKey, b: LockKey) -> bool:
    """Whether ``a`` covers all that ``b`` covers; False for two different globs."""
    if a.match_key == b.match_key:
        return True
    if b.is_pattern or _is_logical(b.match_key):
        return not a.is_pattern and _bare(a.match_key) in ancestors(b.match_key)
    if a.is_pattern:
        is_whole = not b.match_key.endswith("/") or _pattern(a).segments[-1] is None
        return is_whole and _pattern(a).matches(_bare(_path_of(b.match_key)))
    return _bare(a.match_key) in (_bare(b.match_key) if not b.match_key.endswith("/") else "", *ancestors(b.match_key))


def reach(key: LockKey) -> str:
    """The path below which all lies that a key covers: itself, or the folder before a glob's first wildcard; empty: anywhere."""
    return _apart_from_logical(globs.folder(_pattern(key))) if key.is_pattern else _bare(key.match_key)


def spellings(key: LockKey) -> tuple[str, ...]:
    """The match keys of a key, whether its path is a folder or not: what was a folder may have gone meanwhile."""
    if key.is_pattern or key.is_logical:
        return (key.match_key,)
    return _bare(key.match_key), f"{_bare(key.match_key)}/"


def meets_all(key: LockKey) -> bool:
    """Whether a key overlaps every path and glob there can be."""
    return key.is_pattern and _pattern(key).meets_all


def first_character(match_key: str) -> str:
    """Of the path itself, or of the logical key."""
    return _path_of(match_key)[0]


class PathIndex:
    """Many keys, none a glob, as one text in which globs look for those that they overlap.

    Args:
        text: The match keys, each with a NUL before and behind it.
    """

    def __init__(self, text: str) -> None:
        self._keys = frozenset(text.split("\0"))
        self.text = text.replace("/\0", "\0")
        self.count = text.count("\0") - 1
        self._few = self.count // 16 + 8
        self._higher: dict[int, set[int]] = {}

    def met(self, pattern: LockKey) -> Iterator[str]:
        """The keys that overlap a glob, in their order, each once."""
        compiled = _pattern(pattern)
        finder = glob_search.finder(compiled, _APART)
        places = self._places(*glob_search.needed(compiled))
        matches = finder.finditer(self.text) if places is None else (finder.match(self.text, place) for place in places)
        may_meet = glob_search.may_meet(compiled)
        seen = set()
        for bare in (match[1] for match in matches if match):
            for key in (bare, f"{bare}/"):
                if key not in self._keys or key in seen or not (key is not bare or may_meet(_path_of(key))):
                    continue
                if globs.meets_path(compiled, _path_of(key)):
                    seen.add(key)
                    yield key

    def _places(self, depth: int, literal: str) -> list[int] | None:
        """The places of the keys that hold a text or have fewer segments; None where a search of all is cheaper."""
        if not literal:
            return None
        places = set(self._above(depth))
        at = self.text.find(literal)
        while at >= 0 and len(places) <= self._few:
            places.add(self.text.rindex("\0", 0, at))
            at = self.text.find(literal, self.text.index("\0", at))
        return sorted(places) if len(places) <= self._few else None

    def _above(self, depth: int) -> set[int]:
        """The places of the keys that have fewer segments than that."""
        if depth not in self._higher:
            high = re.finditer(f"\0(?=[^\0]){_APART}(?!(?:[^/\0]*/){{{depth - 1}}})", self.text)
            self._higher[depth] = {match.start() for match in high}
        return self._higher[depth]


def _pattern(key: LockKey) -> globs.Pattern:
    make = globs.compile_pattern if key.is_pattern else globs.plain
    return make(_path_of(key.match_key), fold=False)


def _bare(match_key: str) -> str:
    return match_key.removesuffix("/")


def _is_logical(match_key: str) -> bool:
    # Patterns and paths with such a beginning carry `./`, see the module's docstring.
    return ":" in match_key and _PREFIXED.match(match_key) is not None


def _apart_from_logical(path: str) -> str:
    return f"./{path}" if ":" in path and _PREFIXED.match(path.casefold()) else path


def _path_of(match_key: str) -> str:
    return match_key.removeprefix("./")


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or char in _REVERSES_TEXT


def _storable(path: str) -> bool:
    return all(len(part.encode()) <= _MAX_SEGMENT_BYTES for part in path.split("/"))


def _relative(text: str) -> str:
    """Normalise a typed path: no empty, ``.`` or ``..`` segment stays, and it stays inside the repository."""
    if text.startswith("/") or _DRIVE.match(text):
        raise _refused(text, "It is absolute; keys are relative to the top of the repository.")
    if len(text.encode()) > MAX_PATH_BYTES:
        raise _refused(text, f"It is longer than {MAX_PATH_BYTES} bytes.")
    parts: list[str] = []
    for part in text.split("/"):
        if _DOT_GIT.fullmatch(part.translate(_IGNORED_BY_HFS).casefold()):
            raise _refused(text, "It is in git's own folder.")
        if part == "..":
            if not parts:
                raise _refused(text, "It leaves the repository.")
            if globs.is_pattern(parts.pop()):
                raise _refused(text, "Where `..` leads after a wildcard cannot be said.")
        elif part not in ("", "."):
            if not part.strip(". "):
                raise _refused(text, "A name of dots and spaces alone is no name on some file systems.")
            parts.append(part)
    if not parts:
        raise _refused(text, "It names the whole repository; `**` does that on purpose.")
    return "/".join(parts)


def _logical(text: str, namespace: str, body: str) -> str:
    if not body:
        raise NotPermitted(
            f"{text[:80]!r} names nothing in its namespace.",
            cause=f"A logical key is `{namespace}:` and a name.",
            remedy="For example `api:GET /v1/users`, `db:schema:users`, `event:user.created`.",
        )
    if len(body) > MAX_LOGICAL_CHARACTERS:
        raise _refused(text, f"A logical key has at most {MAX_LOGICAL_CHARACTERS} characters.")
    if namespace == "api":
        return f"api:{_route(text, body)}"
    if namespace == "event":
        if not _DOTTED.fullmatch(body.lower()):
            raise _refused(text, "An event is lower-case words joined by dots, such as `event:user.created`.")
        return f"event:{body.lower()}"
    kind, colon, name = body.partition(":")
    if namespace == "db" and kind.strip().lower() == "schema" and colon:
        if not _IDENTIFIER.fullmatch(name.strip().lower()):
            raise _refused(text, "A schema is an identifier, such as `db:schema:users`.")
        return f"db:schema:{name.strip().lower()}"
    return f"{namespace}:{body}"


def _route(text: str, body: str) -> str:
    words = body.split()
    parts = [part for part in words[-1].split("/") if part not in ("", ".")]
    if len(words) != 2 or not (words[0].isascii() and words[0].isalpha()) or ".." in parts:
        raise _refused(text, "A route is a method, a space and a path, such as `api:GET /v1/users`.")
    return f"{words[0].upper()} /{'/'.join(parts)}"


def _refused(text: str, cause: str) -> InvalidInput | NotPermitted:
    """The error for a malformed key: what is meant for a namespace is not permitted, as the document of these keys says."""
    kind = NotPermitted if _MEANT_LOGICAL.match(text.lstrip()) else InvalidInput
    return kind(
        f"{text[:80]!r} cannot be locked.",
        cause=cause,
        remedy="Name a path inside the repository, a glob such as `src/**/*.py`, or a logical key such as `api:GET /v1/users`.",
    )
