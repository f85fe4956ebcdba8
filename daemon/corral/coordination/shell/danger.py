"""The danger of a Bash command line to a checkout that several sessions share, judged by its text.

This protects sessions from each other's habits, not from malice: the real changes of a command are found afterwards by
comparing the checkout. Text inside quotes, comments and here-documents is data, unless a shell is made to run it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from corral.coordination.shell.lexer import Script, Word, read


@dataclass(frozen=True)
class Danger:
    """A command that sweeps up the work of everybody in its checkout.

    Attributes:
        kind: The command as people know it, such as ``git add -A``.
        alternative: What to run instead, limited to the caller's own files.
    """

    kind: str
    alternative: str


_OWN_WORKTREE = "Work on that in a worktree of your own: `corral worktree create <name> --base <branch>`."
_ALTERNATIVES = {
    "git stash": "Keep your work as a commit: `git add <your files> && git commit -m <message> -- <your files>`. "
    "A stash takes everybody's changes, and all worktrees share one.",
    "git reset --hard": "Take back your own files alone: `git restore --staged --worktree -- <your file>`.",
    "git restore .": "Name your own files: `git restore -- <your file>`.",
    "git clean -f": "Remove your own files by name: `rm -- <your file>`.",
    "git rm": "Remove your own files by name: `git rm <your file>`.",
    "git read-tree --reset": "Take back your own files alone: `git restore --staged --worktree -- <your file>`.",
    "git switch": f"This checkout is shared, its branch stays. {_OWN_WORKTREE}",
    "git add -A": "Name your own files: `git add <your files>`.",
    "git commit -a": "Commit your own files: `git commit -m <message> -- <your files>`.",
    "git rebase": f"A rebase moves the branch under everybody here. {_OWN_WORKTREE}",
    "git merge": f"A merge moves the branch under everybody here. {_OWN_WORKTREE}",
    "git bisect": f"A bisection checks out one commit after another under everybody here. {_OWN_WORKTREE}",
    "git sparse-checkout": f"It takes everybody's files out of this checkout. {_OWN_WORKTREE}",
    "gh pr checkout": f"This checkout is shared, its branch stays. {_OWN_WORKTREE}",
    "git pull": f"`git fetch` is safe; a pull moves the branch under everybody here. {_OWN_WORKTREE}",
}

_GLOBAL_OPTIONS_WITH_VALUE = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix", "--attr-source"}
)
_OPTIONS_WITH_VALUE = {
    "add": "--chmod --pathspec-from-file",
    "checkout": "-b -B --orphan --conflict --pathspec-from-file",
    "clean": "-e --exclude",
    "commit": "-m -F -C -c -t --message --file --reuse-message --reedit-message --template --author --date --fixup --squash "
    "--cleanup --trailer --pathspec-from-file",
    "rm": "--pathspec-from-file",
    "checkout-index": "--stage",
    "restore": "-s --source --conflict --pathspec-from-file",
    "reset": "--pathspec-from-file",
    "stash": "-m --message",
}
# Short options whose value, if any, is attached: `-uno` is not `-u -n -o`.
_OPTIONAL_VALUE = {"commit": "-u -S", "rebase": "-S", "merge": "-S"}
_HELP = ("-h", "--help")


@dataclass
class _Arguments:
    is_folder: Callable[[str], bool]
    options: list[str] = field(default_factory=list)
    values: list[Word] = field(default_factory=list)
    paths: list[Word] | None = None  # what follows `--`

    def has(self, *names: str) -> bool:
        """Whether one of the options is given; git takes unambiguous beginnings of long ones."""
        return any(
            option == name or (name.startswith("--") and len(option) > 3 and name.startswith(option))
            for option in self.options
            for name in names
        )

    @property
    def named(self) -> list[Word]:
        """Everything that is not an option, for verbs that take nothing but paths. None: they may come from ``xargs``."""
        return self.values + (self.paths or [])

    @property
    def is_own(self) -> bool:
        """Whether single files are named, for such verbs."""
        return bool(self.named) and not self.are_several(self.named)

    def are_several(self, words: Sequence[Word]) -> bool:
        """Whether one of the words stands for more than one file."""
        return any(_is_several(word, self.is_folder) for word in words)


def danger(command: str, *, is_folder: Callable[[str], bool] | None = None) -> Danger | None:
    """Recognise a command that would sweep up, move or throw away other sessions' work in its checkout.

    Args:
        command: The command line for Bash.
        is_folder: Whether a path, as written, is a folder; by default its look decides.

    Returns:
        The first danger in it, or None.
    """
    if "git" not in command and "gh" not in command:
        return None
    for call in calls(command, Path()):
        kind = _kind(call, is_folder or _looks_like_folder)
        if kind is not None:
            return Danger(kind, _ALTERNATIVES[kind])
    return None


def target_directory(command: str, cwd: Path) -> Path:
    """The folder that a command works in, as far as its text tells.

    Args:
        command: The command line for Bash.
        cwd: Where Bash stands.

    Returns:
        Where its first dangerous git command works, else its first git command, else its last command. Not normalised, and
        perhaps missing.
    """
    first: Path | None = None
    last = cwd
    for call in calls(command, cwd):
        last = call.cwd
        if call.name == "git":
            place = _git(call)[2]
            if _kind(call, _looks_like_folder) is not None:
                return place
            first = first or place
    return first or last


def _git(call: Call) -> tuple[str, Sequence[Word], Path]:
    """The verb of a git command (empty if there is none), its arguments, and the folder it works in."""
    words, at, place = call.words, 1, call.cwd
    git_dir, work_tree = call.environment.get("GIT_DIR", ""), call.environment.get("GIT_WORK_TREE", "")
    while at < len(words) and words[at].text.startswith("-"):
        option, equals, value = words[at].text.partition("=")
        at += 1
        if option in _GLOBAL_OPTIONS_WITH_VALUE and not equals and at < len(words):
            value = words[at].text
            place = enter(place, words[at]) if option == "-C" else place
            at += 1
        git_dir = value if option == "--git-dir" else git_dir
        work_tree = value if option == "--work-tree" else work_tree
    if work_tree:
        place = enter(place, Word(work_tree, expands="$" in work_tree))
    elif git_dir:
        place = enter(place, Word(git_dir.removesuffix("/").removesuffix(".git") or ".", expands="$" in git_dir))
    return (words[at].text if at < len(words) else ""), words[at + 1 :], place


def _kind(call: Call, is_folder: Callable[[str], bool]) -> str | None:
    if call.name == "gh":
        texts = [word.text for word in call.words[1:]]
        return "gh pr checkout" if texts[:2] in (["pr", "checkout"], ["pr", "co"]) and not {*_HELP} & {*texts} else None
    if call.name != "git":
        return None
    verb, words, _ = _git(call)
    verb = "add" if verb == "stage" else verb
    judge = _JUDGES.get(verb)
    if judge is None:
        return None
    arguments = _split(words, verb, is_folder)
    return None if arguments.has(*_HELP) else judge(arguments)


def _split(words: Sequence[Word], verb: str, is_folder: Callable[[str], bool]) -> _Arguments:
    valued = _OPTIONS_WITH_VALUE.get(verb, "").split()
    attached = _OPTIONAL_VALUE.get(verb, "").split()
    arguments = _Arguments(is_folder)
    skip = False
    for at, word in enumerate(words):
        text = word.text
        if skip:
            skip = False
        elif text == "--":
            arguments.paths = list(words[at + 1 :])
            break
        elif text.startswith("--"):
            arguments.options.append(text.partition("=")[0])
            skip = text in valued
        elif text.startswith("-") and len(text) > 1:
            for place, letter in enumerate(text[1:], 2):
                arguments.options.append(f"-{letter}")
                if f"-{letter}" in valued or f"-{letter}" in attached:
                    skip = f"-{letter}" in valued and place == len(text)
                    break
        else:
            arguments.values.append(word)
    return arguments


def _looks_like_folder(path: str) -> bool:
    name = path.rsplit("/", 1)[-1]
    return "." not in name and not name[:1].isupper()


def _is_everything(word: Word) -> bool:
    # `{}` is whatever `find` or `xargs` puts there.
    return word.text in ("*", "./*", "{}") or word.text.startswith(":") or not word.text.strip("./")


def _is_several(word: Word, is_folder: Callable[[str], bool]) -> bool:
    if _is_everything(word) or "*" in word.text or "?" in word.text or word.text.endswith("/"):
        return True
    return not word.expands and is_folder(word.text)


def _stash(arguments: _Arguments) -> str | None:
    harmless = ("list", "show", "create", "store", "export")
    return None if arguments.values and arguments.values[0].text in harmless else "git stash"


def _reset(arguments: _Arguments) -> str | None:
    return "git reset --hard" if arguments.has("--hard", "--merge", "--keep") else None


def _checkout(arguments: _Arguments) -> str | None:
    if arguments.has("-b", "-B", "--orphan", "--detach", "-d", "-t", "--track"):
        return "git switch"
    if arguments.has("-f", "--force"):
        return "git restore ."
    paths = arguments.paths
    if paths is None and (len(arguments.values) > 1 or arguments.has("--ours", "--theirs")):
        # The first may be a commit; `.` and the like cannot.
        paths = [word for at, word in enumerate(arguments.values) if at or _is_everything(word)]
    if paths is not None and (paths or not arguments.values):
        return "git restore ." if not paths or arguments.are_several(paths) else None
    if not arguments.values:
        return None if arguments.options else "git restore ."
    only = arguments.values[0]
    if _is_everything(only) or only.text.endswith("/") or "*" in only.text:
        return "git restore ."
    # `git checkout NAME`: a file has an extension, a branch rarely has one that begins with a letter.
    extension = only.text.rsplit("/", 1)[-1].rpartition(".")[2]
    is_file = arguments.paths is None and "." in only.text and extension[:1].isalpha()
    return None if is_file or only.text.startswith("./") else "git switch"


def _restore(arguments: _Arguments) -> str | None:
    return None if arguments.is_own else "git restore ."


def _clean(arguments: _Arguments) -> str | None:
    harmless = not arguments.has("-f", "--force") or arguments.has("-n", "--dry-run")
    return None if harmless or arguments.is_own else "git clean -f"


def _rm(arguments: _Arguments) -> str | None:
    return None if arguments.has("-n", "--dry-run") or arguments.is_own else "git rm"


def _read_tree(arguments: _Arguments) -> str | None:
    harmless = arguments.has("-n", "--dry-run", "--index-output") or not arguments.has("--reset", "-u")
    return None if harmless else "git read-tree --reset"


def _checkout_index(arguments: _Arguments) -> str | None:
    several = arguments.has("-a", "--all", "--stdin") or arguments.are_several(arguments.named)
    overwrites = arguments.has("-f", "--force") and not arguments.has("--prefix", "--temp")
    return "git restore ." if overwrites and several else None


def _add(arguments: _Arguments) -> str | None:
    if arguments.has("-n", "--dry-run"):
        return None
    sweeps = not arguments.options or arguments.has("-A", "--all", "-u", "--update", "--no-ignore-removal")
    everything = sweeps and not arguments.named
    return "git add -A" if everything or any(_is_everything(word) for word in arguments.named) else None


def _commit(arguments: _Arguments) -> str | None:
    if arguments.has("--dry-run"):
        return None
    everything = arguments.has("-a", "--all") or any(_is_everything(word) for word in arguments.named)
    return "git commit -a" if everything else None


def _switch(arguments: _Arguments) -> str | None:
    return "git switch" if arguments.options or arguments.values else None


def _verbs(kind: str, *harmless: str) -> Callable[[_Arguments], str | None]:
    return lambda arguments: kind if arguments.values and arguments.values[0].text not in harmless else None


def _moves(kind: str, *harmless: str) -> Callable[[_Arguments], str | None]:
    return lambda arguments: None if arguments.has(*harmless) else kind


_JUDGES: dict[str, Callable[[_Arguments], str | None]] = {
    "stash": _stash,
    "reset": _reset,
    "checkout": _checkout,
    "restore": _restore,
    "clean": _clean,
    "switch": _switch,
    "rm": _rm,
    "read-tree": _read_tree,
    "checkout-index": _checkout_index,
    "add": _add,
    "commit": _commit,
    "rebase": _moves("git rebase", "--show-current-patch", "--edit-todo", "--quit"),
    "merge": _moves("git merge", "--quit"),
    "pull": _moves("git pull", "--dry-run"),
    "bisect": _verbs("git bisect", "log", "view", "visualize", "terms", "help"),
    "sparse-checkout": _verbs("git sparse-checkout", "list", "check-rules"),
}


# -- Which programs a shell command starts, in which folder, as far as its text tells.
#
# A wrapper of a program (``sudo``, ``env``, ``xargs``, ``timeout``, reserved words, assignments) is taken off; what
# is a script itself (``bash -c``, ``eval``, a here-document for ``sh``, what ``echo`` prints into it) is read in
# turn. Never raises, runs nothing, touches no file.

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
