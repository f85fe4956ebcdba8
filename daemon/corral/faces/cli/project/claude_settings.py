"""The entries of ``corral init`` in Claude Code's settings of a project, and their removal.

They do what a plugin cannot: ``claude --worktree`` reads the WorktreeCreate hook only from the project's settings; and
with ``locks.on_daemon_down: deny``, only a command hook can refuse an edit while no daemon answers: these are for all who
work on it, in ``settings.json``. A status line, and the hook before an edit that fails closed, are one person's, in
``settings.local.json``: a colleague without Corral is not blocked. Existing entries are never
changed, and removing ours restores the file byte for byte where nobody edited it meanwhile.
"""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from corral.core.errors import InvalidInput

MARK = "corral hook"
"""Every command of ours contains it; only such commands are removed."""

ALLOW = "mcp__plugin_corral_corral"
"""The rule that lets Claude Code use Corral's tools without a prompt."""

EXCLUDED = b"# `corral init` writes this file, which is one person's:\n/.claude/settings.local.json\n"
"""What is added to git's ``info/exclude``."""

STATUS_LINE = {
    "type": "command",
    "command": "if command -v corral >/dev/null 2>&1; then corral statusline; fi",
}
"""The status line that `corral init` offers; where Corral was taken away, there is none by it."""

STRICT = "corral hook PreToolUse --deny-when-down"
"""Part of the hook that refuses edits while no daemon answers."""

_HOOKS: dict[str, dict[str, Any]] = yaml.safe_load(Path(__file__).with_name("claude_hooks.yaml").read_text("utf-8"))
"""By event; the values are written as they are."""
_STRICT_GROUP = {"matcher": "Write|Edit|MultiEdit|NotebookEdit|Bash", "hooks": [_HOOKS["PreToolUse"]]}


_GUARD_GROUP = {"matcher": "Write|Edit|NotebookEdit", "hooks": [_HOOKS["LastLook"]]}


@dataclass(frozen=True)
class Edit:
    """A change of the settings file: its content before (None: no file) and after, and notes for the person."""

    before: bytes | None
    after: bytes
    remarks: tuple[str, ...]

    @property
    def changes(self) -> bool:
        """Whether anything needs to be written."""
        return (self.before or b"") != self.after


def plan(file: Path, *, strict: bool, allow: bool = False) -> Edit:
    """Compute the settings file with our hooks.

    Args:
        strict: Whether an edit is refused while no daemon answers; if not, that hook is removed.
        allow: Whether to add :data:`ALLOW`; an existing rule stays.

    Raises:
        InvalidInput: The file is not a JSON object, or cannot be read; it is left as it is.
    """
    before = _content(file)
    settings = _parse(file, before)
    remarks: list[str] = []
    hooks = _hooks(file, settings)
    changed = _set_group(file, hooks, _STRICT_GROUP, wanted=strict)
    if allow and not allows(settings):
        _rules(file, settings).append(ALLOW)
        changed = True
    for event in ("WorktreeCreate", "WorktreeRemove"):
        groups = _groups(file, hooks, event)
        if groups:
            if not any(MARK in text for text in _commands(groups)):
                remarks.append(f"{file.name} has its own {event} hook; it stays, and `claude --worktree` uses it.")
            continue
        hooks[event] = [{"hooks": [_HOOKS[event]]}]
        changed = True
    if not changed:
        return Edit(before, before if before is not None else b"", tuple(remarks))
    return Edit(before, _format(settings, before), tuple(remarks))


def plan_local(local: Path, shared: Path, *, status_line: bool) -> Edit:
    """Compute the person's own settings file with the hook that guards edits.

    Args:
        status_line: Whether to add :data:`STATUS_LINE`; a status line of either file stays.

    Raises:
        InvalidInput: A file is not a JSON object, or cannot be read; it is left as it is.
    """
    before = _content(local)
    settings = _parse(local, before)
    changed = _set_group(local, _hooks(local, settings), _GUARD_GROUP, wanted=True)
    remarks: list[str] = []
    files = ((local, settings), (shared, _parse(shared, _content(shared)))) if status_line else ()
    own = next(((file, content["statusLine"]) for file, content in files if "statusLine" in content), None)
    if own is not None and own[1] != STATUS_LINE:
        remarks.append(f"{own[0].name} has its own status line; it stays.")
    elif own is None and status_line:
        settings["statusLine"], changed = STATUS_LINE, True
    return Edit(before, _format(settings, before) if changed else before or b"", tuple(remarks))


def guards(local: Path) -> bool:
    """Whether the hook that guards edits is in a settings file as :func:`plan_local` writes it."""
    try:
        groups = read(local).get("hooks", {}).get("PreToolUse", [])
    except (InvalidInput, OSError, AttributeError):
        return False
    return _GUARD_GROUP in groups


def _hooks(file: Path, settings: dict[str, Any]) -> dict[str, Any]:
    hooks = settings.setdefault("hooks", {})
    if not isinstance(hooks, dict):
        raise InvalidInput(
            f"`hooks` in {file} is not an object.", remedy="Correct the file, then run `corral init` again."
        )
    return hooks


def _content(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InvalidInput(f"Cannot read {file}.", cause=str(error)) from error


def allows(settings: dict[str, Any]) -> bool:
    """Whether these settings contain the rule :data:`ALLOW`."""
    permissions = settings.get("permissions")
    rules = permissions.get("allow") if isinstance(permissions, dict) else None
    return isinstance(rules, list) and ALLOW in rules


def has_status_line(*files: Path) -> bool:
    """Whether one of these settings files names a status line, or cannot be read."""
    try:
        return any("statusLine" in read(file) for file in files)
    except (InvalidInput, OSError):
        return True


def read(file: Path) -> dict[str, Any]:
    """Read a settings file; an empty object if there is none.

    Raises:
        InvalidInput: The file is not a JSON object.
    """
    return _parse(file, file.read_bytes() if file.is_file() else None)


def _rules(file: Path, settings: dict[str, Any]) -> list[Any]:
    permissions = settings.setdefault("permissions", {})
    rules = permissions.setdefault("allow", []) if isinstance(permissions, dict) else None
    if not isinstance(rules, list):
        raise InvalidInput(
            f"`permissions.allow` in {file} is not a list.", remedy="Correct the file, then run `corral init` again."
        )
    return rules


def _without_rule(settings: dict[str, Any]) -> bool:
    """Remove the rule from settings that were edited after it was added; returns whether that changed them."""
    if not allows(settings):
        return False
    permissions = settings["permissions"]
    permissions["allow"] = [rule for rule in permissions["allow"] if rule != ALLOW]
    if not permissions["allow"]:
        del permissions["allow"]
    if not permissions:
        del settings["permissions"]
    return True


def changed_hooks(file: Path) -> list[str]:
    """The events whose hook calls Corral by another command than :func:`plan` writes; none in an unreadable file."""
    try:
        hooks = _parse(file, file.read_bytes()).get("hooks", {})
        commands_of = {event: _commands(groups) for event, groups in hooks.items() if isinstance(groups, list)}
    except (OSError, InvalidInput, AttributeError):
        return []
    ours = {event: [text for text in commands if MARK in text] for event, commands in commands_of.items()}
    expected = {event: hook["command"] for event, hook in _HOOKS.items()}
    return sorted(event for event, texts in ours.items() if any(text != expected.get(event) for text in texts))


def _groups(file: Path, hooks: dict[str, Any], event: str) -> list[Any]:
    groups = hooks.get(event, [])
    if not isinstance(groups, list):
        raise InvalidInput(f"`hooks.{event}` in {file} is not a list.", remedy="Correct the file, then try again.")
    return groups


def _set_group(file: Path, hooks: dict[str, Any], group: dict[str, Any], *, wanted: bool) -> bool:
    """Add or remove a PreToolUse hook of ours; returns whether that changed the settings."""
    groups = _groups(file, hooks, "PreToolUse")
    others = _without_ours(groups)
    planned = [*others, group] if wanted else others
    if planned == groups:
        return False
    hooks["PreToolUse"] = planned
    if not planned:
        del hooks["PreToolUse"]
    return True


def record(edit: Edit, original: bytes | None, *, allow: bool = False, status_line: bool = False) -> dict[str, Any]:
    """The data needed to undo an edit (JSON-serialisable).

    Args:
        original: The file without our entries; None: there was no file.
        allow: Whether the rule :data:`ALLOW` in it is ours.
        status_line: Whether its status line is ours.
    """
    return {
        "original": None if original is None else base64.b64encode(original).decode(),
        "written_sha256": hashlib.sha256(edit.after).hexdigest(),
        "allow": allow,
        "status_line": status_line,
    }


def undo(file: Path, recorded: dict[str, Any] | None) -> bytes | None:
    """The content to restore: the original bytes if nobody edited the file since, else the file without our entries.

    Returns:
        The new content, or None if the file must be deleted: no link, whose target others may use.
    """
    nothing = b"{}\n" if is_link(file) else None
    try:
        now = file.read_bytes()
    except FileNotFoundError:
        return None
    if recorded and hashlib.sha256(now).hexdigest() == recorded["written_sha256"]:
        original = recorded["original"]
        return nothing if original is None else base64.b64decode(original)
    settings = _parse(file, now)
    has_ours = bool(recorded and recorded.get("allow")) and _without_rule(settings)
    if recorded and recorded.get("status_line") and settings.get("statusLine") == STATUS_LINE:
        del settings["statusLine"]
        has_ours = True
    hooks = settings.get("hooks", {})
    if not isinstance(hooks, dict):
        return now
    for event in list(hooks):
        groups = hooks[event]
        if not isinstance(groups, list) or not any(MARK in text for text in _commands(groups)):
            continue
        has_ours = True
        hooks[event] = _without_ours(groups)
        if not hooks[event]:
            del hooks[event]
    if not has_ours:
        return now
    if not hooks:
        settings.pop("hooks", None)
    return _format(settings, now) if settings or (recorded and recorded["original"] is not None) else nothing


def is_link(file: Path) -> bool:
    """Whether a settings file, or the folder it is in, is a symbolic link: other repositories may use the same file."""
    return file.is_symlink() or file.parent.is_symlink()


def _commands(groups: list[Any]) -> list[str]:
    return [
        str(hook.get("command", ""))
        for group in groups
        if isinstance(group, dict)
        for hook in group.get("hooks", [])
        if isinstance(hook, dict)
    ]


def _without_ours(groups: list[Any]) -> list[Any]:
    """The groups without our hooks: one that somebody has added a hook to keeps that one."""
    remaining = []
    for group in groups:
        if any(MARK in text for text in _commands([group])):
            theirs = [
                hook for hook in group["hooks"] if not any(MARK in text for text in _commands([{"hooks": [hook]}]))
            ]
            if not theirs:
                continue
            group = {**group, "hooks": theirs}
        remaining.append(group)
    return remaining


def _parse(file: Path, content: bytes | None) -> dict[str, Any]:
    if content is None or not content.strip():
        return {}
    try:
        settings = json.loads(content)
    except ValueError as error:
        raise InvalidInput(
            f"{file} is not JSON.", cause=str(error), remedy="Correct the file, then try again."
        ) from error
    if not isinstance(settings, dict):
        raise InvalidInput(f"{file} is not a JSON object.", remedy="Correct the file, then try again.")
    return settings


def _format(settings: dict[str, Any], before: bytes | None) -> bytes:
    """JSON in the file's own indentation."""
    indent: int | str = 2
    for line in (before or b"").decode("utf-8", "replace").splitlines():
        stripped = line.lstrip(" \t")
        if stripped and stripped != line:
            lead = line[: len(line) - len(stripped)]
            indent = "\t" if lead[0] == "\t" else len(lead)
            break
    return (json.dumps(settings, indent=indent, ensure_ascii=False) + "\n").encode()
