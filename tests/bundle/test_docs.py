"""What the documents say exists, and what exists is documented; the rules of the house that can be counted."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from corral import __version__
from corral.core import errors
from corral.faces.cli import help as pages
from corral.faces.cli.app import app
from corral.faces.cli.nouns import NOUNS
from corral.faces.cli.terminal.output import guarded
from tests import commands_page
from tests.conftest import git
from tests.support.coordinated import Coordinated
from tests.support.files import executable

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), ROOT / "worktrees" / "README.md"])
MODULES = sorted(ROOT.glob("daemon/**/*.py"))
SHIPPED = [
    file
    for folder in (
        "daemon",
        "docs",
        "hooks",
        "skills",
        "worktrees",
        "tests",
        "bench",
        ".claude",
        ".claude-plugin",
        ".ci",
    )
    for file in sorted((ROOT / folder).rglob("*"))
    if file.is_file() and file.suffix in {".py", ".md", ".json", ".yaml", ".sh", ".toml", ""}
] + [*ROOT.glob("*.md"), ROOT / "install.sh", ROOT / "pyproject.toml"]


def tree(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    for name, sub in getattr(command, "commands", {}).items():
        yield f"{path}{name}", sub
        yield from tree(sub, f"{path}{name} ")


def whole_program() -> Any:
    """The command line with every command loaded."""
    for name in app.list_commands():
        assert app.get_command(name) is not None, name
    return app


ROOT_COMMAND: Any = whole_program()
COMMANDS = dict(tree(ROOT_COMMAND))
LEAVES = {path: command for path, command in COMMANDS.items() if not hasattr(command, "commands")}


def options(command: Any) -> set[str]:
    named = {text for parameter in command.params for text in (*parameter.opts, *parameter.secondary_opts)}
    return named | {"-h", "--help"}


def unknown(line: str) -> str | None:
    """What a line that begins with ``corral`` uses and what is not there."""
    words = shlex.split(line.replace("…", " "), comments=True)[1:]
    here, path = ROOT_COMMAND, ""
    while words:
        if words[0] == "-C":
            words = words[2:]
        elif words[0].startswith("-") and not path:
            if words[0] not in options(ROOT_COMMAND):
                return words[0]
            words = words[1:]
        elif hasattr(here, "commands") and words[0] not in {"COMMAND", "NOUN"}:
            path = f"{path} {words[0]}".strip()
            if path not in COMMANDS:
                return path
            here, words = COMMANDS[path], words[1:]
        else:
            break
    used = {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    return next(iter(used - options(here)), None)


def lines_with_commands(text: str) -> list[str]:
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    prose = re.sub(r"^```\w*\n.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    lines = [line.removeprefix("$ ").strip() for block in blocks for line in block.splitlines()]
    lines += [" ".join(span.split()) for span in re.findall(r"`([^`]+)`", prose)]
    return [line for line in lines if line.startswith("corral ")]


SHELL_CODE = ("completion.py", "man.py", "claude_settings.py", "provision.py", "guard/hook.py")
"""Modules whose texts are scripts, and not messages."""


def messages(module: ast.Module) -> Iterator[str]:
    """The texts of a module but for its docstrings; what is put into one is called COMMAND."""
    parts = {id(part) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for part in node.values}
    parts |= {id(node.value) for node in ast.walk(module) if isinstance(node, ast.Expr)}
    for node in ast.walk(module):
        if isinstance(node, ast.JoinedStr):
            yield "".join(str(part.value) if isinstance(part, ast.Constant) else " COMMAND" for part in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.value


def commands_in(text: str) -> Iterator[str]:
    for match in re.finditer(r"(?<![\w./-])corral (?:[a-z]|-C )[^`\n]*", text):
        is_marked = text[: match.start()].count("`") % 2
        yield match[0] if is_marked else re.split(r"[;:,)'\"]|\. |\.$| \(", match[0])[0]


# -- commands -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_command_and_option_that_a_document_names_exists(file: Path) -> None:
    wrong = {line: unknown(line) for line in lines_with_commands(file.read_text())}
    assert {line: what for line, what in wrong.items() if what} == {}


def test_every_command_and_option_that_a_message_names_exists() -> None:
    files = [file for file in MODULES if not str(file).endswith(SHELL_CODE)]
    named = {line for file in files for text in messages(ast.parse(file.read_text())) for line in commands_in(text)}
    assert len(named) > 150
    assert {line: what for line in named if (what := unknown(line))} == {}


def test_a_wrong_command_or_option_would_be_found() -> None:
    assert unknown("corral task frobnicate") == "task frobnicate"
    assert unknown("corral task submit --tilte x") == "--tilte"
    assert unknown("corral --nonsense") == "--nonsense"
    assert unknown("corral -C PATH task list --json") is None


def test_the_page_of_all_commands_is_what_they_say_of_themselves() -> None:
    assert commands_page.FILE.read_text(encoding="utf-8") == commands_page.page(), "python -m tests.commands_page"
    named = re.findall(r"^\| `corral ([^`]+)` \|", commands_page.page(), re.MULTILINE)
    assert len(named) == len(set(named)) and set(named) == set(LEAVES)


@pytest.mark.req("FR-CLI-002")
def test_every_command_has_a_help_page_with_examples_and_related_commands_that_exist() -> None:
    assert set(pages.pages()) == set(COMMANDS)
    for name, page in pages.pages().items():
        examples, related = page["examples"], page["related"]
        assert related, name
        assert bool(examples) == (name in LEAVES), name
        for example in examples:
            assert example.startswith(name), example
            assert unknown(f"corral {example}") is None, example
        assert set(related) <= set(COMMANDS), name
        shown = _help(name)
        assert shown.startswith(f"Usage: corral {name} ")
        assert " ".join(COMMANDS[name].summary.split()) in " ".join(shown.split()), name
        assert all(f"corral {example}\n" in shown for example in examples), name
        assert f"Examples:\n    corral {name} " in shown or f"Examples:\n    corral {name}\n" in shown, name
        flat = " ".join(shown.split())
        assert all(f"corral {command}" in flat.partition("See also: ")[2] for command in related), name
        for parameter in COMMANDS[name].params:
            if not getattr(parameter, "hidden", False) and not parameter.is_argument:
                assert parameter.opts[0] in shown, name


def _help(name: str) -> str:
    """A command's help page."""
    context = pages.reached(ROOT_COMMAND, name.split())
    assert context is not None, name
    return pages.page_of(context)


def test_every_command_is_in_one_category() -> None:
    top = [name for names in pages.CATEGORIES.values() for name in names]
    assert sorted(top) == sorted(ROOT_COMMAND.commands)


def test_the_page_of_help_says_of_each_command_what_its_own_page_begins_with() -> None:
    summaries = {name: sentence for name, (_module, sentence) in NOUNS.items()}
    assert summaries == {name: command.summary for name, command in ROOT_COMMAND.commands.items()}


@pytest.mark.req("FR-CLI-002")
def test_every_option_and_argument_says_what_it_is() -> None:
    silent = [
        f"{path} {parameter.name}"
        for path, command in COMMANDS.items()
        for parameter in command.params
        if not getattr(parameter, "hidden", False) and not getattr(parameter, "help", None)
    ]
    assert silent == []


@pytest.mark.executed
@pytest.mark.req("FR-CLI-002")
@pytest.mark.parametrize("words", [[], ["task"], ["task", "submit"], ["wait"]], ids=" ".join)
def test_a_help_page_shows_it_all(words: list[str]) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "corral", *words, "--help"],
        env={**os.environ, "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown.startswith("Usage: ")
    path = " ".join(words)
    loaded = "import sys; from corral.faces.cli.app import run; run(sys.argv[1:]); print('pydantic' in sys.modules)"
    output = subprocess.run(
        [sys.executable, "-c", loaded, *words, "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "daemon"), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == f"{shown}False\n", "the page takes a tenth of a second without it, twice as long with it"
    parts = re.findall(r"^(\w.*):\n((?:  .*\n)+)", shown, re.MULTILINE)
    sections = {heading: re.findall(r"^  ([\w-]+)  +\w", entries, re.MULTILINE) for heading, entries in parts}
    if not words:
        assert {category: sections.get(category) for category in pages.CATEGORIES} == {
            category: list(names) for category, names in pages.CATEGORIES.items()
        }
    elif path not in LEAVES:
        assert sections["Commands"] == list(COMMANDS[path].commands)
    else:
        assert f"Examples:\n    corral {pages.pages()[path]['examples'][0]}\n" in shown
    assert "\n  Examples:\n    corral " in shown
    first = pages.pages()[path]["related"][0] if words else pages.PROGRAM[1][0]
    assert f"See also: corral {first}" in shown


# -- documents ------------------------------------------------------------------------------------------------------


def test_the_readme_begins_with_how_to_install_see_and_test_and_is_short() -> None:
    first = re.search(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert first is not None
    assert [line.split("#")[0].strip() for line in first[1].splitlines()] == [
        "./install.sh",
        "./install.sh --demo",
        "./install.sh --test",
    ]
    assert len(README.splitlines()) < 250


def test_the_start_in_the_readme_lands_a_task(make_repo: Callable[..., Path], tmp_path: Path) -> None:
    """Word for word what a newcomer types, but for the answer to the one question of ``init``."""
    test = "import unittest\n\n\nclass One(unittest.TestCase):\n    def test_it(self):\n        pass\n"
    root = make_repo("my-repository", {"test_it.py": test, ".gitignore": "__pycache__/\n"})
    command = executable(tmp_path / "bin" / "corral", f'#!/bin/sh\nexec "{sys.executable}" -m corral "$@"\n')
    part = README[README.index("<!-- start") : README.index("<!-- end")]
    script = "".join(re.findall(r"^```sh\n(.*?)^```", part, re.MULTILINE | re.DOTALL))
    house = Coordinated(root)
    try:
        done = subprocess.run(
            ["/bin/sh", "-eu", "-c", script.replace("corral init ", "corral init --yes ")],
            cwd=root.parent,
            env={
                **os.environ,
                "PATH": f"{command.parent}:{os.environ['PATH']}",
                "PYTHONPATH": str(ROOT / "daemon"),
                "GIT_AUTHOR_NAME": "N",
                "GIT_AUTHOR_EMAIL": "n@example.test",
                "GIT_COMMITTER_NAME": "N",
                "GIT_COMMITTER_EMAIL": "n@example.test",
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=120,
        )
    finally:
        house.stop()
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Say hello" in done.stdout.splitlines()[-3]
    assert (root / "hello.txt").read_text() == "hello\n"
    assert git(root, "status", "--porcelain", "--untracked-files=all") == "", "it commits all that init wrote"


@pytest.mark.req("FR-CLI-006")
def test_every_error_code_is_explained_and_shown_with_a_cause_a_remedy_and_an_exit_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "docs" / "troubleshooting.md").read_text()
    rows = re.findall(r"^\| `(CORRAL-ERR-\d+)` \| `(\w+)` \| (\d+) \|", text, re.MULTILINE)
    assert rows == [(code, cls.name, str(cls.exit_code)) for code, cls in errors.BY_CODE.items()]
    for code, cls in errors.BY_CODE.items():

        def fails(cls: type[errors.CorralError] = cls) -> int:
            raise cls("It did not work.")

        assert guarded(fails, as_json=False, debug=lambda: False) == cls.exit_code != 0
        out, err = capsys.readouterr()
        lines = [line.strip() for line in err.splitlines()]
        assert out == "" and lines[0] == f"error: It did not work. [{code}]"
        assert lines[1].partition("cause:")[2].strip() and lines[2].partition("remedy:")[2].strip(), code
        pages = [line.partition("docs:")[2].strip() for line in lines[3:]]
        assert len(pages) <= 1, "no traceback unless --debug"
        for file, _, anchor in (page.partition("#") for page in pages):
            assert not anchor or f'<a id="{anchor}"></a>' in Path(file).read_text(), code
            assert f"docs/{Path(file).name}" in (ROOT / "pyproject.toml").read_text(), "the wheel has it"
        assert bool(pages) == (code not in ("CORRAL-ERR-002", "CORRAL-ERR-003", "CORRAL-ERR-004")), code


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_link_leads_somewhere(file: Path) -> None:
    links = re.findall(r"\]\(([^)#]+)[^)]*\)", file.read_text())
    assert [link for link in links if "://" not in link and not (file.parent / link).exists()] == []


def test_decisions_are_numbered_without_a_gap_and_titled_with_their_number() -> None:
    files = sorted(ROOT.glob("docs/decisions/*.md"))
    assert [int(file.name[:4]) for file in files] == list(range(1, len(files) + 1))
    for number, file in enumerate(files, 1):
        assert file.read_text().startswith(f"# {number}. ")


def test_one_version_everywhere() -> None:
    plugin = json.loads((ROOT / ".claude-plugin" / "plugin.json").read_text())
    marketplace = json.loads((ROOT / ".claude-plugin" / "marketplace.json").read_text())
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert (plugin["version"], newest[1]) == (__version__, __version__)
    assert {entry.get("version", __version__) for entry in marketplace["plugins"]} == {__version__}


# -- what can be looked up --------------------------------------------------------------------------------------------


def test_each_module_says_what_it_is_for() -> None:
    silent = [str(file) for file in MODULES if not ast.get_docstring(ast.parse(file.read_text()))]
    assert not silent


# Put together here, so that this file does not find itself.
_MARKS = ("TO" + "DO", "FIX" + "ME", "NotImplemented" + "Error")
_PLACES = ("/wo" + "rk/", "/ro" + "ot/", "/tmp/" + "v/")
FORBIDDEN = re.compile(
    "|".join([*(rf"\b{mark}\b" for mark in _MARKS), *(rf"(?<![\w./~}}]){place}" for place in _PLACES)])
)


def test_nothing_unfinished_and_no_place_of_one_machine_is_shipped() -> None:
    places = [
        f"{file.relative_to(ROOT)}:{number}: {line.strip()[:80]}"
        for file in SHIPPED
        if "__pycache__" not in file.parts
        for number, line in enumerate(file.read_text(errors="replace").splitlines(), 1)
        if FORBIDDEN.search(line)
    ]
    assert places == []
