"""Change one value of a YAML file that a person wrote: every other character, and so every comment, stays.

The text is edited at the places that the parser reports, then read again: an edit whose result does not read as intended
is refused, so an unusual file is never damaged.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from typing import Any

import yaml

from corral.config import document
from corral.config.document import DocumentError

_LOADER = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
_STEP = 2
"""Spaces of a further level."""


def with_value(data: bytes, path: Sequence[str], value: Any) -> bytes:
    """The file with another value at a path; missing sections are added.

    Args:
        data: The file; empty for a new one.
        path: The keys from the outermost one, such as ``["landing", "target"]``.
        value: JSON-serialisable.

    Raises:
        DocumentError: The file is not accepted, or its way of writing cannot be edited.
    """
    expected = _set(document.read_mapping(data), path, value)
    return _apply(data, expected, lambda text, root: _put(text, root, path, _flow(value)))


def without_value(data: bytes, path: Sequence[str]) -> bytes:
    """The file without a key; a section that becomes empty goes too.

    Raises:
        DocumentError: See :func:`with_value`.
        KeyError: The file has no such key.
    """
    expected = document.read_mapping(data)
    holders = [expected]
    for key in path[:-1]:
        holders.append(holders[-1][key])
        if not isinstance(holders[-1], dict):
            raise KeyError(key)
    del holders[-1][path[-1]]
    depth = len(path)
    while depth > 1 and not holders[depth - 1]:
        depth -= 1
        del holders[depth - 1][path[depth - 1]]
    return _apply(data, expected, lambda text, root: _cut(text, root, path[:depth]))


def _set(values: dict[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    changed = copy.deepcopy(values)
    place = changed
    for key in path[:-1]:
        if place.get(key) is None:
            place[key] = {}
        place = place[key]
        if not isinstance(place, dict):
            raise DocumentError(f"`{key}` must be a section with settings, not {document.shown(place)}")
    place[path[-1]] = value
    return changed


def _apply(data: bytes, expected: dict[str, Any], edit: Any) -> bytes:
    mark = b"\xef\xbb\xbf" if data.startswith(b"\xef\xbb\xbf") else b""
    text = data.decode("utf-8-sig")
    ending = "\r\n" if "\r\n" in text else "\n"
    plain = text.replace("\r\n", "\n")
    changed = edit(plain, yaml.compose(plain, Loader=_LOADER)).replace("\n", ending)
    result = mark + changed.encode("utf-8")
    try:
        is_right = document.read_mapping(result) == expected
    except DocumentError:
        is_right = False
    if not is_right:
        raise DocumentError("is written in a way in which this value cannot be changed")
    return bytes(result)


def _put(text: str, node: Any, path: Sequence[str], value: str) -> str:
    if not isinstance(node, yaml.MappingNode):
        return _append(text, path, value)
    for depth, key in enumerate(path):
        pair = _pair(node, key)
        rest = path[depth + 1 :]
        if pair is None:
            if depth == 0 and not node.flow_style:
                return _append(text, path, value)
            return _insert(text, node, path[depth:], value)
        if not rest:
            return _replace(text, pair, value)
        node = pair[1]
        if not isinstance(node, yaml.MappingNode) or not node.value:  # an empty section
            return _replace(text, pair, _nested_flow(rest, value))
    return text


def _append(text: str, path: Sequence[str], value: str) -> str:
    """A new section at the end of the file."""
    gap = "" if not text.strip() else "\n" if text.endswith("\n") else "\n\n"
    return f"{text}{gap}{_block(path, value, 0)}\n"


def _insert(text: str, node: Any, path: Sequence[str], value: str) -> str:
    """A new key at the end of a section."""
    if not node.value:
        return f"{text[: node.start_mark.index]}{_nested_flow(path, value)}{text[_end(node) :]}"
    if node.flow_style:
        end = _end(node.value[-1][1])
        return f"{text[:end]}, {_flow_pair(path, value)}{text[end:]}"
    newline = text.find("\n", _end(node))
    at = len(text) if newline < 0 else newline
    return f"{text[:at]}\n{_block(path, value, node.start_mark.column)}{text[at:]}"


def _replace(text: str, pair: tuple[Any, Any], value: str) -> str:
    key, old = pair
    start, end = old.start_mark.index, _end(old)
    if start == end or getattr(old, "flow_style", True) or isinstance(old, yaml.ScalarNode):
        if isinstance(old, yaml.ScalarNode) and old.style in ("|", ">"):
            return text[:start] + value + "\n" + text[end:].removeprefix("\n")
        gap = " " if text[start - 1 : start] == ":" else ""
        return text[:start] + gap + value + text[end:]
    colon = text.index(":", key.end_mark.index)
    comment = text[colon + 1 : start].partition("\n")[0].strip()
    return f"{text[: colon + 1]} {value}{f'  {comment}' if comment else ''}{text[end:]}"


def _cut(text: str, root: Any, path: Sequence[str]) -> str:
    """Remove a key with its value."""
    node, holder = root, root
    for key in path:
        holder, pair = node, _pair(node, key)
        assert pair is not None
        node = pair[1]
    pairs = holder.value
    at = next(number for number, (key, _) in enumerate(pairs) if key.value == path[-1])
    if holder.flow_style:
        if at > 0:
            return str(text[: _end(pairs[at - 1][1])] + text[_end(pairs[at][1]) :])
        following = pairs[1][0].start_mark.index if len(pairs) > 1 else _end(pairs[0][1])
        return str(text[: pairs[0][0].start_mark.index] + text[following:])
    start = text.rfind("\n", 0, pairs[at][0].start_mark.index) + 1
    newline = text.find("\n", _end(pairs[at][1]))
    return text[:start] + ("" if newline < 0 else text[newline + 1 :])


def _end(node: Any) -> int:
    """The index behind the last character of a node; the parser's own ends may lie behind later comments."""
    if isinstance(node, yaml.MappingNode) and not node.flow_style and node.value:
        return _end(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and not node.flow_style and node.value:
        return _end(node.value[-1])
    return int(node.end_mark.index)


def _pair(node: Any, key: str) -> tuple[Any, Any] | None:
    return next((pair for pair in node.value if pair[0].value == key), None)


def _block(path: Sequence[str], value: str, column: int) -> str:
    lines = [f"{' ' * (column + _STEP * depth)}{_flow(key)}:" for depth, key in enumerate(path)]
    return "\n".join(lines) + f" {value}"


def _nested_flow(path: Sequence[str], value: str) -> str:
    return f"{{{_flow_pair(path, value)}}}"


def _flow_pair(path: Sequence[str], value: str) -> str:
    first, *rest = path
    return f"{_flow(first)}: {_nested_flow(rest, value) if rest else value}"


def _flow(value: Any) -> str:
    """A value on one line: a plain word where that reads as the same text, else JSON, which YAML contains."""
    if isinstance(value, str):
        is_plain = value.replace("_", "").replace("-", "").replace(".", "").replace("/", "").isalnum()
        if is_plain and value.isascii() and value[0].isalpha() and document.plain_scalar(value) == value:
            return value
        text = json.dumps(value, ensure_ascii=False)
        return "".join(character if character.isprintable() else f"\\U{ord(character):08x}" for character in text)
    if isinstance(value, list):
        return f"[{', '.join(_flow(character) for character in value)}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(str(key))}: {_flow(inner)}" for key, inner in value.items()) + "}"
    return json.dumps(value)
