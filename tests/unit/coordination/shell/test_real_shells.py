"""What real shells run is what was read: odd commands that people and agents type, with a ``git`` that records its calls."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from corral.coordination.shell.danger import calls
from corral.coordination.shell.lexer import Word, read
from corral.coordination.shell.reading import is_read_only
from tests.support.programs import requires

# One write for each call: two that run at once must not mix.
RECORDER = """#!/bin/sh
call= end=$(printf '\\036')
for argument do call=$call$argument$end; done
printf '%s\\035' "$call" >> "$RECORD"
"""
ANY_SHELL = [
    'git commit -m "it\'s (done) [x] {y} & z | w ; v" && git push',
    "cat > a.txt <<'EOF'\nwith `git no` and $(git no)\nEOF\ngit add a.txt",
    "cat <<EOF | tee out.txt\n$(git log -1)\nEOF",
    "cat <<A <<B\nfirst\nA\nsecond\nB\ngit status",
    "cat <<EOF; git a\nbody\nEOF\ngit b",
    "cat <<EOF > out.txt && git a\nbody\nEOF",
    "cat <<-EOF\n\tgit no\n\tEOF\ngit a",
    'cat <<"E F"\ngit no\nE F\ngit a',
    "cat <<\\EOF\n$(git no)\nEOF\ngit a",
    "cat <<EOF\n'$(git q)' \\$(git no) \\`git no\\`\nEOF",
    "cat <<'EOF' | sh\ngit a\nEOF",
    "git commit -F - <<'EOF'\nSubject (with parens) & 'quotes\n\n- `x`\nEOF",
    "git commit -m \"$(cat <<'EOF'\nfix: don't (break\n\nEOF\n)\"",
    "x=1\ny=2\nz=$(git c) git d",
    "case $x in a|b) git no;; *) git rest;; esac; git after",
    'case "$x" in\n  (a) git no ;;\n  "") git no ;;\n  *) git other ;;\nesac',
    "echo $(case x in x) git inside ;; esac); git after",
    "case a in a) case b in b) (git inner) ;; esac ;; esac; git outer",
    "if true; then case x in x) git deep;; esac; fi",
    "echo ${x:-'}'}; git a",
    'echo ${x-"a}b"}; git a',
    "git ${none:-'a b'} $(git c)",
    "git a 3<>x.txt",
    "git a >b.out<a.txt 2>&1",
    "2>err.txt git first",
    "git a 2 >x.out",
    "git a2>x.out",
    "echo $(( 1 << 2 )) $((1 + $(echo 1))); git after",
    "echo $( (git a); git b )",
    "( (git a) )",
    "echo `git a \\`git b\\``",
    'echo "a $(echo "b $(git c)") d"; git e',
    "echo '$(git no)' \"\\$(git no)\" \\$\\(git no\\); git a",
    "! { git a; }",
    "! git a | cat",
    "{ git a; git b; } > out.txt 2>&1",
    "f() { git in_function; }; f",
    "f () ( git in_subshell; ); f",
    "for f in a 'b c'; do git add \"$f\"; done",
    "for f in $(git ls); do :; done",
    "until git a; do break; done",
    "git \\\n  a \\\n  b",
    "git a#b; git c # git no",
    "# it's a comment\ngit a",
    "g'i't a\\ b 'c d' \"e f\"g 'it'\\''s'",
    'git "\\"q\\" \\$x \\\\ \\a"',
    "git HEAD^ 'HEAD^{tree}' '@{u}' a..b :/x ~/x a~b %b +c ,d =f",
    "git é ünï 日本 🎉 {𱡀",
    "git a && { git b || git no; } ; git d",
    "git a |\n cat &&\n\n git b",
    "git a &\n git b; wait",
    'set -- a b; git $1 "$@" $#',
    "eval git '$x' a; eval \"git b\"",
    "trap 'git a' EXIT",
    "sh -c 'git a \"$1\"' _ b",
    "find . -name '*.txt' -exec git add {} + -exec git one {} \\;",
    "echo a | xargs git",
    "env A=1 git a; command git b; nohup git c > /dev/null; timeout 5 git d",
    "git [ a ] if then fi } !a ! do done",
]
BASH_ONLY = [
    'git $"a"',
    "git $'a\\tb\\x41\\101\\u00e9\\n' $'it\\'s'",
    "git b {fd}>out.txt",
    "cat < <(git a)",
    'mapfile -t xs < <(git a); git b "${xs[@]}"',
    "echo x > >(git c > /dev/null; cat)\nwait",
    "diff <(git a) <(git b)",
    "git a |& cat",
    "git a &>out.txt; git b &>>out.txt",
    "bash <<< 'git a'",
    '[[ "a b" == a* && -d . ]] && git a',
    "[[ a =~ ^(a|b)$ ]] && git regex",
    "x=(a $(git b) c); git d",
    "declare -A m=([a]=1 [b]=$(git c)); git d",
    "for ((i=0; i<2; i++)); do git $i; done",
    "function g() { git in_function; }; g",
    "coproc git a\nwait",
    "git a{b,c} {1..3}",
    "case x in x) git one;;& *) git two;& y) git three;; esac",
    "echo $((git a); git b)",
    "((git a); git b)",
]
CASES = [
    pytest.param(shell, command, marks=requires(shell))
    for shell, commands in (("bash", ANY_SHELL + BASH_ONLY), ("dash", ANY_SHELL))
    for command in commands
]


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def stands_for(words: Sequence[Word], arguments: Sequence[str]) -> bool:
    """Whether a call that was read may be one that was made: what the shell expands may have become any number of words."""
    if not words:
        return not arguments
    first, *rest = words
    if first.expands or first.globs or first.text in ("{}", "~/x"):
        return any(stands_for(rest, arguments[count:]) for count in range(len(arguments) + 1))
    return bool(arguments) and arguments[0] == first.text and stands_for(rest, arguments[1:])


@pytest.mark.parametrize(("shell", "command"), CASES)
def test_each_call_that_a_real_shell_makes_was_read(shell: str, command: str, tmp_path: Path) -> None:
    folder, tools, record = tmp_path / "work", tmp_path / "bin", tmp_path / "record"
    folder.mkdir()
    tools.mkdir()
    (folder / "a.txt").write_text("x\n")
    (tools / "git").write_text(RECORDER)
    (tools / "git").chmod(0o755)
    env = {
        "PATH": f"{tools}:{os.environ['PATH']}",
        "HOME": str(tmp_path),
        "RECORD": str(record),
        "x": "X",
        "LC_ALL": "C.UTF-8",
    }
    before = files(folder)
    subprocess.run(
        [shell, "-c", command],
        cwd=folder,
        env=env,
        capture_output=True,
        stdin=subprocess.DEVNULL,
        timeout=30,
        check=False,
    )
    made = [call.split("\x1e")[:-1] for call in record.read_text().split("\x1d")[:-1]]
    were_read = [call.words[1:] for call in calls(command, folder) if call.name == "git"]
    assert made and "no" not in [call[0] for call in made]
    for call in made:
        assert any(stands_for(words, call) for words in were_read), (call, were_read)
    assert files(folder) == before or not is_read_only(command)
    if "<<EOF" not in command:  # data with a `git no` in it is no call
        untaken = "git no;;" in command or "git no ;;" in command or "|| git no" in command
        assert untaken or not any(words[:1] and words[0].text == "no" for words in were_read)


@pytest.mark.parametrize("command", [command for command in ANY_SHELL if "case" in command or "${" in command])
def test_it_is_read_to_its_end(command: str) -> None:
    assert not read(command).broken


@pytest.mark.parametrize("command", ["case x in x) ls", "echo $(case x in x) ls)", "cat < <(ls"])
def test_what_has_no_end_is_broken(command: str) -> None:
    assert read(command).broken
