"""``corral template diff|update|verify|cache``: the template that a project was prepared from."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Annotated, Any

from corral.core.errors import InvalidInput, NotTrusted
from corral.core.visible import one_line, visible
from corral.faces.cli.parsing import Option
from corral.faces.cli.terminal.options import json_of, option, project
from corral.faces.cli.terminal.output import echo, emit, fact, paint
from corral.faces.cli.terminal.tables import table
from corral.work.templates.cli.commands import app

if TYPE_CHECKING:
    from corral.git.remote.parts import Part


@app.command()
def diff(as_json: Annotated[bool, json_of("work.templates.api.TemplateDiff")] = False) -> None:
    """Show what this project changed of its template's files. Needs no daemon."""
    from corral.work.templates.cli import obtaining
    from corral.work.templates.project import journal
    from corral.work.templates.project.lock import require_lock

    home = project()
    journal.recover(home)
    lock = require_lock(home)
    base = obtaining.base_of(home, lock)
    rows = [_row(home.root / path, path, part) for path, part in base.items()]
    changed = [row for row in rows if row["state"] != "unchanged"]
    if as_json:
        emit({"source": lock.source, "version": lock.version, "commit": lock.commit, "files": rows})
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


@app.command()
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
    as_json: Annotated[bool, json_of("work.templates.api.TemplateUpdate")] = False,
) -> None:
    """Update the template's files, and merge them with this project's changes. Needs no daemon."""
    from corral.work.templates.cli import updating

    if on_conflict is not None and on_conflict not in updating.CHOICES:
        raise InvalidInput(
            f"--on-conflict cannot be {on_conflict!r}.", remedy=f"Use one of {', '.join(updating.CHOICES)}."
        )
    if rollback:
        updating.roll_back(project(), as_json=as_json)
        return
    updating.update(project(), updating.Answers(version, on_conflict, dry_run, yes, as_json))


@app.command()
def verify(as_json: Annotated[bool, json_of("work.templates.api.TemplateVerified")] = False) -> None:
    """Check the template's checksums, its commit, and its tag in the repository. Needs no daemon."""
    from corral.work.templates.cli import obtaining
    from corral.work.templates.project import journal
    from corral.work.templates.project.lock import changes, require_lock

    here = project()
    journal.recover(here)
    lock = require_lock(here)
    obtaining.base_of(here, lock)
    cached, address, version = obtaining.cache(here), obtaining.address_of(lock), obtaining.kept_of(lock)
    now = cached.current(address, version)
    if lock.kind == "tag" and now is not None and now != lock.commit:
        raise NotTrusted(
            f"The tag {lock.version} of {lock.source} has moved.",
            cause=f"The project was prepared from {lock.commit[:12]}; the tag is {now[:12]} now.",
            remedy="Ask the template's maintainers. The files here are still those of the old commit.",
        )
    signer = cached.signer(address, version, obtaining.now())
    states = changes(here, lock)
    answer = {
        "source": lock.source,
        "version": lock.version,
        "commit": lock.commit,
        "signer": signer,
        "remote": "unknown" if now is None else "same" if now == lock.commit else "moved on",
        "files": states,
    }
    if as_json:
        emit(answer)
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


@app.command()
def cache(
    clear: Annotated[bool, Option("--clear", help="Remove everything from the cache.")] = False,
    as_json: Annotated[bool, json_of("work.templates.api.TemplateCache")] = False,
) -> None:
    """List the templates in this user's cache, or clear it. Needs no daemon."""
    from corral.work.templates.cli import obtaining

    cached = obtaining.cache(None)
    if clear:
        count = cached.clear()
        emit({"cleared": count}) if as_json else echo(
            f"Removed {count} template{'' if count == 1 else 's'} from the cache."
        )
        return
    rows = cached.list_versions()
    table(
        rows,
        [("SOURCE", "source", 60), ("VERSION", "version", 20), ("COMMIT", _short, 12), ("FETCHED", "fetched_at", 24)],
        empty="No template is cached.",
        as_json=as_json,
    )


def _short(row: dict[str, Any]) -> str:
    return str(row["commit"])[:12]
