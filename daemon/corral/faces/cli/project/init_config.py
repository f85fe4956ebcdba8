"""The settings that ``corral init`` writes: a new file, or other answers in an existing one, where comments stay."""

from __future__ import annotations

from dataclasses import dataclass

from corral.config import account
from corral.config.custom.edit import with_value
from corral.config.document import DocumentError
from corral.config.initial import default_config
from corral.config.load import load
from corral.config.paths import Project
from corral.core.errors import Conflict


@dataclass(frozen=True)
class Answers:
    """The answers of a person who runs ``corral init``.

    Attributes:
        branch: The target.
        target_chosen: Whether the person named it.
        verify: The verification commands; empty if none were named.
    """

    branch: str
    target_chosen: bool
    verify: list[str]


def text_of(project: Project, answers: Answers, *, may_change: bool) -> str | None:
    """The text of ``.corral/config.yaml`` with these answers; None if it has them already.

    Args:
        may_change: Whether a person is asked before an existing file gets other settings.

    Raises:
        Conflict: The file has other settings and may not be changed, or cannot be changed.
    """
    if not project.config_file.exists():
        return default_config(answers.branch, answers.verify)
    others = _changed_settings(project, answers)
    if not others:
        return None
    if not may_change:
        raise Conflict(
            f"{project.config_file} exists already, with other settings.",
            cause="This repository was initialised before, with another target or other verification commands.",
            remedy="Run it in a terminal without --yes, which asks; or `corral config set landing.target BRANCH` and "
            "`corral config set landing.verify '[COMMAND]'`.",
        )
    content = project.config_file.read_bytes()
    try:
        for key, value in others.items():
            content = with_value(content, key.split("."), value)
    except DocumentError as error:
        raise Conflict(
            f"Cannot change {project.config_file}: it {error}.", remedy="Correct it: `corral config edit`."
        ) from error
    return content.decode()


def _changed_settings(project: Project, answers: Answers) -> dict[str, str | list[str]]:
    """The named settings that have another value in the existing files."""
    landing = load(project, environ={}, home=account.home()).settings.landing
    others: dict[str, str | list[str]] = {}
    if answers.target_chosen and landing.target != answers.branch:
        others["landing.target"] = answers.branch
    if answers.verify and list(landing.verify) != answers.verify:
        others["landing.verify"] = answers.verify
    return others
