"""``corral template``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from corral.core.errors import ConfigInvalid, NotFound
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Exit, Group
from corral.faces.cli.terminal.options import argument, here, json_of, project
from corral.faces.cli.terminal.output import echo, emit, fact, facts, paint
from corral.faces.cli.terminal.tables import Column, table

if TYPE_CHECKING:
    from corral.work.templates.api import TemplateError

app = Group("Templates: those of tasks, and the one that this project was prepared from.")


@app.command("list")
def listing(as_json: Annotated[bool, json_of("work.templates.api.ListedTemplate[]")] = False) -> None:
    """List the task templates of this project. Needs no daemon."""
    from corral.work.templates.listing import rows as listed

    rows = listed(project().home / "templates")
    columns: list[Column] = [("NAME", "name", 24), ("DOES", "kind", 8), ("PARAMETERS", _parameters, 40)]
    empty = "No task templates. A template is a file NAME.yaml in .corral/templates (docs/templates.md)."
    table(rows, [*columns, ("FOR", "description", 60)], empty=empty, as_json=as_json)
    for row in rows if not as_json else ():
        if row["problem"]:
            echo(paint(one_line(f"{row['name']}: {row['problem']}"), "yellow"))


def _parameters(row: dict[str, Any]) -> str:
    return ", ".join(row["parameters"])


@app.command()
def show(
    name: Annotated[str, argument("A task template's name.", "NAME", of="template")],
    as_json: Annotated[bool, json_of("work.templates.api.TaskTemplate")] = False,
) -> None:
    """Show a task template: its parameters and what its tasks do. Needs no daemon."""
    from corral.work.templates.listing import shown as full

    shown = full(project().home / "templates", name)
    if as_json:
        emit(shown)
        return
    echo(paint(one_line(shown["name"]), "bold"))
    facts({"description": shown.get("description", ""), "file": shown.pop("file")}, 11)
    for name, parameter in shown["parameters"].items():
        value = "required" if parameter["required"] else f"default {parameter['default']!r}"
        choices = f", one of {', '.join(map(str, parameter['choices']))}" if parameter["choices"] else ""
        fact(name, one_line(f"{parameter['type']}, {value}{choices}. {parameter['description']}"), 11)
    _facts(
        {field: value for field, value in shown.items() if field not in ("name", "description", "parameters", "steps")}
    )
    for step in shown.get("steps", ()):
        echo(f"  {paint(one_line(step.pop('name')), 'bold')}")
        _facts(step, indent=2)


def _facts(shown: dict[str, Any], *, indent: int = 0) -> None:
    for field, value in shown.items():
        text = ", ".join(map(str, value)) if isinstance(value, list) else str(value)
        fact(f"{' ' * indent}{field}", visible(value) if isinstance(value, str) else one_line(text), 11)


@app.command()
def validate(
    path: Annotated[
        Path | None,
        argument(
            "A task template's file, a folder with some, or a whole template's folder (default: .corral/templates).",
            "PATH",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, json_of("work.templates.api.TemplatesChecked")] = False,
) -> None:
    """Check templates; list every error with its file and line. Needs no daemon."""
    place = here() / path if path is not None else project().home / "templates"
    if path is not None and not place.exists():
        raise NotFound(f"There is no file or folder {place}.", remedy="Name a template's file, or a folder.")
    checked, findings = _checked(place)
    for finding in findings:
        finding["file"] = os.path.relpath(finding["file"], here())
    if as_json:
        emit({"valid": not findings, "checked": checked, "errors": findings})
    else:
        for finding in findings:
            where = f"{finding['file']}:{finding['line']}" if finding["line"] else finding["file"]
            reason = f"{finding['field']}: {finding['reason']}" if finding["field"] else finding["reason"]
            echo(f"{paint(one_line(where), 'bold')}: {visible(reason)}")
        good = "1 file is valid." if checked == 1 else f"{checked} files are valid."
        count = "1 error." if len(findings) == 1 else f"{len(findings)} errors."
        echo(paint(count, "red") if findings else paint(good, "green"))
    if findings:
        raise Exit(ConfigInvalid.exit_code)


def _checked(place: Path) -> tuple[int, list[TemplateError]]:
    """How many files were checked, and their errors; a folder with ``.corral`` or ``.claude`` in it is a whole template."""
    from corral.work.templates.validation import findings_below

    if place.is_dir() and any((place / name).is_dir() for name in (".corral", ".claude")):
        from corral.git.remote.archive import of_folder
        from corral.git.remote.parts import is_part
        from corral.work.templates.project.validation import findings

        parts = {path: part for path, part in of_folder(place).items() if is_part(path)}
        return len(parts), [{**error, "file": str(place / error["file"])} for error in findings(parts)]
    files, errors = findings_below(place)
    return len(files), errors


from corral.work.templates.cli import project_commands  # noqa: E402, F401 - it adds its commands to `app`
