"""Plain words: texts that people and models read use the field's terms and ordinary sentences."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Word:
    """A pattern to avoid, what to write instead, and why."""

    pattern: str
    instead: str
    why: str


TERM = "the field has a term"
RIDDLE = "a reader who does not know the code cannot understand it"
MESSAGE = "an error says what happened, why, and what to type"

WORDS = [
    Word(
        r"(?-i:(?<![\w`*])(Who|Whoever|What)) (?!to |happened)(?![^.?|]*\?)(?=[a-z])",
        "name the subject",
        "only a question begins so",
    ),
    Word(
        r"\b(he|him|his)\b", "they, their, or the role (the holder, the caller)", "a person or agent has no gender here"
    ),
    Word(r"\bso-?manieth\b", "the number", "no English word"),
    Word(r"\bmissing of\b", "missing from", "no English phrase"),
    Word(
        r"\b(landfall|massacre|doomed|errand|aftermath)\b",
        "land, mass expiry, stale, summary, automatic handoff",
        RIDDLE,
    ),
    Word(r"\bharvest", "collect", RIDDLE),
    Word(r"\bcome[s]? home\b", "reattach HEAD", TERM),
    Word(r"\bsigns? of life\b", "heartbeat, or: alive", TERM),
    Word(r"\bcircle of sessions\b|\bclose a circle\b", "deadlock", TERM),
    Word(r"\bway is free\b|\bgo(es)? past\b", "no longer blocked; later requests bypass it", TERM),
    Word(r"\b(the|how the|of the) house\b", "the architecture, the code", RIDDLE),
    Word(r"\bis no place in\b", "Invalid cursor.", MESSAGE),
    Word(r"\bNothing is to be done\b", "Nothing to do.", MESSAGE),
    Word(r"\bWhat is meant\b", "The argument is empty.", MESSAGE),
    Word(r"\bNobody can be asked\b", "Not a terminal: cannot prompt. Use `--yes`.", MESSAGE),
    Word(r"\bThe time is over\b", "Timed out after 30 s.", MESSAGE),
    Word(r"\bGo on\?", "a question that names the action", MESSAGE),
    Word(r"\barrive unchecked\b", "are not checked", MESSAGE),
    Word(r"\bsays nothing but its title\b", "A task needs --command, --prompt or --agent.", MESSAGE),
    Word(r"\bNo verdict in try\b", "Verification could not run (try 2 of 3)", MESSAGE),
    Word(r"\bnothing was at risk\b", "No saved work.", MESSAGE),
    Word(r"\bNothing is known of\b", "No matching memory.", MESSAGE),
    Word(r"\bof that was yours\b", "You hold no lock on these paths.", MESSAGE),
    Word(r"\bfor those who come later\b|\bwhoever comes next\b", "for later sessions", RIDDLE),
    Word(r"\bway of a branch\b", "merge queue", TERM),
    Word(r"\bwho may write what\b", "who holds which files", RIDDLE),
    Word(r"\bspoken of in\b", "its message thread", RIDDLE),
    Word(r"\bDollars of\b", "cost in USD", TERM),
    Word(r"\band leave\.", "drop it", RIDDLE),
    Word(r"\b(mend|mended|mending|mends)\b", "repair, correct, fix", "a rare word"),
    Word(r"\banew\b", "again", "a rare word"),
    Word(r"\bput right\b|\bputs right\b", "repair, roll back", RIDDLE),
    Word(r"\bwhoever\b", "name the subject", RIDDLE),
    Word(r"\bgo(es)? on by (itself|themselves)\b", "continue(s) automatically", RIDDLE),
    Word(r"\b(is|are) at work\b", "is running", RIDDLE),
    Word(r"\bas we speak\b|\bfor want of\b", "because there is no …", "a rare phrase"),
]

DOCUMENTS = [
    *ROOT.glob("*.md"),
    *ROOT.glob("docs/**/*.md"),
    *ROOT.glob("skills/*/SKILL.md"),
    *ROOT.glob(".claude/agents/*.md"),
    ROOT / "worktrees" / "README.md",
]
FOLDERS = [
    "app",
    "cli",
    "client",
    "config",
    "coordination",
    "git",
    "landing",
    "models",
    "observe",
    "runners",
    "server",
    "store",
    "work",
]
SOURCES = [
    *(file for folder in FOLDERS for file in ROOT.glob(f"daemon/corral/{folder}/**/*.py")),
    *ROOT.glob("daemon/corral/*.py"),
    *ROOT.glob("hooks/*.py"),
    *ROOT.glob("bench/*.py"),
]


def texts_of_source(source: str) -> Iterator[tuple[int, str]]:
    """Docstrings, comments and texts of two words or more, each with its line."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("# ")
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value.strip():
            yield from enumerate(node.value.splitlines(), node.lineno)


def texts_of_document(text: str) -> Iterator[tuple[int, str]]:
    """The prose of a document by line: no code, no links' addresses."""
    code = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            code = not code
        elif not code:
            yield number, re.sub(r"`[^`]*`|\]\([^)]*\)", "`…`", line)


def found(texts: Iterator[tuple[int, str]], where: str) -> list[str]:
    return [
        f"{where}:{number}: {match[0]!r}: write {word.instead} ({word.why})"
        for number, text in texts
        for word in WORDS
        if (match := re.search(word.pattern, text, re.IGNORECASE))
    ]


@pytest.mark.parametrize("file", sorted(DOCUMENTS), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_document_uses_plain_words(file: Path) -> None:
    assert found(texts_of_document(file.read_text(encoding="utf-8")), str(file.relative_to(ROOT))) == []


@pytest.mark.parametrize("file", sorted(SOURCES), ids=lambda file: str(file.relative_to(ROOT)))
def test_a_module_uses_plain_words(file: Path) -> None:
    assert found(texts_of_source(file.read_text(encoding="utf-8")), str(file.relative_to(ROOT))) == []


def test_a_word_to_avoid_is_found_with_its_line_and_its_replacement() -> None:
    source = 'x = 1\n\n\ndef f() -> None:\n    """Who is asked, says when.\n\n    The way is free.\n    """\n    # as he said\n'
    first, second, third = found(texts_of_source(source), "a.py")
    assert first.startswith("a.py:9: 'he'")
    assert second.startswith("a.py:5: 'Who ': write name the subject")
    assert third.startswith("a.py:7: 'way is free': write no longer blocked")


def test_a_question_code_and_a_part_of_a_word_are_allowed() -> None:
    text = (
        "What is a lock?\n`Who owns it` is a command. The other one, a help page, a theme.\n```\nWho said that.\n```\n"
    )
    assert found(texts_of_document(text), "a.md") == []
