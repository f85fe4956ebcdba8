"""Shell completion: the answers, and the scripts with which shells ask for them; ``--install-completion`` stores one.

The names of the variables are those of Typer, with which Corral began: scripts that people have installed use them.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from corral.faces.cli.parsing import HELP, Context, Exit, Group, parse
from corral.faces.cli.terminal.candidates import completed
from corral.faces.cli.terminal.output import echo, paint

VARIABLE = "_CORRAL_COMPLETE"
"""Set by the completion function of a shell, which calls ``corral`` without arguments: ``complete_bash``."""

_POWERSHELL = """
Import-Module PSReadLine
Set-PSReadLineKeyHandler -Chord Tab -Function MenuComplete
$scriptblock = {
    param($wordToComplete, $commandAst, $cursorPosition)
    $Env:_CORRAL_COMPLETE = "complete_powershell"
    $Env:_TYPER_COMPLETE_ARGS = $commandAst.ToString()
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = $wordToComplete
    corral | ForEach-Object {
        $commandArray = $_ -Split ":::"
        $command = $commandArray[0]
        $helpString = $commandArray[1]
        [System.Management.Automation.CompletionResult]::new(
            $command, $command, 'ParameterValue', $helpString)
    }
    $Env:_CORRAL_COMPLETE = ""
    $Env:_TYPER_COMPLETE_ARGS = ""
    $Env:_TYPER_COMPLETE_WORD_TO_COMPLETE = ""
}
Register-ArgumentCompleter -Native -CommandName corral -ScriptBlock $scriptblock
"""
_FISH = (
    "env _CORRAL_COMPLETE=complete_fish _TYPER_COMPLETE_FISH_ACTION={} _TYPER_COMPLETE_ARGS=(commandline -cp) corral"
)
SCRIPTS = {
    "bash": """
_corral_completion() {
    local IFS=$'\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" \\
                   COMP_CWORD=$COMP_CWORD \\
                   _CORRAL_COMPLETE=complete_bash $1 ) )
    return 0
}

complete -o default -F _corral_completion corral
""",
    "zsh": """
#compdef corral

_corral_completion() {
  eval $(env _TYPER_COMPLETE_ARGS="${words[1,$CURRENT]}" _CORRAL_COMPLETE=complete_zsh corral)
}

compdef _corral_completion corral
""",
    "fish": f'complete --command corral --no-files --arguments "({_FISH.format("get-args")})" '
    f'--condition "{_FISH.format("is-args")}"',
    "powershell": _POWERSHELL,
    "pwsh": _POWERSHELL,
}
_SHELLS = {*SCRIPTS, "sh", "dash", "ash", "csh", "tcsh", "ksh", "cmd", "elvish", "xonsh", "nu"}


def answer(program: Group, instruction: str) -> int:
    """Print what a shell's script asked for; returns the exit code."""
    what, mark, shell = instruction.partition("_")
    if not mark:
        return _refuse("Invalid completion instruction.")
    if shell not in SCRIPTS:
        return _refuse(f"Shell {shell} not supported.")
    if what == "source":
        print(SCRIPTS[shell])
    elif what == "complete":
        completions = _completions(program, *_line(shell))
        if shell == "fish" and os.environ.get("_TYPER_COMPLETE_FISH_ACTION") == "is-args":
            return 0 if completions else 1
        print(_printed(completions, shell))
    else:
        return _refuse(f'Completion instruction "{what}" not supported.')
    return 0


def show(_context: Context) -> None:
    """Print the script of the shell that runs this, and end.

    Raises:
        Exit: Always.
    """
    shell = _shell()
    if shell not in SCRIPTS:
        raise Exit(_refuse(f"Shell {shell} not supported."))
    print(SCRIPTS[shell].strip())
    raise Exit


def install(_context: Context) -> None:
    """Store the script of the shell that runs this where that shell looks for it, and end.

    Raises:
        Exit: Always.
    """
    home, shell = Path.home(), _shell()
    if shell == "bash":
        file, rc = home / ".bash_completions" / "corral.sh", home / ".bashrc"
        text = rc.read_text() if rc.is_file() else ""
        line = f"source '{file}'"
        rc.write_text(f"{text}\n" if line in text else f"{text}\n{line}\n")
    elif shell == "zsh":
        file, rc = home / ".zfunc" / "_corral", home / ".zshrc"
        text = rc.read_text() if rc.is_file() else ""
        lines = ("fpath+=~/.zfunc; autoload -Uz compinit; compinit", "zstyle ':completion:*' menu select")
        for line, sign in zip(lines, (lines[0], "zstyle"), strict=True):
            text += "" if sign in text else f"\n{line}\n"
        rc.write_text(f"{text.strip()}\n")
    elif shell == "fish":
        file = home / ".config" / "fish" / "completions" / "corral.fish"
    elif shell in ("powershell", "pwsh"):
        profile = subprocess.run([shell, "-NoProfile", "-Command", "echo", "$profile"], check=True, capture_output=True)
        file = Path(profile.stdout.decode().strip())
    else:
        print(f"Shell {shell} is not supported.")
        raise Exit(1)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a" if shell in ("powershell", "pwsh") else "w") as script:
        script.write(SCRIPTS[shell].strip() + ("" if shell in ("bash", "zsh") else "\n"))
    echo(paint(f"{shell} completion installed in {file}", "green"))
    echo("Completion will take effect once you restart the terminal")
    raise Exit


def _shell() -> str | None:
    """The shell that runs this command."""
    from psutil import Error, Process

    try:
        for process in Process().parents():
            program = (process.cmdline() or [""])[0]
            if program.startswith("-"):  # a login shell
                program = os.environ.get("SHELL") or program[1:]
            if (name := Path(program).name.lower()) in _SHELLS:
                return name
    except Error:
        pass
    return None


def _refuse(reason: str) -> int:
    print(reason, file=sys.stderr)
    return 1


def _line(shell: str) -> tuple[list[str], str]:
    """The words before the one that is completed, without the program's own, and that one."""
    if shell == "bash":
        words, at = _split(os.environ["COMP_WORDS"]), int(os.environ["COMP_CWORD"])
        return words[1:at], words[at] if at < len(words) else ""
    line = os.environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    if shell in ("powershell", "pwsh"):
        incomplete = os.environ.get("_TYPER_COMPLETE_WORD_TO_COMPLETE", "")
        return words[:-1] if incomplete else words, incomplete
    return (words[:-1], words[-1]) if words and not line.endswith(" ") else (words, "")


def _split(line: str) -> list[str]:
    """Split a line like a shell; what is quoted need not have ended."""
    reader = shlex.shlex(line, posix=True)
    reader.whitespace_split, reader.commenters = True, ""
    words: list[str] = []
    try:
        words.extend(reader)
    except ValueError:
        words.append(reader.token)
    return words


def _completions(program: Group, words: list[str], incomplete: str) -> list[tuple[str, str]]:
    """The possible completions, each with a short description."""
    context = _context(program, words)
    if incomplete == "=":
        incomplete = ""
    elif incomplete.startswith("-") and "=" in incomplete:
        flag, _, incomplete = incomplete.partition("=")
        words = [*words, flag]
    if incomplete.startswith("-") and "--" not in words:
        return [*_words(context, incomplete)]
    for parameter in context.command.params:
        if words[-1:] and words[-1] in parameter.opts and not parameter.is_flag:
            return parameter.completions(context, incomplete)
    for parameter in context.command.params:
        if parameter.is_argument and (parameter.multiple or parameter.name not in context.on_command_line):
            return parameter.completions(context, incomplete)
    return [*_words(context, incomplete)]


def _context(program: Group, words: list[str]) -> Context:
    """The last command on an unfinished line."""
    context = parse(program, "corral", words, lenient=True)
    while context.args and isinstance(context.command, Group):
        word, *rest = context.args
        command = context.command.get_command(word)
        if command is None:
            break
        context = parse(command, word, rest, context, lenient=True)
    return context


def _words(context: Context, incomplete: str) -> Iterator[tuple[str, str]]:
    """The commands and the options of a command, and the aliases of the configuration, that begin so."""
    command = context.command
    if isinstance(command, Group):
        yield from ((name, _short(text)) for name, text in command.summaries().items() if name.startswith(incomplete))
    if incomplete and not incomplete[0].isalnum():
        for parameter in [*command.params, HELP]:
            if not parameter.hidden and (parameter.multiple or parameter.name not in context.on_command_line):
                yield from (
                    (flag, parameter.help)
                    for flag in parameter.opts + parameter.secondary_opts
                    if flag.startswith(incomplete)
                )
    if context.parent is None:
        yield from completed("alias", context, incomplete)


def _short(text: str, most: int = 45) -> str:
    """A sentence if it is short, else its beginning."""
    words = text.split()
    parts = [" ".join(words[:number]) for number in range(len(words) + 1)]
    if len(text) <= most:
        return text
    return next(part for part in reversed(parts) if len(part) + 3 <= most) + "..."


def _for_zsh(completions: list[tuple[str, str]]) -> str:
    def quoted(text: str) -> str:
        for sign, safe in {'"': '""', "'": "''", "$": "\\$", "`": "\\`", ":": "\\\\:"}.items():
            text = text.replace(sign, safe)
        return f'"{text}"'

    lines = (":".join(quoted(text) for text in completion if text) for completion in completions)
    return "_arguments '*: :((" + "\n".join(lines) + "))'" if completions else "_files"


def _printed(completions: list[tuple[str, str]], shell: str) -> str:
    """The completions as a shell's script takes them."""
    if shell == "zsh":
        return _for_zsh(completions)
    if shell == "bash":
        return "\n".join(value for value, _about in completions)
    if shell == "fish":
        return "\n".join("\t".join(filter(None, (value, re.sub(r"\s", " ", about)))) for value, about in completions)
    return "\n".join(f"{value}:::{about or ' '}" for value, about in completions)
