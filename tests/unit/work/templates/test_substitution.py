"""A value stays one word of a command, whatever it contains, wherever a placeholder is accepted; real shells decide."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from corral.work.templates.substitution import as_word, broken_in, names_in, substituted, unsafe_places
from tests.support.programs import requires

HOSTILE = (
    "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", '"; touch pwned; "', "\\'; touch pwned; #", "a\nb; touch pwned",
    "\n touch pwned #", "${X:-$(touch pwned)}", "{{ X }}", "", " two  words ", "*", "~", "-n", "!!", "a\\", "ä\t'\"`$",
)  # fmt: skip
SAFE = [
    "printf %s {{ X }} > out",
    'x={{ X }}\nprintf %s "$x" > out',
    "printf %s pre{{ X }}post > out # a comment's \"quote",
    "printf %s \"$(printf %s 'a b' >/dev/null)\" >/dev/null; true",
    'x=$(printf %s {{ X }}; printf .); printf %s "${x%.}" > out',
    "case {{ X }} in a) : ;; *) printf %s {{X}} > out ;; esac",
    "cat > out <<'EOF'\nnothing\nEOF\n",
    "if [ -n x ]; then\n  # it's fine\n  printf %s {{ X }} > out\nfi",
    'printf %s "${HOME}" >/dev/null; printf %s {{ X }} > out',
]
UNSAFE = {
    'echo "{{ X }}"': "within double quotes",
    "echo '{{ X }}'": "within single quotes",
    "true # {{ X }}": "within a comment",
    "echo `echo {{ X }}`": "after a backtick",
    "cat <<EOF\n{{ X }}\nEOF": "in or after a here-document",
    "cat <<-EOF\n\tx\n\tEOF\necho {{ X }}": "in or after a here-document",
    "echo \\{{ X }}": "behind a backslash",
    "echo ${{ X }}": "behind `$`",
    "echo $(( {{ X }} ))": "in or after arithmetic",
    "echo ${Y:-{{ X }}}": "within or after `${…}`",
    'echo "$(case a in a) echo "{{ X }}" ;; esac)"': "after a substitution within quotes",
    "echo $'a' {{ X }}": "after `$'`",
    'echo "a\\"{{ X }}"': "within double quotes",
}
SHELLS = ["sh", *(pytest.param(shell, marks=requires(shell)) for shell in ("dash", "bash", "busybox"))]


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("command", SAFE)
def test_where_a_placeholder_is_accepted_every_value_stays_one_word(command: str, shell: str, tmp_path: Path) -> None:
    assert unsafe_places(command) == []
    program = [shell, "sh"] if shell == "busybox" else [shell]
    for value in HOSTILE if "X" in names_in(command) else HOSTILE[:1]:
        (tmp_path / "out").unlink(missing_ok=True)
        text = substituted(command, {"X": value}, as_word)
        subprocess.run(
            [*program, "-c", text], cwd=tmp_path, check=True, timeout=20, env={"HOME": "/h", "PATH": os.environ["PATH"]}
        )
        assert [file.name for file in tmp_path.iterdir()] in ([], ["out"]), (command, value)
        if "X" in names_in(command):
            expected = f"pre{value}post" if "pre{{" in command else value
            assert (tmp_path / "out").read_bytes() == expected.encode(), (command, value)


@pytest.mark.parametrize(("command", "where"), UNSAFE.items())
def test_a_place_where_quotes_would_not_protect_is_found(command: str, where: str) -> None:
    (place,) = unsafe_places(command)
    assert (place.name, place.where) == ("X", where)
    assert place.line == command[: command.index("{{ X")].count("\n")


def test_a_placeholder_is_a_name_and_nothing_else() -> None:
    text = "a {{ X }} b {{Y}} c {{{{ d }} {{ X + 1 }} {{ }} {{"
    assert names_in(text) == {"X", "Y"}
    assert [place.text for place in broken_in(text)] == ["{{ X + 1 }} {{ }} {{", "{{ }} {{", "{{"]
    with pytest.raises(ValueError, match="must be followed by the name"):
        substituted(text, {"X": 1, "Y": 2})
    assert substituted("{{ X }}{{{{{{ Y }}", {"X": "{{ Y }}", "Y": True}) == "{{ Y }}{{true"
    with pytest.raises(KeyError):
        substituted("{{ Z }}", {"X": 1})
    assert substituted("{{ X }} {{ Y }}", {"X": -5, "Y": 1.5}, as_word) == "-5 1.5"
