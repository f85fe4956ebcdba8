"""Read a YAML document that anybody may have written: plain values only, with limits before and during reading.

It uses PyYAML's events instead of its constructors: a safe loader still expands aliases (six lines become megabytes),
keeps the last of two equal keys, and reads ``off``, ``no`` and ``1:30`` as YAML 1.1 did. Scalars follow the core schema of
YAML 1.2, so ``enforcement: off`` and a branch named ``no`` stay words.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, get_args

import yaml

if TYPE_CHECKING:
    from pydantic import BaseModel

MAX_BYTES = 1_000_000
MAX_DEPTH = 20

_PARSER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_WORDS: dict[str, bool | None] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]{0,17})")
_DECIMAL = re.compile(r"[-+]?((0|[1-9][0-9]{0,29})(\.[0-9]{0,30})?|\.[0-9]{1,30})([eE][-+]?[0-9]{1,3})?")


class DocumentError(ValueError):
    """The text is not an accepted document; the message gives the reason and, if known, the line."""


class Located(NamedTuple):
    """A document's value, and the line (from 1) of each part by its path of keys and positions; ``()`` is the whole."""

    value: Any
    lines: dict[tuple[str | int, ...], int]


def read_mapping(data: bytes) -> dict[str, Any]:
    """Return the mapping of a YAML document; an empty document is an empty mapping.

    Args:
        data: The whole file, UTF-8.

    Raises:
        DocumentError: Bigger than :data:`MAX_BYTES`, deeper than :data:`MAX_DEPTH`, not UTF-8, not YAML, not one
            mapping;
            or it uses an alias, an anchor, a tag, or one key twice.
    """
    value = read(data)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError("must be a mapping: `name: value` lines")
    return value


def read(data: bytes) -> Any:
    """Return the value of a YAML document (None if it is empty); raises as :func:`read_mapping`."""
    return read_located(data).value


def read_located(data: bytes) -> Located:
    """Return the value of a YAML document and the lines of its parts; raises as :func:`read_mapping`."""
    lines: dict[tuple[str | int, ...], int] = {}
    if len(data) > MAX_BYTES:
        raise DocumentError(f"is larger than {MAX_BYTES // 1_000_000} MB")
    try:
        return Located(_document(yaml.parse(data.decode("utf-8-sig"), Loader=_PARSER), lines), lines)
    except UnicodeDecodeError as error:
        raise DocumentError(f"is not UTF-8 (byte {error.start})") from error
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"line {mark.line + 1}: " if mark is not None else ""
        raise DocumentError(f"{where}is not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise DocumentError(f"is not YAML: {' '.join(str(error).split())}") from error


def plain_scalar(text: str) -> str | int | float | bool | None:
    """Parse an unquoted word: null, a truth value, a number, or text (``010`` too: some readers take it as octal)."""
    if text in _WORDS:
        return _WORDS[text]
    if _INTEGER.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text):
        return float(text)
    return text


def shown(value: Any) -> str:
    """A value as an error quotes it."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def message_of(item: Any) -> str:
    """The reason in an item of a pydantic error, without its fixed prefixes."""
    return str(item["msg"]).removeprefix("Value error, ").removeprefix("Input ")


def reason_of(item: Any) -> str:
    """The reason in an item of a pydantic error about one field, with the value if there is one."""
    if item["type"] == "missing":
        return "is required"
    if item["type"] == "string_too_short":
        return "must not be empty"
    return f"{message_of(item)} (it is {shown(item['input'])})"


def unknown_key(item: Any, shape: type[BaseModel], others: Mapping[str, str] | None = None) -> str:
    """The reason in an item of a pydantic error about a key that its shape does not have, with the key that is meant.

    Args:
        shape: That of the whole document.
        others: What is meant by names that are not like it.
    """
    *path, key = item["loc"]
    for part in path:
        field = shape.model_fields.get(part)
        shape = next(_shapes(field.annotation), shape) if field else shape
    others, key = others or {}, str(key)[:100]
    near = difflib.get_close_matches(key, [*shape.model_fields, *others], n=1)
    return "is not a known field" + (f"; did you mean `{others.get(near[0], near[0])}`?" if near else "")


def _shapes(annotation: Any) -> Iterator[type[BaseModel]]:
    if hasattr(annotation, "model_fields"):
        yield annotation
    for inner in get_args(annotation):
        yield from _shapes(inner)


_Path = tuple[str | int, ...]


def _document(events: Iterator[Any], lines: dict[_Path, int]) -> Any:
    next(events)
    if isinstance(next(events), yaml.StreamEndEvent):
        return None
    value = _value(events, next(events), (), lines)
    next(events)
    if not isinstance(next(events), yaml.StreamEndEvent):
        raise DocumentError("holds more than one document")
    return value


def _value(events: Iterator[Any], event: Any, path: _Path, lines: dict[_Path, int]) -> Any:
    _refuse(event, len(path))
    lines.setdefault(path, _line_number(event))
    if isinstance(event, yaml.ScalarEvent):
        return plain_scalar(event.value) if event.implicit[0] else event.value
    if isinstance(event, yaml.SequenceStartEvent):
        items: list[Any] = []
        while not isinstance(inner := next(events), yaml.SequenceEndEvent):
            items.append(_value(events, inner, (*path, len(items)), lines))
        return items
    mapping: dict[str, Any] = {}
    while not isinstance(key := next(events), yaml.MappingEndEvent):
        _refuse(key, len(path))
        if not isinstance(key, yaml.ScalarEvent):
            raise DocumentError(f"{_line(key)}a key must be a word")
        if key.value in mapping:
            raise DocumentError(f"{_line(key)}`{key.value[:80]}` is given twice")
        lines[(*path, key.value)] = _line_number(key)
        mapping[key.value] = _value(events, next(events), (*path, key.value), lines)
    return mapping


def _refuse(event: Any, depth: int) -> None:
    if event.anchor is not None:
        raise DocumentError(
            f"{_line(event)}anchors and aliases (`&name`, `*name`) are not accepted; write the value out"
        )
    if getattr(event, "tag", None) is not None:
        raise DocumentError(f"{_line(event)}tags (`!name`) are not accepted")
    if depth > MAX_DEPTH:
        raise DocumentError(f"{_line(event)}is nested deeper than {MAX_DEPTH} levels")


def _line(event: Any) -> str:
    return f"line {_line_number(event)}: "


def _line_number(event: Any) -> int:
    return int(event.start_mark.line) + 1
