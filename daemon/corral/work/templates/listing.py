"""A project's task templates as a reader sees them: a row each, and one in full."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from corral.core.errors import ConfigInvalid, NotFound
from corral.work.templates.api import ListedTemplate
from corral.work.templates.task_template import FILE_NAME, SUFFIX, TaskTemplate, read_template, template_names


def rows(folder: Path) -> list[ListedTemplate]:
    """The task templates.

    Args:
        folder: The project's ``templates/``; one that does not exist has none.
    """
    return [_row(folder / f"{name}{SUFFIX}", name) for name in template_names(folder)]


def shown(folder: Path, name: str) -> dict[str, Any]:
    """One task template: the fields that it gives, every parameter in full, and its file.

    Raises:
        NotFound: There is no such template.
        ConfigInvalid: It has errors.
    """
    if not FILE_NAME.fullmatch(name):
        raise NotFound(f"There is no task template {name!r}.", remedy="`corral template list` shows them.")
    file = folder / f"{name}{SUFFIX}"
    template = _read(file)
    fields = template.model_dump(mode="json", exclude_unset=True)
    fields["parameters"] = {
        parameter: {"required": definition.required, **definition.model_dump(mode="json", exclude={"default"})}
        | ({} if definition.required else {"default": definition.default})
        for parameter, definition in template.parameters.items()
    }
    return {**fields, "file": str(file)}


def _row(file: Path, name: str) -> ListedTemplate:
    row: ListedTemplate = {
        "name": name,
        "file": str(file),
        "description": "",
        "kind": None,
        "parameters": [],
        "problem": None,
    }
    try:
        template = _read(file)
    except ConfigInvalid as error:
        return {**row, "problem": error.cause}
    row["description"], row["parameters"] = template.description, list(template.parameters)
    row["kind"] = "steps" if template.steps is not None else "command" if template.command is not None else "prompt"
    return row


def _read(file: Path) -> TaskTemplate:
    template = read_template(file)
    if template is None:
        raise NotFound(f"There is no file {file}.", remedy="`corral template list` shows the task templates.")
    return template
