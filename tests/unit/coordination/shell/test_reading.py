"""Which shell commands certainly change nothing."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.coordination.shell.reading import is_read_only
from tests.support.programs import requires

READS = [
    "ls",
    "ls -la src *.py",
    "cat a b",
    "cat a | grep -n x | head -5",
    "cd src && ls",
    "pwd; date; true",
    "grep -rn 'git stash' . || true",
    "rg -n pattern src",
    "find . -name '*.py' -type f",
    "find . -maxdepth 2 | wc -l",
    "echo hello $HOME",
    "printf '%s\\n' x",
    "git status",
    "git -C sub status --short",
    "git --no-pager log --oneline -5",
    "git diff HEAD -- src/a.py",
    "git show HEAD:src/a.py",
    "git branch --list",
    "git branch",
    "git branch -a",
    "git branch --show-current",
    "git branch --merged main",
    "git branch --list 'x*'",
    "git rev-parse HEAD",
    "git ls-files | sort | uniq -c",
    "git blame a.py",
    "git stash list",
    "git worktree list",
    "git remote -v",
    "which python; type ls",
    "stat a; file a; du -sh .; df -h",
    "test -f a && echo yes",
    "[ -d src ]",
    "sort -u a | uniq",
    "cut -d: -f1 a | tr a b",
    "jq .x a.json",
    "sed -n '1,50p' a",
    "sed -n 10p a",
    "sed 's/a/b/g' a",
    "sed -n -e '/x/,/y/p' a",
    "sed -E 's|a|b|' a | cat",
    "python -V",
    "python3 --version",
    "node --version",
    "ls 2>/dev/null",
    "ls >/dev/null 2>&1",
    "ls 2>&1 | head",
    "cat < a",
    "cat <<'EOF'\nx > y\nEOF",
    "(ls; pwd)",
    "ls & pwd",
    "date +%s",
    "ls # > x",
    "echo 'a > b; rm x'",
]
UNCERTAIN = [
    "",
    "# nothing",
    "rm a",
    "touch a",
    "echo x > a",
    "echo x >> a",
    "ls >| a",
    "ls &> a",
    "ls >& a",
    "cat <> a",
    "ls 2> a",
    "ls > $X",
    "ls | tee a",
    "cat a > /dev/null2",
    "echo $(rm a)",
    'echo "$(ls)"',
    "echo `ls`",
    "cat <(ls)",
    "cat <<EOF\n$(rm a)\nEOF",
    "find . -delete",
    "find . -exec rm {} \\;",
    "find . -execdir ls \\;",
    "find . -fprint a",
    "find . -fls a",
    "find $X",
    "find *",
    "sort -o a b",
    "sort -ua -ob b",
    "sort --output=a b",
    "sort --out=a b",
    "sort --compress-program=x a",
    "sort {-o,a} b",
    "uniq a b",
    "sed -i s/a/b/ f",
    "sed -n -i p f",
    "sed p -i f",
    "sed --in-place p f",
    "sed 'w out' f",
    "sed 's/a/b/w out' f",
    "sed 's/a/touch x/e' f",
    "sed '1e touch x' f",
    "sed -f script f",
    "sed -n '1p;w out' f",
    "sed",
    "git stash",
    "git add a",
    "git commit -m x",
    "git checkout a",
    "git branch new",
    "git branch -d x",
    "git branch -f x y",
    "git branch -v -D x",
    "git branch --list --edit-description",
    "git branch --unset-upstream",
    "git diff --output=a",
    "git diff --ext-diff",
    "git log --output a",
    "git grep -Oless x",
    "git -c core.pager=x log",
    "git remote add x y",
    "git stash list; git stash",
    "git worktree add x",
    "git",
    "git -C",
    "git fetch",
    "rg --pre x y",
    "date -s now",
    "date 010100002000",
    "file -C -m x",
    "printf -v 'a[$(touch x)]' y",
    "test -v 'a[$(touch x)]'",
    "python x.py",
    "python -c 1",
    "python -V x",
    "./ls",
    "/tmp/ls",
    "$X",
    "PATH=. ls",
    "X=1",
    "env ls",
    "xargs ls",
    "eval ls",
    "sudo ls",
    "awk 1 a",
    "ls() { rm a; }; ls",
    "if ls; then rm a; fi",
    "for f in *; do rm $f; done",
    "ls; rm a",
    "ls && make",
    "ls | sh",
    "ls\nrm a",
    "exec ls",
    ". ./x",
    "cat 'unclosed",
    "cat <<EOF\nno end",
    "ls )",
    "(ls",
    "> a",
    "ls >",
    "cat" + " a" * 40_000,
]


@pytest.mark.parametrize("command", READS)
def test_it_certainly_only_reads(command: str) -> None:
    assert is_read_only(command)


@pytest.mark.parametrize("command", UNCERTAIN)
def test_it_is_not_certain(command: str) -> None:
    assert not is_read_only(command)


def state(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and ".git" not in path.relative_to(root).parts
    }


@requires("bash")
def test_the_real_shell_agrees(repo: Path) -> None:
    for name in ("a", "b", "a.json"):
        (repo / name).write_text("{}\n")
    before = state(repo)
    for command in READS:
        subprocess.run(
            ["bash", "-c", command], cwd=repo, env=dict(os.environ), capture_output=True, timeout=30, check=False
        )
        assert state(repo) == before, command
