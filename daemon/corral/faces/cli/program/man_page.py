"""A command's manual page in roff: its help page with the sections that manuals have."""

from __future__ import annotations

from corral import __version__
from corral.faces.cli.help import CATEGORIES, PROGRAM, described, pages, reached, record_of, usage_of
from corral.faces.cli.parsing import HELP, Context, Group

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
