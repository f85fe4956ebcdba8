"""The command line: commands are functions whose signatures declare their options and arguments.

What is accepted, and the words of a complaint, are those of Click, with which Corral began: options may stand anywhere
behind their command, values may be joined (``--opt=VALUE``, ``-oVALUE``), so may short flags (``-qv``), and ``--`` ends
the options. A library that does the same would take half the time of a command to load. Help pages are made in
:mod:`corral.faces.cli.help`.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from corral.faces.cli.asking import Asks

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_INTEGER = re.compile(r"[+-]?[0-9]+(_[0-9]+)*(\.0+)?")


class Exit(Exception):
    """Ends the command with an exit code."""

    def __init__(self, code: int = 0) -> None:
        super().__init__(code)
        self.code = code


class Abort(Exception):
    """A question was not answered."""


class HelpWanted(Exception):
    """A help page is to be shown; ``by_option``: because of `--help`, not because no command was named."""

    def __init__(self, context: Context, *, by_option: bool) -> None:
        super().__init__()
        self.context, self.by_option = context, by_option


class UsageError(Exception):
    """A command line that is not accepted.

    Attributes:
        word: The word that is not known, if that is the complaint.
        known: The accepted words, for a suggestion.
    """

    def __init__(self, message: str, context: Context, word: str = "", known: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message, self.context, self.word, self.known = message, context, word, known


class Parameter:
    """An option or an argument. What a signature says of it is added by :func:`parameters_of`.

    Attributes:
        opts: Its flags.
        secondary_opts: The flags that switch it off.
        words: The values that it may have, where no ``Enum`` says them.
        multiple: It is a list: an option may be repeated, an argument takes all that the others leave.
    """

    is_argument = False
    name = ""
    kind: Any = str
    words: Sequence[str] = ()
    multiple = False
    required = False
    default: Any = None

    def __init__(
        self,
        flags: Sequence[str] = (),
        *,
        help: str = "",
        metavar: str | None = None,
        min: float | None = None,
        max: float | None = None,
        envvar: str = "",
        hidden: bool = False,
        show_default: bool = True,
        file_okay: bool = True,
        candidates: Callable[[Context, str], list[tuple[str, str]]] | None = None,
        act: Callable[[Context], None] | None = None,
    ) -> None:
        """Declare a parameter.

        Args:
            envvar: The variable that gives its value where the command line does not.
            file_okay: Whether a path may be that of an existing file.
            candidates: Completes a word: the values that begin so, each with a few words about it.
            act: Called as soon as the flag is read; what it declares is no parameter of the function.
        """
        self.opts = [flag.partition("/")[0] for flag in flags]
        self.secondary_opts = [flag.partition("/")[2] for flag in flags if "/" in flag]
        self.help, self.metavar, self.min, self.max, self.envvar, self.hidden = help, metavar, min, max, envvar, hidden
        self.show_default, self.file_okay, self.candidates, self.act = show_default, file_okay, candidates, act

    @property
    def is_flag(self) -> bool:
        """Whether it is an option without a value."""
        return self.kind is bool and not self.is_argument

    @property
    def choices(self) -> list[str]:
        """The values that it may have; empty for any."""
        if self.words:
            return [*self.words]
        kinds = getattr(self.kind, "__args__", (self.kind,))  # ``X | Y`` has the values of both
        return [*dict.fromkeys(str(member.value) for kind in kinds if issubclass(kind, Enum) for member in kind)]

    def completions(self, context: Context, incomplete: str) -> list[tuple[str, str]]:
        """The values that begin so, each with a few words about it."""
        candidates = (
            self.candidates(context, incomplete) if self.candidates else [(choice, "") for choice in self.choices]
        )
        return [candidate for candidate in candidates if candidate[0].startswith(incomplete)]

    def value_of(self, raw: Any, context: Context) -> Any:
        """The value for the function.

        Raises:
            UsageError: The value is not valid, or is missing.
        """
        if raw is None and self.envvar:
            raw = os.environ.get(self.envvar) or None
        if raw is None:
            raw = self.default
        if self.multiple:
            values = [self._one(value, context) for value in raw or ()]
            value = values if values or self.default is not None else None
        else:
            value = None if raw is None else self._one(raw, context)
        if self.required and value is None:
            shown = f"argument '{self.metavar or self.name}'" if self.is_argument else f"option {self._flags()}"
            raise UsageError(f"Missing {shown}.", context)
        return value

    def _one(self, value: Any, context: Context) -> Any:
        if self.choices and (self.words or not isinstance(value, self.kind)):
            if value in self.choices:
                return self.kind(value) if isinstance(self.kind, type) else value
            self._refuse(f"{value!r} is not one of {', '.join(map(repr, self.choices))}.", context, value)
        elif self.kind in (int, float):
            return self._number(value, context)
        elif self.kind is Path:
            return self._path(Path(value), context)
        return value

    def _number(self, value: Any, context: Context) -> int | float:
        text = str(value).strip()
        try:
            if self.kind is int:
                number: float = int(text.partition(".")[0] if _INTEGER.fullmatch(text) else "")
            else:
                number = float(text if text.isascii() else "")
        except ValueError:
            noun = "integer" if self.kind is int else "number"
            name = "an integer" if self.kind is int else "a number"
            self._refuse(f"Input should be a valid {noun}, unable to parse string as {name}", context)
        if self.max is not None and not number <= self.max:
            self._refuse(f"Input should be less than or equal to {self.max}", context)
        if self.min is not None and not number >= self.min:
            self._refuse(f"Input should be greater than or equal to {self.min}", context)
        return number

    def _path(self, path: Path, context: Context) -> Path:
        try:
            mode = path.stat().st_mode
        except OSError:
            return path  # the command says what it needs
        if not self.file_okay and stat.S_ISREG(mode):
            self._refuse(f"dir {str(path)!r} is a file.", context)
        if not os.access(path, os.R_OK):
            self._refuse(f"{'path' if self.file_okay else 'dir'} {str(path)!r} is not readable.", context)
        return path

    def _refuse(self, reason: str, context: Context, word: str = "") -> NoReturn:
        shown = f"'{self.metavar or self.name}'" if self.is_argument else self._flags()
        raise UsageError(f"Invalid value for {shown}: {reason}", context, word, self.choices)

    def _flags(self) -> str:
        return " / ".join(f"'{flag}'" for flag in self.opts) + (f" (env var: '{self.envvar}')" if self.envvar else "")


def Option(*flags: str, **more: Any) -> Parameter:
    """Declare an option, for ``Annotated``; ``--on/--off`` has a flag for each of its two values.

    Without a flag it gets the name of its parameter.
    """
    return Parameter(flags, **more)


def Argument(**more: Any) -> Parameter:
    """Declare an argument, for ``Annotated``."""
    parameter = Parameter(**more)
    parameter.is_argument = True
    return parameter


HELP = Option("-h", "--help", help="Show this message and exit.")
HELP.name, HELP.kind = "help", bool
JSON = Option("--json", help="Print one JSON document.")
JSON.name, JSON.kind, JSON.default = "as_json", bool, False


def parameters_of(function: Callable[..., Any]) -> Iterator[Parameter]:
    """The parameters that a function's signature declares, in its order."""
    code: Any = function.__code__
    positional = code.co_varnames[: code.co_argcount]
    defaults = dict(zip(reversed(positional), reversed(function.__defaults__ or ()), strict=False))
    defaults |= function.__kwdefaults__ or {}
    for name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
        hint = function.__annotations__[name]
        # Not by typing.get_type_hints: before Python 3.11 it wraps what has the default None.
        hint = eval(hint, function.__globals__) if isinstance(hint, str) else hint
        if not hasattr(hint, "__metadata__"):
            continue
        parameter = Parameter()
        vars(parameter).update(vars(hint.__metadata__[0]))
        parameter.name, parameter.kind = name, _without_none(hint.__origin__)
        if getattr(parameter.kind, "__origin__", None) is list:
            parameter.multiple, parameter.kind = True, parameter.kind.__args__[0]
        parameter.default, parameter.required = defaults.get(name), name not in defaults
        if not (parameter.opts or parameter.is_argument):
            parameter.opts = [f"--{name.replace('_', '-')}"]
        yield parameter


def _without_none(hint: Any) -> Any:
    """The type ``X`` of ``X | None``."""
    if getattr(hint, "__origin__", None) is list or not hasattr(hint, "__args__"):
        return hint
    return next(kind for kind in hint.__args__ if kind is not type(None))


class Command:
    """A function that is run by its name on the command line.

    Attributes:
        function: None for a group that does nothing itself.
        asks: What it asks of the daemon, if that is one operation; the function gets the request.
        any_words: The function gets unknown options and further words, as ``context.args``.
        shared: Further parameters; one that the function declares itself wins.
        invoke: Runs the function.
    """

    def __init__(
        self,
        function: Callable[..., Any] | None,
        help: str = "",
        *,
        any_words: bool = False,
        prints: str = "",
        asks: Asks | None = None,
    ) -> None:
        self.function, self.any_words, self._prints, self.asks = function, any_words, prints, asks
        self.help = help or (function and function.__doc__) or ""
        self.shared: Sequence[Parameter] = ()
        self.invoke: Callable[[Context], Any] = call

    @property
    def prints(self) -> str:
        """The type of what it prints in whole for programs, below ``corral``; with ``[]`` a list of it.

        It is loaded for ``corral schema`` alone. By default that of what it asks for; without one there is no ``--json``.
        """
        return self._prints or (self.asks.prints if self.asks else "")

    @cached_property
    def params(self) -> list[Parameter]:
        """All parameters but the option ``--help``."""
        own = [*parameters_of(self.function)] if self.function else []
        own = [*self.asks.parameters(own)] if self.asks else own
        own += [JSON] if self.prints else []
        taken = {flag for parameter in own for flag in parameter.opts}
        return [*own, *(parameter for parameter in self.shared if not taken.intersection(parameter.opts))]

    @property
    def summary(self) -> str:
        """The first sentence of the command's help."""
        return self.help.strip().split(". ")[0].split("\n")[0].rstrip(".") + "."


class Group(Command):
    """Commands under one name."""

    def __init__(self, help: str = "", function: Callable[..., Any] | None = None) -> None:
        super().__init__(function, help)
        self._own: dict[str, Command] = {}
        self._added: dict[str, Command] = {}

    def command(self, name: str = "", **more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function a command of this group; by its own name, if none is given."""

        def register(function: Callable[..., Any]) -> Callable[..., Any]:
            self._own[name or function.__name__.replace("_", "-")] = Command(function, **more)
            return function

        return register

    def ask(
        self, operation: str, *takes: Any, name: str = "", by: str = "", **more: Any
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Make a function a command that asks for one operation, as :class:`corral.faces.cli.asking.Asks` says."""
        from corral.faces.cli.asking import Asks

        return self.command(name, asks=Asks(operation, *takes, by=by), **more)

    def add(self, command: Command, name: str = "") -> None:
        """Put a command or a group below this one; without a name the group's commands, behind the own ones."""
        if name:
            self._added[name] = command
        elif isinstance(command, Group):
            self._added |= command.commands

    @property
    def commands(self) -> dict[str, Command]:
        """The commands by their names, as help pages list them."""
        return self._own | self._added

    def list_commands(self) -> list[str]:
        """The names of the commands."""
        return [*self.commands]

    def get_command(self, name: str) -> Command | None:
        """The command of that name; None if there is none."""
        return self.commands.get(name)

    def summaries(self) -> dict[str, str]:
        """The commands with their first sentences."""
        return {name: command.summary for name, command in self.commands.items()}


class Context:
    """What was read of the command line for one command.

    Attributes:
        name: The word that named the command.
        params: The values of its parameters.
        on_command_line: The names of the parameters that the command line has.
        args: The words that are left: those of a command below.
        invoked: The name of that command.
    """

    def __init__(self, command: Command, name: str, parent: Context | None = None) -> None:
        self.command, self.name, self.parent = command, name, parent
        self.params: dict[str, Any] = {}
        self.on_command_line: set[str] = set()
        self.args: list[str] = []
        self.invoked: str | None = None

    @property
    def path(self) -> str:
        """The words that led here: ``corral task submit``."""
        return f"{self.parent.path} {self.name}" if self.parent else self.name

    @property
    def root(self) -> Context:
        """The context of the program itself."""
        return self.parent.root if self.parent else self


def run(program: Group, name: str, words: Sequence[str]) -> Any:
    """Read a command line and run its command; returns the result of its function.

    Raises:
        UsageError: It is not accepted.
        HelpWanted: A help page is to be shown instead.
    """
    context = parse(program, name, words)
    while isinstance(group := context.command, Group):
        if not context.args:
            if group.function is None:
                raise UsageError("Missing command.", context)
            return group.invoke(context)
        word, *rest = context.args
        command = group.get_command(word)
        if command is None:
            if word.startswith("-"):  # behind "--", where no option was expected
                parse(group, context.name, context.args, context.parent)
            raise UsageError(f"No such command {word!r}.", context, word, group.list_commands())
        context.invoked = word
        if group.function is not None:
            group.invoke(context)
        context = parse(command, word, rest, context)
    return context.command.invoke(context)


def call(context: Context) -> Any:
    """Call a command's function with the values of its parameters."""
    function: Any = context.command.function
    more: dict[str, Any] = {"context": context} if "context" in function.__annotations__ else {}
    if context.command.prints:
        context.params.pop(JSON.name)
    if context.command.asks:
        more["request"] = context.command.asks.take(context)
    return function(**context.params, **more)


def parse(
    command: Command, name: str, words: Sequence[str], parent: Context | None = None, *, lenient: bool = False
) -> Context:
    """Read the words behind a command, for a group only those before the next command.

    Args:
        lenient: Accept an unfinished command line, as completion needs: raises nothing and calls no ``act``.

    Raises:
        UsageError: The words are not accepted.
        HelpWanted: A help page is to be shown instead.
    """
    context = Context(command, name, parent)
    if isinstance(command, Group) and command.function is None and not words and not lenient:
        raise HelpWanted(context, by_option=False)
    reader = _Reader(context, words)
    try:
        reader.read()
    except UsageError:
        if not lenient:
            raise
    if HELP in reader.values and not lenient:
        raise HelpWanted(context, by_option=True)
    # Report the first error of the command line first.
    for parameter in [*reader.values, *(parameter for parameter in command.params if parameter not in reader.values)]:
        raw = reader.values.get(parameter)
        if raw is not None:
            context.on_command_line.add(parameter.name)
        if parameter.act and raw and not lenient:
            parameter.act(context)
        try:
            value = parameter.value_of(raw, context)
        except UsageError:
            if not lenient:
                raise
            value = None
        if not parameter.act and parameter is not HELP:
            context.params[parameter.name] = value
    context.args = reader.rest
    if context.args and not (isinstance(command, Group) or command.any_words or lenient):
        extra = _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", " ".join(context.args))
        raise UsageError(f"Got unexpected extra argument(s) ({extra})", context)
    return context


class _Reader:
    """Divides the words behind a command among its parameters.

    Attributes:
        values: The value of each parameter on the command line, in its order; arguments come after options.
        rest: The words that belong to no parameter.
    """

    def __init__(self, context: Context, words: Sequence[str]) -> None:
        self.values: dict[Parameter, Any] = {}
        self.rest: list[str] = []
        self._context, self._command, self._words = context, context.command, [*words]
        parameters = [*self._command.params, HELP]
        self._on = {flag: parameter for parameter in parameters for flag in parameter.opts}
        self._off = {flag: parameter for parameter in parameters for flag in parameter.secondary_opts}

    def read(self) -> None:
        """Read all words."""
        while self._words:
            word = self._words.pop(0)
            if word == "--":
                break
            if word.startswith("-") and len(word) > 1:
                self._option(word)
            elif isinstance(self._command, Group):
                self._words.insert(0, word)
                break
            else:
                self.rest.append(word)
        self._arguments([*self.rest, *self._words])

    def _arguments(self, words: list[str]) -> None:
        """The arguments behind a list get theirs first, from the end."""
        every = [parameter for parameter in self._command.params if parameter.is_argument]
        at = next((number for number, parameter in enumerate(every) if parameter.multiple), len(every))
        values: dict[Parameter, Any] = {parameter: words.pop(0) if words else None for parameter in every[:at]}
        values |= {parameter: words.pop() if words else None for parameter in reversed(every[at + 1 :])}
        if at < len(every):
            values[every[at]], words = words or None, []
        self.values |= {parameter: values[parameter] for parameter in every}
        self.rest = words

    def _option(self, word: str) -> None:
        flag, joined, value = word.partition("=")
        if len(flag) > 2 and (flag in self._on or flag in self._off):
            if joined and not self._takes_value(flag):
                raise UsageError(f"Option {flag!r} does not take a value.", self._context)
            self._take(flag, value if joined else None)
        elif not word.startswith("--"):
            self._letters(word[1:])
        elif self._command.any_words:
            self.rest.append(word)
        else:
            self._unknown(flag)

    def _letters(self, letters: str) -> None:
        """Short options that are written together, the last one perhaps with its value."""
        unknown = ""
        for number, letter in enumerate(letters, 1):
            flag = f"-{letter}"
            if flag not in self._on:
                if not self._command.any_words:
                    self._unknown(flag)
                unknown += letter
            elif self._takes_value(flag):
                self._take(flag, letters[number:] or None)
                break
            else:
                self._take(flag, None)
        if unknown:
            self.rest.append(f"-{unknown}")

    def _takes_value(self, flag: str) -> bool:
        return flag in self._on and not self._on[flag].is_flag

    def _take(self, flag: str, value: str | None) -> None:
        parameter = self._on.get(flag) or self._off[flag]
        if parameter.is_flag:
            self.values[parameter] = flag in self._on
            return
        if value is None:
            if not self._words:
                raise UsageError(f"Option {flag!r} requires an argument.", self._context)
            value = self._words.pop(0)
        self.values[parameter] = [*self.values.get(parameter, ()), value] if parameter.multiple else value

    def _unknown(self, flag: str) -> None:
        known = [flag for parameter in self._command.params for flag in parameter.opts if flag.startswith("--")]
        raise UsageError(f"No such option {flag!r}.", self._context, flag, known)
