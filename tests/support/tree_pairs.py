"""Pairs of commits to merge, made up by chance: all that a tree may hold, and most of what may become of it."""

from __future__ import annotations

import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FILE, PROGRAM, LINK, SUBMODULE = "100644", "100755", "120000", "160000"
Tree = dict[str, tuple[str, bytes]]
"""By path the mode, and the content; of a submodule its commit."""

_NAMES = ["a.txt", "b.txt", "c.txt", "A.txt", "d", "e.bin", "ü b.txt", "f\n.txt", "README"]
_FOLDERS = ["", "", "d/", "d/e/", "src/", "Src/", "a.txt/"]
_ATTRIBUTES = [
    b"* text=auto\n",
    b"*.txt merge=union\n",
    b"*.txt -merge\n",
    b"*.txt merge=mine\n",
    b"*.txt eol=crlf\n",
    b"*.txt -text\n",
    b"* -merge\n[attr]ours merge=union\nREADME ours\n",
    b"*.bin binary\nd/** merge=union\n",
    b"*.txt conflict-marker-size=3 whitespace=-trailing-space\n",
    b"a.txt ident\n",
]
CONFIGURATIONS: list[dict[str, str]] = [
    {},
    {},
    {},
    {"merge.renormalize": "true"},
    {"merge.directoryRenames": "true"},
    {"merge.directoryRenames": "false"},
    {"merge.renames": "false"},
    {"merge.renameLimit": "1"},
    {"merge.conflictStyle": "diff3"},
    {"core.autocrlf": "true"},
    {"diff.algorithm": "histogram"},
    {"merge.ff": "only"},
]
"""What a user may have configured, of what a merge looks at."""


@dataclass(frozen=True)
class Pair:
    """Two commits, and the configuration under which they are merged."""

    number: int
    ours: str
    theirs: str
    configuration: dict[str, str]


class _Chance:
    def __init__(self, seed: str) -> None:
        self.random = random.Random(seed)
        self.pick = self.random.choice

    def often(self, share: float) -> bool:
        return self.random.random() < share

    def path(self) -> str:
        return self.pick(_FOLDERS) + self.pick(_NAMES)

    def lines(self) -> bytes:
        end = b"\r\n" if self.often(0.2) else b"\n"
        return b"".join(b"line %d of %d" % (n, self.random.randrange(3)) + end for n in range(self.pick([1, 6, 20])))

    def entry(self) -> tuple[str, bytes]:
        kind = self.random.randrange(12)
        if kind == 0:
            return FILE, b""
        if kind == 1:
            return FILE, b"\0\1" + self.lines()
        if kind == 2:
            return LINK, self.pick([b"a.txt", b"d", b"../x", b"nowhere"])
        if kind == 3:
            return SUBMODULE, self.pick([b"1", b"2", b"3"]) * 40
        return (PROGRAM if kind == 4 else FILE), self.lines()


def _put(tree: Tree, path: str, entry: tuple[str, bytes]) -> None:
    """Write a path; what is in its way goes."""
    for other in [other for other in tree if other.startswith(f"{path}/") or path.startswith(f"{other}/")]:
        del tree[other]
    tree[path] = entry


def _edit(chance: _Chance, tree: Tree, path: str) -> None:
    mode, content = tree[path]
    if mode in (LINK, SUBMODULE):
        tree[path] = mode, chance.pick([b"4", b"5", b"6"]) * 40
        return
    lines = content.splitlines(keepends=True)
    at = chance.random.randrange(len(lines) + 1)
    what = chance.random.randrange(5)
    if what == 0:
        lines.insert(at, b"inserted %d\n" % chance.random.randrange(4))
    elif what == 1:
        del lines[at : at + 2]
    elif what == 2:
        lines[at : at + 1] = [b"replaced %d\n" % chance.random.randrange(4)]
    elif what == 3:
        lines = [line.replace(b"\r\n", b"\n") if b"\r" in line else line.replace(b"\n", b"\r\n") for line in lines]
    else:
        lines.append(b"no end")
    tree[path] = mode, b"".join(lines)


def _mode(chance: _Chance, tree: Tree, path: str) -> None:
    mode, content = tree[path]
    if mode in (FILE, PROGRAM):
        tree[path] = (PROGRAM if mode == FILE else FILE), content


def _type(chance: _Chance, tree: Tree, path: str) -> None:
    tree[path] = chance.entry()


def _drop(chance: _Chance, tree: Tree, path: str) -> None:
    del tree[path]


def _rename(chance: _Chance, tree: Tree, path: str) -> None:
    new = path.swapcase() if chance.often(0.2) else chance.path()
    entry = tree.pop(path)
    _put(tree, new, entry)
    if chance.often(0.4):
        _edit(chance, tree, new)


def _swap(chance: _Chance, tree: Tree, path: str) -> None:
    other = chance.pick(sorted(tree))
    tree[path], tree[other] = tree[other], tree[path]


def _rename_folder(chance: _Chance, tree: Tree, path: str) -> None:
    old, new = path.rpartition("/")[0], chance.pick(["moved", "d", "src", "a.txt"])
    for name in [name for name in tree if old and name.startswith(f"{old}/")]:
        if name in tree:
            _put(tree, new + name[len(old) :], tree.pop(name))


def _into_folder(chance: _Chance, tree: Tree, path: str) -> None:
    entry = tree.pop(path)
    _put(tree, f"{path}/{chance.pick(_NAMES)}", entry)


def _out_of_folder(chance: _Chance, tree: Tree, path: str) -> None:
    _put(tree, path.partition("/")[0], tree.pop(path))


def _add(chance: _Chance, tree: Tree, path: str) -> None:
    _put(tree, chance.path(), chance.entry())


def _attributes(chance: _Chance, tree: Tree, path: str) -> None:
    folder = chance.pick(["", "", "d/"])
    entry = (LINK, b"a.txt") if chance.often(0.05) else (FILE, chance.pick(_ATTRIBUTES))
    _put(tree, f"{folder}.gitattributes", entry)


_CHANGES: list[Callable[[_Chance, Tree, str], None]] = [
    _edit, _edit, _edit, _edit, _mode, _type, _drop, _rename, _rename, _rename_folder, _into_folder, _out_of_folder,
    _swap, _add, _add, _attributes,
]  # fmt: skip


_IN_PLACE = [_edit, _edit, _edit, _attributes]


def _changed(chance: _Chance, tree: Tree) -> Tree:
    changed = dict(tree)
    changes = _IN_PLACE if len(tree) < 4 else _CHANGES
    for _ in range(chance.random.randrange(1, 6)):
        if changed:
            chance.pick(changes)(chance, changed, chance.pick(sorted(changed)))
    return changed


def _first(chance: _Chance) -> Tree:
    tree: Tree = {}
    if chance.often(
        0.3
    ):  # little to change, so that both sides change the same, and the attributes tell how that is merged
        tree["a.txt"] = FILE, chance.lines()
        _attributes(chance, tree, "")
        return tree
    for _ in range(chance.random.randrange(5, 12)):
        _put(tree, chance.path(), chance.entry())
    if chance.often(0.4):
        _attributes(chance, tree, "")
    return tree


class _Writer:
    """Commits in the form that ``git fast-import`` reads."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.marks = 0

    def commit(self, tree: Tree, *parents: int) -> int:
        self.marks += 1
        says = [] if parents else ["reset refs/heads/made\n"]
        says += [
            f"commit refs/heads/made\nmark :{self.marks}\ncommitter M <m@x> {1700000000 + self.marks} +0000\ndata 0\n"
        ]
        says += [f"{'merge' if place else 'from'} :{parent}\n" for place, parent in enumerate(parents)]
        self.parts += [text.encode() for text in (*says, "deleteall\n")]
        for path, (mode, content) in tree.items():
            quoted = path.replace("\n", "\\n")
            if mode == SUBMODULE:
                self.parts.append(f'M {mode} {content.decode()} "{quoted}"\n'.encode())
            else:
                self.parts += [f'M {mode} inline "{quoted}"\ndata {len(content)}\n'.encode(), content, b"\n"]
        return self.marks


def _histories(chance: _Chance, writer: _Writer) -> tuple[int, int]:
    """The commits of one pair, and those that they come from; answers their marks."""
    tree = _first(chance)
    base = writer.commit(tree)
    ours, theirs = _changed(chance, tree), _changed(chance, tree)
    shape = chance.random.random()
    if shape < 0.05:
        return writer.commit(ours, base), writer.commit(theirs)
    if shape < 0.1:
        mine = writer.commit(ours, base)
        return mine, writer.commit(_changed(chance, ours), mine)
    one, other = writer.commit(ours, base), writer.commit(theirs, base)
    if shape < 0.3:  # criss-cross: each has merged the other, in its own way
        ours, theirs = _changed(chance, chance.pick([ours, theirs])), _changed(chance, chance.pick([ours, theirs]))
        return writer.commit(ours, one, other), writer.commit(theirs, other, one)
    return one, other


def write(repository: Path, seed: int, numbers: range) -> list[Pair]:
    """Write the pairs with these numbers into a repository; one with the same seed and number is always the same."""
    writer, made = _Writer(), []
    for number in numbers:
        chance = _Chance(f"{seed}-{number}")
        made.append((number, _histories(chance, writer), chance.pick(CONFIGURATIONS)))
    marks = repository / "marks-of-pairs"
    subprocess.run(
        ["git", f"--git-dir={repository}", "fast-import", "--quiet", "--force", f"--export-marks={marks}"],
        input=b"".join(writer.parts),
        check=True,
    )
    shas = dict(line.split() for line in marks.read_text().splitlines())
    return [
        Pair(number, shas[f":{ours}"], shas[f":{theirs}"], configuration)
        for number, (ours, theirs), configuration in made
    ]
