"""``corral man``: manual pages, made of the same texts as the help pages. Needs no repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from corral.core.errors import NOT_IN_THIS_VERSION, InvalidInput, NotFound
from corral.core.visible import one_line
from corral.faces.cli.help import pages
from corral.faces.cli.parsing import Group, Option
from corral.faces.cli.program.man_page import page_of, title_of
from corral.faces.cli.terminal.options import argument, json_of
from corral.faces.cli.terminal.output import echo, emit


def man(
    command: Annotated[
        list[str] | None, argument("A command, such as `task submit` (default: corral itself).", "COMMAND", of="page")
    ] = None,
    write: Annotated[
        Path | None,
        Option("--write", metavar="FOLDER", help="Write all pages into this folder, such as a man1.", file_okay=False),
    ] = None,
    as_json: Annotated[bool, json_of("faces.cli.api.ManPage[]")] = False,
) -> None:
    """Show the manual page of a command. On a terminal in `man`, else as roff."""
    name = " ".join(command or ())
    if write is not None:
        if name:
            raise InvalidInput("--write writes the pages of all commands.", remedy="Leave the command out.")
        _write(write, as_json)
        return
    if name and name not in pages():
        raise NotFound(
            f"There is no command {name!r}.", cause=NOT_IN_THIS_VERSION, remedy="`corral --help` lists the commands."
        )
    text = page_of(_program(), name)
    if as_json:
        emit([{"name": title_of(name), "file": None, "text": text}])
    elif sys.stdout.isatty() and shutil.which("man"):
        _show(title_of(name), text)
    else:
        echo(text.rstrip("\n"))


def _program() -> Group:
    from corral.faces.cli.app import app  # it imports this module when the command is used

    return app


def _write(folder: Path, as_json: bool) -> None:
    program, rows = _program(), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("", *pages()):
            file = folder / f"{title_of(name)}.1"
            file.write_text(page_of(program, name), encoding="utf-8")
            rows.append({"name": title_of(name), "file": str(file), "text": None})
    except OSError as error:
        raise InvalidInput(f"Cannot write {error.filename or folder}.", cause=str(error.strerror)) from error
    if as_json:
        emit(rows)
    else:
        echo(one_line(f"wrote {len(rows)} pages into {folder}"))


def _show(title: str, text: str) -> None:
    """Show a page in the system's reader, which takes a file's name where that has a slash."""
    with tempfile.TemporaryDirectory(prefix="corral-man-") as folder:
        file = Path(folder, f"{title}.1")
        file.write_text(text, encoding="utf-8")
        process = subprocess.run(["man", os.fspath(file)], check=False)
    if process.returncode:
        echo(text.rstrip("\n"))
