"""A shell script taken apart into its simple commands, without running anything.

One pass over the text, in order, with POSIX quoting, here-documents, subshells and substitutions; what a substitution runs
comes before the command it stands in. Never raises: text that ends too early, or is nested absurdly deep, is marked ``broken``
and read as far as it can be. Only ``shell`` and its parts use it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

MAX_DEPTH = 24
"""Nested substitutions that are followed; nobody writes more, and each costs some of Python's stack."""

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_PLAIN = re.compile(r"[^ \t\r\n'\"\\$`|&;<>()]+")
_PLAIN_QUOTED = re.compile(r"[^\"\\$`]+")
_OPERATOR = re.compile(r"&>>|<<<|<<-|;;&|\|\||&&|;;|;&|\|&|&>|<<|>>|<&|>&|<>|>\||[|&;<>()\n]")
_REDIRECTIONS = frozenset({"<", ">", ">>", ">|", "<<", "<<-", "<<<", ">&", "<&", "&>", "&>>", "<>"})
_NAME = re.compile(r"\$(?:\w+|[@*#?$!-])")
_BACKTICKS = re.compile(r"`((?:[^`\\]|\\.)*)`", re.DOTALL)
_ANSI_QUOTED = re.compile(r"\$'((?:[^'\\]|\\.)*)'", re.DOTALL)
_ANSI_ESCAPE = re.compile(
    r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{1,4})|U([0-9a-fA-F]{1,8})|([0-7]{1,3})|(.))", re.DOTALL
)
_DESCRIPTOR = re.compile(r"\d+|\{\w+\}", re.ASCII)
_BEFORE_CASE = frozenset({"!", "{", "if", "then", "elif", "else", "while", "until", "do", "time"})
_GLOB = re.compile(r"[*?\[]")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "a": "", "b": "", "e": "", "f": "\n", "v": "\n"}


@dataclass(slots=True)
class Word:
    """One word after the quotes are gone.

    Attributes:
        text: Its known text; a variable stays as written (``$x``), a substitution reads ``$()``.
        quoted: Some of it was quoted, so it is neither a reserved word nor an operator.
        expands: Its value is not known from the text (variables, substitutions, braces).
        globs: It holds an unquoted wildcard.
    """

    text: str = ""
    quoted: bool = False
    expands: bool = False
    globs: bool = False


@dataclass(frozen=True, slots=True)
class Redirection:
    """``operator`` and what it points to; a here-document's target is its delimiter."""

    operator: str
    target: Word


@dataclass(slots=True)
class Command:
    """One simple command.

    Attributes:
        words: Assignments, reserved words, the name and its arguments, as they stand.
        redirections: In order.
        stdin: The text of its here-documents and here-strings.
        scope: Which (sub)shell runs it; see :attr:`Script.parents`.
        piped: It reads what the command before it prints.
    """

    scope: int
    words: list[Word] = field(default_factory=list)
    redirections: list[Redirection] = field(default_factory=list)
    stdin: str = ""
    piped: bool = False


@dataclass(slots=True)
class Script:
    """All commands in order; ``parents[scope]`` is the shell that a subshell was started from (-1 for the first)."""

    commands: list[Command] = field(default_factory=list)
    parents: list[int] = field(default_factory=lambda: [-1])
    substitutes: bool = False
    broken: bool = False

    def subshell(self, scope: int) -> int:
        """Number a new subshell of ``scope``."""
        self.parents.append(scope)
        return len(self.parents) - 1


def read(text: str) -> Script:
    """Take a script apart."""
    script = Script()
    _Reader(text, script, scope=0, depth=0).commands(closed_by="")
    return script


class _Reader:
    def __init__(self, text: str, script: Script, scope: int, depth: int) -> None:
        self.text = text
        self.script = script
        self.scope = scope
        self.depth = depth
        self.at = 0
        self.endless = False

    def commands(self, closed_by: str) -> None:
        """Read commands up to the closing parenthesis of this substitution, or to the end of the text."""
        outer = [self.scope]
        cases: list[int] = []  # how deep in subshells each `case` is that has not ended
        command = Command(self.scope)
        awaited: list[tuple[Command, Redirection]] = []
        while self.at < len(self.text):
            blank = _BLANK.match(self.text, self.at)
            if blank:
                self.at = blank.end()
                continue
            if self.text[self.at] == "#":
                self.at = self._find("\n")
                continue
            operator = _OPERATOR.match(self.text, self.at)
            if operator is None:
                word = self._word()
                if (
                    not word.quoted
                    and self.text[self.at : self.at + 1] in ("<", ">")
                    and _DESCRIPTOR.fullmatch(word.text)
                ):
                    continue  # the descriptor of a redirection
                if word.text in ("case", "esac") and _begins(command, word):
                    cases = [*cases, len(outer)] if word.text == "case" else cases[:-1]
                command.words.append(word)
                continue
            self.at = operator.end()
            if operator[0] in _REDIRECTIONS:
                self._redirection(operator[0], command, awaited)
                continue
            if operator[0] == ")" and cases and cases[-1] == len(outer):
                command = Command(self.scope)  # what ends is a pattern of `case`
                continue
            self._end(command)
            if operator[0] == "(":
                outer.append(self.scope)
                self.scope = self.script.subshell(self.scope)
            elif operator[0] == ")":
                if len(outer) == 1 and closed_by:
                    return
                self.script.broken |= len(outer) == 1
                self.scope = outer.pop() if len(outer) > 1 else self.scope
            elif operator[0] == "\n":
                self._documents(awaited)
            command = Command(self.scope, piped=operator[0] in ("|", "|&"))
        self._end(command)
        self.script.broken |= bool(closed_by) or len(outer) > 1 or bool(awaited) or bool(cases)

    def _end(self, command: Command) -> None:
        if command.words or command.redirections:
            self.script.commands.append(command)

    def _redirection(self, operator: str, command: Command, awaited: list[tuple[Command, Redirection]]) -> None:
        if operator in ("<", ">") and self.text[self.at : self.at + 1] == "(":
            self.at += 1
            self._substitution()
            command.words.append(Word("$()", expands=True))
            return
        blank = _BLANK.match(self.text, self.at)
        if blank:
            self.at = blank.end()
        if self.at >= len(self.text) or _OPERATOR.match(self.text, self.at):
            if self.text[self.at : self.at + 2] not in ("<(", ">("):
                self.script.broken = True
                return
            self.at += 2
            self._substitution()
            command.redirections.append(Redirection(operator, Word("$()", expands=True)))
            return
        redirection = Redirection(operator, self._word())
        command.redirections.append(redirection)
        if operator == "<<<":
            command.stdin += redirection.target.text + "\n"
        elif operator in ("<<", "<<-"):
            awaited.append((command, redirection))

    def _documents(self, awaited: list[tuple[Command, Redirection]]) -> None:
        for command, redirection in awaited:
            body = self._document(redirection)
            command.stdin += body
            if not redirection.target.quoted and self._deeper():
                _Reader(body, self.script, self.script.subshell(self.scope), self.depth + 1)._quoted(
                    Word(), closed_by=""
                )
        awaited.clear()

    def _document(self, redirection: Redirection) -> str:
        """Read one here-document; without its last line it is none, and what looks like it is read as commands."""
        start = self.at
        while start < len(self.text) and not self.endless:
            end = self._find("\n", start)
            line = self.text[start:end].rstrip("\r")
            if (line.lstrip("\t") if redirection.operator == "<<-" else line) == redirection.target.text:
                body, self.at = self.text[self.at : start], end + 1
                return body
            start = end + 1
        self.endless = self.script.broken = True
        return ""

    def _word(self) -> Word:
        """Read one word, from a place where there is one."""
        word = Word()
        pieces: list[str] = []
        while self.at < len(self.text):
            plain = _PLAIN.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                pieces.append(plain[0])
                word.globs |= _GLOB.search(plain[0]) is not None
                word.expands |= "{" in plain[0] and ("," in plain[0] or ".." in plain[0])
                continue
            char = self.text[self.at]
            if char == "'":
                word.quoted = True
                end = self._find("'", self.at + 1)
                pieces.append(self.text[self.at + 1 : end])
                self._close(end)
            elif char == '"':
                word.quoted = True
                self.at += 1
                pieces.append(self._quoted(word, closed_by='"'))
            elif char == "\\":
                word.quoted = True
                pieces.append(self.text[self.at + 1 : self.at + 2].replace("\n", ""))
                self.at += 2
            elif self.text.startswith('$"', self.at):
                self.at += 1  # translated; read as it stands
            elif char in "$`":
                quoted = self._ansi(word)
                pieces.append(self._expansion(word, bare=True) if quoted is None else quoted)
            else:
                break
        word.text = "".join(pieces)
        return word

    def _quoted(self, word: Word, closed_by: str) -> str:
        """Read what stands between double quotes, or in a here-document (``closed_by`` is empty)."""
        pieces: list[str] = []
        while self.at < len(self.text):
            plain = _PLAIN_QUOTED.match(self.text, self.at)
            if plain:
                self.at = plain.end()
                pieces.append(plain[0])
                continue
            char = self.text[self.at]
            if char == closed_by:
                self.at += 1
                return "".join(pieces)
            if char in "$`":
                pieces.append(self._expansion(word))
                continue
            following = self.text[self.at + 1 : self.at + 2] if char == "\\" else ""
            if following and following in '"\\$`\n':
                pieces.append(following.replace("\n", ""))
                self.at += 2
            else:
                pieces.append(char)
                self.at += 1
        self.script.broken |= bool(closed_by)
        return "".join(pieces)

    def _expansion(self, word: Word, *, bare: bool = False) -> str:
        """Read what begins with ``$`` or a backtick; ``bare``: not between double quotes, where ``'`` is a letter."""
        text, at = self.text, self.at
        name = _NAME.match(text, at)
        if name:
            self.at, word.expands = name.end(), True
            return name[0]
        if text[at] == "`":
            word.expands = True
            ticks = _BACKTICKS.match(text, at)
            self.at = ticks.end() if ticks else len(text)
            self.script.broken |= ticks is None
            self.script.substitutes = True
            if ticks and self._deeper():
                inner = re.sub(r"\\([`$\\])", r"\1", ticks[1])
                _Reader(inner, self.script, self.script.subshell(self.scope), self.depth + 1).commands(closed_by="")
            return "$()"
        opened = text[at + 1 : at + 2]
        self.at += 1
        if opened == "(":
            self.at += 1
            word.expands = True
            self._substitution()
            return "$()"
        if opened == "{":
            self.at += 1
            word.expands = True
            return self._parameter(word, bare)
        return "$"

    def _ansi(self, word: Word) -> str | None:
        """Read ``$'…'``; None where there is none."""
        quoted = _ANSI_QUOTED.match(self.text, self.at)
        if quoted is None:
            return None
        self.at, word.quoted = quoted.end(), True
        return _ANSI_ESCAPE.sub(_ansi_character, quoted[1])

    def _substitution(self) -> None:
        self.script.substitutes = True
        if self._deeper():
            scope, self.scope = self.scope, self.script.subshell(self.scope)
            self.depth += 1
            self.commands(closed_by=")")
            self.depth -= 1
            self.scope = scope

    def _parameter(self, word: Word, bare: bool) -> str:
        """Read on to the brace that closes ``${``."""
        start = self.at
        if not self._deeper():
            return ""
        self.depth += 1
        while self.at < len(self.text) and self.text[self.at] != "}":
            char = self.text[self.at]
            if char == "\\":
                self.at += 2
            elif char in "$`":
                self._expansion(word, bare=bare)
            elif char == "'" and bare:
                self.at = self._find("'", self.at + 1) + 1
            elif char == '"':
                self.at += 1
                self._quoted(word, closed_by='"')
            else:
                self.at += 1
        self.depth -= 1
        self._close(min(self.at, len(self.text)))
        return "${" + self.text[start : self.at]

    def _deeper(self) -> bool:
        if self.depth < MAX_DEPTH:
            return True
        self.script.broken = True
        self.at = len(self.text)
        return False

    def _find(self, char: str, start: int | None = None) -> int:
        place = self.text.find(char, self.at if start is None else start)
        return place if place >= 0 else len(self.text)

    def _close(self, end: int) -> None:
        self.script.broken |= end >= len(self.text)
        self.at = end + 1


def _begins(command: Command, word: Word) -> bool:
    """Whether a word that is read next would be the first one of its command."""
    return not word.quoted and all(each.text in _BEFORE_CASE and not each.quoted for each in command.words)


def _ansi_character(escape: re.Match[str]) -> str:
    digits = escape[1] or escape[2] or escape[3]
    if digits or escape[4]:
        code = int(digits, 16) if digits else int(escape[4], 8) & 255
        return chr(code) if code < 0x110000 else ""
    return _ESCAPES.get(escape[5], escape[5])
