"""Which programs a shell command starts, in which folder, as far as its text tells.

A wrapper of a program (``sudo``, ``env``, ``xargs``, ``timeout``, reserved words, assignments) is taken off; what is a script
itself (``bash -c``, ``eval``, a here-document for ``sh``, what ``echo`` prints into it) is read in turn. Never raises, runs
nothing, touches no file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from corral.coordination.shell.lexer import Script, Word, read

MAX_SCRIPTS_WITHIN = 6

_RESERVED = frozenset({"!", "{", "}", "if", "then", "elif", "else", "while", "until", "do", "coproc"})
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=(.*)", re.DOTALL)
# Program: its options that take a value, and how many arguments come before the program that it starts.
_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -D -r -t -T -U -R --user --group --chdir --host --prompt", 0),
    "doas": ("-u -C", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "time": ("-f -o --format --output", 0),
    "env": ("-u -C --unset --chdir", 0),
    "xargs": ("-I -n -P -d -L -s -a -E --max-args --max-procs --delimiter --arg-file --replace --max-lines", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "stdbuf": ("-i -o -e", 0),
    "flock": ("-w -E --timeout", 1),
    "strace": ("-o -e", 0),
    "caffeinate": ("-t -w", 0),
    "watch": ("-n --interval", 0),
}
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh", "ash"})
_SHELL_OPTION_WITH_VALUE = re.compile(r"[-+]\w*[oO]|--rcfile|--init-file")
_RUNS_ARGUMENTS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})


@dataclass(frozen=True)
class Call:
    """A program that is started.

    Attributes:
        words: Its name and arguments.
        cwd: The folder it starts in (for ``cd``: the folder it goes to).
        environment: The variables that the command line sets for it.
    """

    words: Sequence[Word]
    cwd: Path
    environment: dict[str, str]

    @property
    def name(self) -> str:
        """The program's name without its folder."""
        return program(self.words[0])


def program(word: Word) -> str:
    """The name of the program that a word stands for, without its folder."""
    return word.text.rsplit("/", 1)[-1].removesuffix(".exe")


def calls(text: str, cwd: Path) -> Iterator[Call]:
    """Every program that a command line may start, in order."""
    return _walk(text, cwd, 0)


def enter(cwd: Path, folder: Word) -> Path:
    """Where ``cd`` leads, or ``cwd`` if that is not known from the text."""
    if folder.expands or folder.globs or folder.text in ("", "-") or "\0" in folder.text:
        return cwd
    if folder.text == "~" or folder.text.startswith("~/"):
        try:
            return Path(folder.text).expanduser()
        except RuntimeError:
            return cwd  # no home folder is known
    return cwd / folder.text


def _walk(text: str, cwd: Path, depth: int) -> Iterator[Call]:
    script = read(text)
    places = {0: cwd}
    printed = ""
    for command in script.commands:
        at, environment = _unwrapped(command.words)
        stdin = command.stdin or (printed if command.piped else "")
        printed = ""
        words = command.words[at:]
        if not words:
            continue
        if any(program(word) == "xargs" for word in command.words[:at]):
            words = [*words, *map(Word, stdin.split())]
        printed = _printed(words, stdin)
        here = _folder_of(places, script, command.scope)
        call = Call(words, here, environment)
        if call.name in ("cd", "pushd"):
            folders = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
            places[command.scope] = here = enter(here, folders[0] if folders else Word("~"))
            call = Call(words, here, environment)
        yield call
        yield from _started(call)
        if depth < MAX_SCRIPTS_WITHIN:
            for inner in _scripts(call, stdin):
                yield from _walk(inner, here, depth + 1)


def _folder_of(places: dict[int, Path], script: Script, scope: int) -> Path:
    unknown = []
    while scope not in places:
        unknown.append(scope)
        scope = script.parents[scope]
    places.update(dict.fromkeys(unknown, places[scope]))
    return places[scope]


def _unwrapped(words: Sequence[Word]) -> tuple[int, dict[str, str]]:
    """Where the program itself stands, and what is assigned before it; the length where none is started."""
    at, environment = 0, {}
    while at < len(words):
        word = words[at]
        assignment = _ASSIGNMENT.fullmatch(word.text)
        wrapper = _WRAPPERS.get(program(word))
        if word.text in _RESERVED and not word.quoted:
            at += 1
        elif word.text == "function":
            at += 2
        elif assignment:
            environment[assignment[1]] = assignment[2]
            at += 1
        elif wrapper:
            if word.text == "command" and at + 1 < len(words) and words[at + 1].text in ("-v", "-V"):
                return len(words), environment
            at = _after_options(words, at + 1, wrapper[0].split()) + wrapper[1]
        else:
            break
    return at, environment


def _after_options(words: Sequence[Word], at: int, valued: list[str]) -> int:
    while at < len(words) and words[at].text.startswith("-"):
        option = words[at].text
        at += 2 if option in valued else 1
        if option == "--":
            break
    return at


def _started(call: Call) -> Iterator[Call]:
    """The programs that ``find`` starts."""
    if call.name != "find":
        return
    words = call.words
    ends = [at for at, word in enumerate(words) if word.text in (";", "+")] + [len(words)]
    ahead = 0
    for at, word in enumerate(words):
        if word.text in _RUNS_ARGUMENTS:
            while ends[ahead] < at:
                ahead += 1
            if words[at + 1 : ends[ahead]]:
                yield Call(words[at + 1 : ends[ahead]], call.cwd, call.environment)


def _printed(words: Sequence[Word], stdin: str) -> str:
    """The output of a program, as far as the text tells: ``echo`` and ``printf`` their arguments, ``cat`` what it reads."""
    name, *arguments = (word.text for word in words)
    if program(words[0]) in ("cat", "tee"):
        return stdin
    if name == "printf":
        return "\n".join(arguments).replace("\\n", "\n")
    return " ".join(text for text in arguments if text not in ("-e", "-n", "-E")) if name == "echo" else ""


def _scripts(call: Call, stdin: str) -> Iterator[str]:
    """The texts that a program runs as shell commands."""
    arguments = call.words[1:]
    if call.name == "eval":
        yield " ".join(word.text for word in arguments)
    elif call.name == "trap" and arguments:
        yield arguments[0].text
    elif call.name in _SHELLS:
        at, takes_command = 0, False
        while at < len(arguments) and arguments[at].text[:1] in ("-", "+"):
            option = arguments[at].text
            takes_command |= "c" in option and not option.startswith("--")
            at += 2 if _SHELL_OPTION_WITH_VALUE.fullmatch(option) else 1
        if takes_command and at < len(arguments):
            yield arguments[at].text
        elif at >= len(arguments):
            yield stdin
