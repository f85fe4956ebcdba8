"""Answers without what differs from run to run: ids, hashes, instants, measurements, folders."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

VARIES = "<varies>"
_PATTERNS = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|\+00:00)?"), "<time>"),
    (re.compile(r"\b\d{8}T\d{12}Z\b"), "<time>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d(T\d\d)?\b(?!:)"), "<day>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}\b"), "<id>"),
    (re.compile(r"\b\d{8}\b"), "<hash>"),
    (re.compile(r"\b[\d,]+ MB of disk"), "<number> MB of disk"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
)
_MEASURED = re.compile(
    r"(_s|_ms|_mb|bytes|_percent|pid|port|port_base|event_id|size|relevance|next_offset|cpu|uptime|duration|mean|p50|p95|max|cursor|"
    r"(^|first_|last_)seq|^lines)$"
)


def plain(value: Any, folders: dict[str, str], name: str = "") -> Any:
    """A copy of a JSON value in which what differs from run to run has one word for all.

    Args:
        folders: What to write instead of each folder's path; longer paths first.
        name: Of the field that holds the value.
    """
    if isinstance(value, dict):
        if name == "not_used":  # how often is a matter of time
            value = {**value, "count": "<number>"}
        return {plain(key, folders): plain(inner, folders, key) for key, inner in value.items()}
    if isinstance(value, list):
        if value and isinstance(value[0], dict) and "previous_hash" in value[0]:
            return _lines(value)
        return [plain(inner, folders, name) for inner in value]
    is_json = name == "text" or (name == "stdout" and '"previous_hash"' in str(value))
    if isinstance(value, str) and is_json and value[:1] in ("{", "["):  # what a tool says is JSON in a text
        with contextlib.suppress(ValueError):
            return plain(json.loads(value), folders)
    if isinstance(value, str):
        if name == "host" or name.endswith(("PORT", "PORT_BASE", "PORTS")):
            return f"<{name.lower()}>"
        for folder, word in folders.items():
            value = value.replace(folder, word)
        for pattern, word in _PATTERNS:
            value = pattern.sub(word, value)
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool) and _MEASURED.search(name):
        return "<number>"
    return value


def _lines(audit: list[Any]) -> list[Any]:
    """The kinds of lines of an audit, each once: those of requests and of events come by two ways, in one order or the other."""
    kinds = (
        {
            "action": line["action"],
            "fields": sorted(line),
            "parameters": sorted(line["parameters"]),
            "result": sorted(line["result"]),
        }
        for line in audit
    )
    return [json.loads(text) for text in sorted({json.dumps(kind) for kind in kinds})]


def common(one: Any, other: Any) -> Any:
    """What two recordings of the same answer share: where they differ by themselves stands :data:`VARIES`."""
    if one == other:
        return one
    if isinstance(one, dict) and isinstance(other, dict):
        return {key: common(one.get(key, VARIES), other.get(key, VARIES)) for key in sorted({*one, *other})}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [common(*pair) for pair in zip(one, other, strict=True)]
    return VARIES


def differences(kept: Any, now: Any, where: str = "") -> list[str]:
    """Where an answer is otherwise than the recorded one, a line each."""
    if kept in (VARIES, now):
        return []
    if isinstance(kept, dict) and isinstance(now, dict):
        missing = object()
        lines: list[str] = []
        for key in sorted({*kept, *now}):
            before, after = kept.get(key, missing), now.get(key, missing)
            if before is missing:
                lines.append(f"{where}.{key}: new: {after!r}"[:300])
            elif after is missing:
                lines += [] if before == VARIES else [f"{where}.{key}: gone: {before!r}"[:300]]
            else:
                lines += differences(before, after, f"{where}.{key}")
        return lines
    if isinstance(kept, list) and isinstance(now, list) and len(kept) == len(now):
        return [
            line
            for number, pair in enumerate(zip(kept, now, strict=True))
            for line in differences(*pair, f"{where}[{number}]")
        ]
    return [f"{where}: {kept!r} is now {now!r}"[:600]]
