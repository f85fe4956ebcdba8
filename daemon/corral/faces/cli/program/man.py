"""``corral man``: manual pages, made of the same texts as the help pages. Needs no repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

from corral import __version__
from corral.core.errors import NOT_IN_THIS_VERSION, InvalidInput, NotFound
from corral.core.visible import one_line
from corral.faces.cli.help import CATEGORIES, PROGRAM, described, pages, reached, record_of, usage_of
from corral.faces.cli.parsing import HELP, Context, Group, Option
from corral.faces.cli.terminal.options import argument, command
from corral.faces.cli.terminal.output import echo, emit, for_programs, printed


@command(prints="faces.cli.api.ManPage[]")
def man(
    command: Annotated[
        list[str] | None, argument("A command, such as `task submit` (default: corral itself).", "COMMAND", of="page")
    ] = None,
    write: Annotated[
        Path | None,
        Option("--write", metavar="FOLDER", help="Write all pages into this folder, such as a man1.", file_okay=False),
    ] = None,
) -> None:
    """Show the manual page of a command. On a terminal in `man`, else as roff."""
    name = " ".join(command or ())
    if write is not None:
        if name:
            raise InvalidInput("--write writes the pages of all commands.", remedy="Leave the command out.")
        _write(write)
        return
    if name and name not in pages():
        raise NotFound(
            f"There is no command {name!r}.", cause=NOT_IN_THIS_VERSION, remedy="`corral --help` lists the commands."
        )
    text = page_of(_program(), name)
    if for_programs():
        emit([{"name": title_of(name), "file": None, "text": text}])
    elif sys.stdout.isatty() and shutil.which("man"):
        _show(title_of(name), text)
    else:
        echo(text.rstrip("\n"))


def _program() -> Group:
    from corral.faces.cli.app import app  # it imports this module when the command is used

    return app


def _write(folder: Path) -> None:
    program, rows = _program(), []
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("", *pages()):
            file = folder / f"{title_of(name)}.1"
            file.write_text(page_of(program, name), encoding="utf-8")
            rows.append({"name": title_of(name), "file": str(file), "text": None})
    except OSError as error:
        raise InvalidInput(f"Cannot write {error.filename or folder}.", cause=str(error.strerror)) from error
    if not printed(rows):
        echo(one_line(f"wrote {len(rows)} pages into {folder}"))


def _show(title: str, text: str) -> None:
    """Show a page in the system's reader, which takes a file's name where that has a slash."""
    with tempfile.TemporaryDirectory(prefix="corral-man-") as folder:
        file = Path(folder, f"{title}.1")
        file.write_text(text, encoding="utf-8")
        process = subprocess.run(["man", os.fspath(file)], check=False)
    if process.returncode:
        echo(text.rstrip("\n"))


# -- A command's manual page in roff: its help page with the sections that manuals have

MARK = '.\\" Written by corral man'
"""The first line of each page: the installer removes no other files."""

FILES = {
    ".corral/config.yaml": "The settings that a team shares.",
    ".corral/local.yaml": "The settings of this machine.",
    "~/.corral/config.yaml": "The settings of a user.",
    ".corral/logs/corral.log": "The daemon's log.",
}
VARIABLES = {
    "CORRAL_SECTION_KEY": "A setting for one run: CORRAL_LANDING_TARGET is landing.target.",
    "CORRAL_PROFILE": "The profile of settings.",
    "NO_COLOR": "No colours.",
}


EXIT_CODES = {
    "0": "Done.",
    "1": "Failed.",
    "2": "Wrong usage, or an invalid value.",
    "3": "Not found.",
    "4": "In conflict with the current state.",
    "5": "The daemon cannot be reached.",
    "130": "Interrupted.",
}


def title_of(name: str) -> str:
    """The title of a command's page: ``corral-task-submit``."""
    return "-".join(["corral", *name.split()])


def page_of(program: Group, name: str) -> str:
    """The page of a command.

    Args:
        program: The command ``corral`` itself.
        name: Such as ``task submit``; empty for ``corral`` itself.
    """
    context = reached(program, name.split())
    assert context is not None, "the pages are those of existing commands"
    command = context.command
    title = title_of(name)
    summary = command.summary.rstrip(".")
    lines = [MARK, f'.TH "{title.upper()}" "1" "" "corral {__version__}" "Corral"']
    lines += [".SH NAME", f"{_text(title)} \\- {_text(summary)}"]
    lines += [".SH SYNOPSIS", f".B corral {_text(name)}".rstrip(), _text(_usage(context, name))]
    lines += [".SH DESCRIPTION", *_paragraphs(described(command))]
    every = [parameter for parameter in [*command.params, HELP] if not parameter.hidden]
    lines += _described("ARGUMENTS", dict(record_of(parameter) for parameter in every if parameter.is_argument))
    lines += _described("OPTIONS", dict(record_of(parameter) for parameter in every if not parameter.is_argument))
    if isinstance(command, Group):
        lines += _commands(command, name)
    page = pages().get(name)
    examples, related = (page["examples"], page["related"]) if page else (PROGRAM[0], ())
    if examples:
        lines += [".SH EXAMPLES", ".nf", *(_line(f"corral {example}") for example in examples), ".fi"]
    lines += _described("EXIT STATUS", EXIT_CODES)
    if not name:
        lines += [*_described("FILES", FILES), *_described("ENVIRONMENT", VARIABLES)]
    others = (
        ["", " ".join(name.split()[:-1]), *related]
        if name
        else [page_name for page_name in pages() if " " not in page_name]
    )
    also = [
        f".BR {_text(title_of(page_name))} (1)" for page_name in dict.fromkeys(others) if page_name != name or not name
    ]
    return "\n".join([*lines, ".SH SEE ALSO", " ,\n".join(also)]) + "\n"


def _usage(context: Context, name: str) -> str:
    """The usage without the command's own words."""
    words = usage_of(context).split()
    return " ".join(words[2 + len(name.split()) :])


def _commands(command: Group, name: str) -> list[str]:
    summaries = command.summaries()
    sections = (
        {"COMMANDS": [*summaries]}
        if name
        else {f"COMMANDS: {heading}": [*names] for heading, names in CATEGORIES.items()}
    )
    return [
        line
        for heading, names in sections.items()
        for line in _described(heading, {command_name: summaries[command_name] for command_name in names})
    ]


def _described(heading: str, entries: dict[str, str]) -> list[str]:
    """A section of terms with their descriptions; nothing without any."""
    if not entries:
        return []
    lines = [f".SH {_text(heading)}"]
    for term, about in entries.items():
        lines += [".TP", f"\\fB{_text(term)}\\fR", _line(" ".join(about.split()))]
    return lines


def _paragraphs(text: str) -> list[str]:
    parts = [" ".join(part.split()) for part in text.replace("\b", "").split("\n\n")]
    return [line for part in parts if part for line in (".PP", _line(part))]


def _line(text: str) -> str:
    """A line of text that is no request, whatever it begins with."""
    escaped = _text(text)
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def _text(text: str) -> str:
    """A text without a meaning for roff; dashes stay dashes, so that an option can be copied."""
    return text.replace("\\", "\\e").replace("-", "\\-")
