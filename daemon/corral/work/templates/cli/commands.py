"""``corral template``."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from corral.core.errors import ConfigInvalid, InvalidInput, NotFound, NotTrusted
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Exit, Group, Option
from corral.faces.cli.terminal.options import argument, here, option, project
from corral.faces.cli.terminal.output import echo, emit, fact, facts, for_programs, paint, printed
from corral.faces.cli.terminal.tables import Column, table

if TYPE_CHECKING:
    from corral.git.remote.parts import Part
    from corral.work.templates.api import TemplateError


app = Group("Templates: those of tasks, and the one that this project was prepared from.")


@app.command("list", prints="work.templates.api.ListedTemplate[]")
def listing() -> None:
    """List the task templates of this project. Needs no daemon."""
    from corral.work.templates.listing import rows as listed

    rows = listed(project().home / "templates")
    columns: list[Column] = [("NAME", "name", 24), ("DOES", "kind", 8), ("PARAMETERS", _parameters, 40)]
    empty = "No task templates. A template is a file NAME.yaml in .corral/templates (docs/templates.md)."
    table(rows, [*columns, ("FOR", "description", 60)], empty=empty)
    for row in rows if not for_programs() else ():
        if row["problem"]:
            echo(paint(one_line(f"{row['name']}: {row['problem']}"), "yellow"))


def _parameters(row: dict[str, Any]) -> str:
    return ", ".join(row["parameters"])


@app.command(prints="work.templates.api.TaskTemplate")
def show(name: Annotated[str, argument("A task template's name.", "NAME", of="template")]) -> None:
    """Show a task template: its parameters and what its tasks do. Needs no daemon."""
    from corral.work.templates.listing import shown as full

    shown = full(project().home / "templates", name)
    if printed(shown):
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


@app.command(prints="work.templates.api.TemplatesChecked")
def validate(
    path: Annotated[
        Path | None,
        argument(
            "A task template's file, a folder with some, or a whole template's folder (default: .corral/templates).",
            "PATH",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check templates; list every error with its file and line. Needs no daemon."""
    place = here() / path if path is not None else project().home / "templates"
    if path is not None and not place.exists():
        raise NotFound(f"There is no file or folder {place}.", remedy="Name a template's file, or a folder.")
    checked, findings = _checked(place)
    for finding in findings:
        finding["file"] = os.path.relpath(finding["file"], here())
    if not printed({"valid": not findings, "checked": checked, "errors": findings}):
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


# -- ``corral template diff|update|verify|cache``: the template that a project was prepared from


@app.command(prints="work.templates.api.TemplateDiff")
def diff() -> None:
    """Show what this project changed of its template's files. Needs no daemon."""
    from corral.work.templates.cli import installing
    from corral.work.templates.project import journal
    from corral.work.templates.project.lock import require_lock

    home = project()
    journal.recover(home)
    lock = require_lock(home)
    base = installing.base_of(home, lock)
    rows = [_row(home.root / path, path, part) for path, part in base.items()]
    changed = [row for row in rows if row["state"] != "unchanged"]
    if printed({"source": lock.source, "version": lock.version, "commit": lock.commit, "files": rows}):
        return
    for row in changed:
        echo(f"{paint(row['state'], 'yellow')}  {paint(one_line(row['path']), 'bold')}")
        for line in row["diff"].splitlines():
            echo(f"    {visible(line)}")
    count = (
        f"{len(rows) - len(changed)} of {len(rows)} files are as in {one_line(lock.source)} {one_line(lock.version)}."
    )
    echo(count)


def _row(file: Any, path: str, part: Part) -> dict[str, Any]:
    """How one file differs from the template's; of a shared JSON file only the template's own entries count."""
    from corral.git.remote.parts import MERGED_BY_KEY
    from corral.work.templates.project.merging import merge_json

    try:
        mine = file.read_bytes()
    except OSError:
        return {"path": path, "state": "missing", "diff": ""}
    if mine == part.data:
        return {"path": path, "state": "unchanged", "diff": ""}
    if path in MERGED_BY_KEY:
        try:
            if merge_json(None, mine, part.data).data == mine and not merge_json(None, mine, part.data).conflicts:
                return {"path": path, "state": "unchanged", "diff": ""}
        except ValueError:
            pass  # not JSON any more: shown as changed
    before, after = (data.decode("utf-8", "replace").splitlines() for data in (part.data, mine))
    lines = difflib.unified_diff(before, after, "template", "yours", lineterm="")
    return {"path": path, "state": "changed", "diff": "\n".join(lines)}


@app.command(prints="work.templates.api.TemplateUpdate")
def update(
    version: Annotated[
        str | None, option("--version", "Tag, branch or commit (default: the newest release, or the same branch).", "V")
    ] = None,
    dry_run: Annotated[bool, Option("--dry-run", help="Show the changes, and change nothing.")] = False,
    yes: Annotated[bool, Option("--yes", "-y", help="Do not prompt; a conflict still needs --on-conflict.")] = False,
    on_conflict: Annotated[
        str | None,
        option(
            "--on-conflict",
            "In a file that both sides changed: keep `mine`, take `theirs`, or leave `markers`.",
            "CHOICE",
        ),
    ] = None,
    rollback: Annotated[bool, Option("--rollback", help="Restore the files as before the last update.")] = False,
) -> None:
    """Update the template's files, and merge them with this project's changes. Needs no daemon."""
    from corral.work.templates.cli import updating

    if on_conflict is not None and on_conflict not in updating.CHOICES:
        raise InvalidInput(
            f"--on-conflict cannot be {on_conflict!r}.", remedy=f"Use one of {', '.join(updating.CHOICES)}."
        )
    if rollback:
        updating.roll_back(project())
        return
    updating.update(project(), updating.Answers(version, on_conflict, dry_run, yes))


@app.command(prints="work.templates.api.TemplateVerified")
def verify() -> None:
    """Check the template's checksums, its commit, and its tag in the repository. Needs no daemon."""
    from corral.work.templates.cli import installing
    from corral.work.templates.project import journal
    from corral.work.templates.project.lock import require_lock

    here = project()
    journal.recover(here)
    lock = require_lock(here)
    base = installing.base_of(here, lock)
    cached, address, version = installing.cache(here), installing.address_of(lock), installing.kept_of(lock)
    now = cached.current(address, version)
    if lock.kind == "tag" and now is not None and now != lock.commit:
        raise NotTrusted(
            f"The tag {lock.version} of {lock.source} has moved.",
            cause=f"The project was prepared from {lock.commit[:12]}; the tag is {now[:12]} now.",
            remedy="Ask the template's maintainers. The files here are still those of the old commit.",
        )
    signer = cached.signer(address, version, installing.now())
    states = {path: _row(here.root / path, path, part)["state"] for path, part in base.items()}
    answer = {
        "source": lock.source,
        "version": lock.version,
        "commit": lock.commit,
        "signer": signer,
        "remote": "unknown" if now is None else "same" if now == lock.commit else "moved on",
        "files": states,
    }
    if printed(answer):
        return
    fact("template", one_line(f"{lock.source} {lock.version}"), 10)
    fact("commit", f"{lock.commit}, proven by its checksums", 10)
    fact("signed by", one_line(signer or "not checked (templates.allowed_signers)"), 10)
    fact(
        "repository",
        {"unknown": "not reached", "same": "has the same commit", "moved on": "has a newer one"}[str(answer["remote"])],
        10,
    )
    for path, state in states.items():
        if state != "unchanged":
            fact(state, one_line(path), 10)


@app.command(prints="work.templates.api.TemplateCache")
def cache(clear: Annotated[bool, Option("--clear", help="Remove everything from the cache.")] = False) -> None:
    """List the templates in this user's cache, or clear it. Needs no daemon."""
    from corral.work.templates.cli import installing

    cached = installing.cache(None)
    if clear:
        count = cached.clear()
        emit({"cleared": count}) if for_programs() else echo(
            f"Removed {count} template{'' if count == 1 else 's'} from the cache."
        )
        return
    rows = cached.list_versions()
    table(
        rows,
        [("SOURCE", "source", 60), ("VERSION", "version", 20), ("COMMIT", _short, 12), ("FETCHED", "fetched_at", 24)],
        empty="No template is cached.",
    )


def _short(row: dict[str, Any]) -> str:
    return str(row["commit"])[:12]
