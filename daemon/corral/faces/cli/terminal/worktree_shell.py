"""A person's shell or editor in a worktree, and what becomes of what they commit there."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from corral.client.connection import Client, segment
from corral.config.paths import Checkout, find_checkout
from corral.core.errors import Conflict, InvalidInput
from corral.core.states import MergeState
from corral.core.visible import one_line

ANSWER_S = 600.0
"""For a worktree to be made, seconds."""
RETURNED = frozenset({MergeState.CONFLICT, MergeState.FAILED})
"""States of a request that came back: what is committed in its worktree can take its place."""


@dataclass(frozen=True)
class Place:
    """A worktree to open.

    Attributes:
        branch: The branch that is checked out there, if that is known.
        request: The merge request whose place its branch can take; None: there is none.
        merging: Whether the merge of the request's target has begun there.
        conflicts: The paths that it left to resolve.
    """

    path: str
    branch: str | None
    request: dict[str, Any] | None = None
    merging: bool = False
    conflicts: tuple[str, ...] = ()

    @property
    def has_repair(self) -> bool:
        """Whether something was committed there that can take the place of a request that came back."""
        checkout = find_checkout(Path(self.path))
        if self.request is None or self.branch is None or self.request["state"] not in RETURNED or checkout is None:
            return False
        return (
            _head(checkout) not in (None, self.request["head_sha"]) and not (checkout.git_dir / "MERGE_HEAD").exists()
        )


def open_request(client: Client, request: dict[str, Any]) -> Place:
    """The worktree of a merge request, with the merge begun where it had a conflict; the daemon makes it.

    Raises:
        CorralError: It cannot be made.
    """
    opened = client.request("POST", f"/merges/{segment(request['merge_id'])}/open", timeout_s=ANSWER_S)
    return Place(opened["path"], opened["branch"], request, opened["merging"], tuple(opened["conflicts"]))


def submit_again(client: Client, place: Place) -> dict[str, Any]:
    """Queue what was committed in a worktree, in the place of the request that came back."""
    assert place.request is not None
    fields = ("target", "title", "task_id")
    body = {"branch": place.branch, **{name: place.request[name] for name in fields}}
    answer: dict[str, Any] = client.request("POST", "/merges", body, timeout_s=120)
    if place.branch != place.request["branch"]:
        needs = client.request("GET", "/status")["needs_you"]
        if any(place.request["merge_id"] in need["ids"].values() for need in needs):
            client.request("POST", f"/merges/{segment(place.request['merge_id'])}/dismiss")
    return answer


def open_shell(place: Place) -> None:
    """Run $SHELL in a worktree, on the terminal, until it ends."""
    _print(place.path + (f"  (branch {place.branch})" if place.branch else ""))
    for line in _advice(place):
        _print(line)
    _print("`exit` brings you back to Corral.")
    run([os.environ.get("SHELL") or "/bin/sh"], place.path)


def open_editor(place: Place) -> None:
    """Run $VISUAL or $EDITOR on a worktree.

    Raises:
        InvalidInput: No editor is set.
    """
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    if not editor:
        raise InvalidInput("No editor is set.", remedy="Set EDITOR, or open a shell there instead.")
    run([*shlex.split(editor), place.path], place.path)


def run(command: list[str], folder: str) -> None:
    """Run a program on the terminal, until it ends.

    Raises:
        Conflict: It cannot be started.
    """
    try:
        subprocess.run(command, cwd=folder, check=False)
    except (OSError, ValueError) as error:
        raise Conflict(f"Cannot start {command[0]!r} in {folder}.", cause=str(error), remedy=f"{error}") from error


def _advice(place: Place) -> list[str]:
    if place.request is None or place.request["state"] not in RETURNED:
        return []
    target = place.request["target"]
    if place.conflicts:
        return [f"The merge of {target} is begun; to resolve: {', '.join(place.conflicts)}. Then: git commit -a"]
    if place.merging:
        return [f"The merge of {target} is begun and has no conflict: look at it, then: git commit"]
    if place.request["state"] == MergeState.CONFLICT:
        return [
            f"Commit what you have changed here; to merge what {target} has by now: git merge {shlex.quote(target)}"
        ]
    return ["Correct it, and commit."]


def _head(checkout: Checkout) -> str | None:
    """The commit that is checked out, read from the checkout's files; None: nothing is."""
    head = (checkout.git_dir / "HEAD").read_text("utf-8").strip()
    if not head.startswith("ref: "):
        return head
    loose, packed = checkout.common_dir / head[5:], checkout.common_dir / "packed-refs"
    if loose.is_file():
        return loose.read_text("utf-8").strip()
    lines = packed.read_text("utf-8").splitlines() if packed.is_file() else []
    return next((line.split(" ")[0] for line in lines if line.endswith(f" {head[5:]}")), None)


def _print(text: str) -> None:
    """Print a line past Python's own streams, which the screen has redirected."""
    sys.stdout.flush()
    encoding = sys.stdout.encoding or "ascii"
    os.write(1, one_line(text).encode(encoding, "backslashreplace") + b"\n")
