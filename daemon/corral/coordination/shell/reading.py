"""Whether a Bash command certainly changes no file, so that nothing needs to be compared after it.

Only a yes must be right: whatever is not known here, and every option that writes or starts something, is a no.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from corral.coordination.shell.lexer import Command, Redirection, Word, read

MAX_CHARACTERS = 64 * 1024
"""Longer commands count as writing: no reading command is that long."""

# No argument makes these programs write.
_NEVER_WRITE = """
    basename cat cd cksum cmp column comm cut df diff dirname du echo egrep expand false fgrep fold grep head id join jq ls
    md5sum nl paste printenv pwd readlink realpath rev seq sha1sum sha256sum stat tac tail tr true type uname wc
    which whoami
"""
_FREE = frozenset(_NEVER_WRITE.split())
# Options that make the program write or start something else; a long one also by its beginning.
_FORBIDDEN = {
    "[": "-v",
    "test": "-v",
    "printf": "-v",
    "file": "-C --compile",
    "find": "-delete -exec -execdir -ok -okdir -fprint -fprint0 -fprintf -fls",
    "rg": "--pre --hostname-bin -z --search-zip",
    "sort": "-o --output --compress-program -T --temporary-directory",
}
_GIT_FORBIDDEN = "--output --ext-diff --textconv --filters --open-files-in-pager -O"
_GIT_READS = """
    blame cat-file describe diff diff-tree for-each-ref grep log ls-files ls-tree merge-base name-rev rev-list rev-parse
    shortlog show status
"""
_GIT_VERBS = frozenset(_GIT_READS.split())
_BRANCH_OPTIONS = re.compile(
    r"-[arv]+|--(list|all|remotes|verbose|show-current|merged|no-merged|contains|no-contains|points-at|no-color|no-column)"
    r"|--(sort|format|merged|no-merged|contains|points-at|color|column)=.*"
)
_LISTS_BRANCHES = frozenset({"--list", "--merged", "--no-merged", "--contains", "--no-contains", "--points-at"})
_VERSIONS = frozenset(
    {"python", "python3", "node", "npm", "pip", "pip3", "uv", "cargo", "rustc", "git", "ruff", "mypy"}
)

_ADDRESS = r"(\d+|\$|/([^/\\\n]|\\.)*/)"
_PRINT = rf"({_ADDRESS}(,({_ADDRESS}|\+\d+))?!?)?[pdq=]"
_SUBSTITUTE = "|".join(
    rf"s{mark}([^\\{mark}\n]|\\.)*{mark}([^\\{mark}\n]|\\.)*{mark}[gpiI0-9]*" for mark in ("/", r"\|", ",", "#")
)
_SED_SCRIPT = re.compile(rf"({_PRINT}|{_SUBSTITUTE})", re.ASCII)


def is_read_only(command: str) -> bool:
    """Whether the command certainly leaves every file as it is. False means: not certain."""
    if len(command) > MAX_CHARACTERS:
        return False
    script = read(command)
    if script.broken or script.substitutes or not script.commands:
        return False
    return all(_only_reads(each) for each in script.commands)


def _only_reads(command: Command) -> bool:
    if not command.words or not all(_only_redirects(each) for each in command.redirections):
        return False
    name, *arguments = command.words
    if name.text in _FREE and not name.expands:
        return True
    # The value of a variable, or a match of a leading wildcard, may be an option.
    if any(word.expands or (word.globs and word.text[:1] in "*?[") for word in arguments):
        return False
    if name.text in _VERSIONS and [word.text for word in arguments] in (["-V"], ["--version"]):
        return True
    if name.text in _FORBIDDEN:
        return not _has(arguments, _FORBIDDEN[name.text])
    judge = _JUDGES.get(name.text)
    return judge is not None and judge([word.text for word in arguments])


def _only_redirects(redirection: Redirection) -> bool:
    operator, target = redirection.operator, redirection.target
    if target.expands:
        return False
    if operator in ("<", "<<", "<<-", "<<<"):
        return True
    if operator in (">&", "<&") and re.fullmatch(r"\d+-?|-", target.text, re.ASCII):
        return True
    return operator != "<>" and target.text == "/dev/null"


def _has(arguments: Sequence[Word], forbidden: str) -> bool:
    return any(_is_option(word.text, option) for word in arguments for option in forbidden.split())


def _is_option(text: str, option: str) -> bool:
    if option.startswith("--"):
        name = text.partition("=")[0]
        return len(name) > 2 and (name.startswith(option) or option.startswith(name))
    if len(option) > 2:
        return text == option
    return text.startswith("-") and not text.startswith("--") and option[1] in text


def _git(arguments: list[str]) -> bool:
    at = 0
    while at < len(arguments) and arguments[at] in ("-C", "-P", "--no-pager", "--no-optional-locks"):
        at += 2 if arguments[at] == "-C" else 1
    verb, rest = (arguments[at : at + 1] or [""])[0], arguments[at + 1 :]
    if verb in _GIT_VERBS:
        return not _has([Word(text) for text in rest], _GIT_FORBIDDEN)
    if verb in ("stash", "worktree"):
        return rest[:1] == ["list"]
    if verb == "remote":
        return rest in ([], ["-v"])
    options = [text for text in rest if text.startswith("-")]
    only_lists = len(options) == len(rest) or any(text.partition("=")[0] in _LISTS_BRANCHES for text in options)
    return verb == "branch" and only_lists and all(_BRANCH_OPTIONS.fullmatch(text) for text in options)


def _sed(arguments: list[str]) -> bool:
    scripts: list[str] = []
    at, has_script = 0, False
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] in ("-e", "-ne"):
            scripts.append(arguments[at + 1] if at + 1 < len(arguments) else "")
            at, has_script = at + 1, True
        elif arguments[at] not in ("-n", "-E", "-r", "-nE", "-En", "-nr"):
            return False
        at += 1
    scripts += [] if has_script else arguments[at : at + 1]
    # An option may also stand behind the files.
    later = arguments[at + (not has_script) :]
    return (
        bool(scripts) and all(map(_SED_SCRIPT.fullmatch, scripts)) and not any(text.startswith("-") for text in later)
    )


def _uniq(arguments: list[str]) -> bool:
    return sum(not text.startswith("-") for text in arguments) <= 1  # a second file would be written


def _date(arguments: list[str]) -> bool:
    return all(text.startswith("+") or text in ("-u", "-R", "-Is", "-I", "--utc") for text in arguments)


_JUDGES: dict[str, Callable[[list[str]], bool]] = {"git": _git, "sed": _sed, "uniq": _uniq, "date": _date}
