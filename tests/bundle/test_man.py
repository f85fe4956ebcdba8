"""Manual pages: one for each command, with what its help says, and accepted by the programs that read them."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from corral.faces.cli.app import app, run
from corral.faces.cli.help import pages
from corral.faces.cli.program.man import MARK, page_of
from tests.support.programs import requires


@pytest.mark.req("NFR-USE-004", "FR-CLI-002")
def test_every_command_has_a_manual_page_with_what_its_help_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["man", "--write", str(tmp_path / "man1"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["name"] for row in rows] == ["corral", *("-".join(["corral", *name.split()]) for name in pages())]
    assert {row["file"] for row in rows} == {str(file) for file in (tmp_path / "man1").iterdir()}
    for name, page in pages().items():
        text = (tmp_path / "man1" / f"corral-{name.replace(' ', '-')}.1").read_text()
        plain = text.replace("\\-", "-").replace("\\e", "\\")
        for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXAMPLES", "EXIT STATUS", "SEE ALSO"):
            assert f"\n.SH {heading}\n" in text or (heading == "EXAMPLES" and not page["examples"]), (name, heading)
        assert all(f"corral {example}\n" in plain for example in page["examples"]), name
        also = plain.partition(".SH SEE ALSO")[2]
        assert all(f".BR corral-{command.replace(' ', '-')} (1)" in also for command in page["related"]), name
        assert all(
            line.startswith((MARK, ".TH", ".SH", ".TP", ".PP", ".B", ".nf", ".fi"))
            for line in text.splitlines()
            if line[:1] == "."
        )
    top = (tmp_path / "man1" / "corral.1").read_text()
    assert (
        ".SH ENVIRONMENT" in top
        and ".SH COMMANDS: Every day" in top
        and "(1) ,\n.BR" not in top.partition(".SH SEE")[0]
    )
    text = page_of(app, "task submit")
    assert "\\fB\\-t, \\-\\-title TEXT\\fR\nTitle; also the commit's subject (default: the template's)." in text


@requires("groff", "preconv", "troff", "grotty")
def test_the_reader_of_manuals_complains_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["task", "submit"], ["config", "set"]):
        assert run(["man", *words]) == 0
        text = capsys.readouterr().out
        done = subprocess.run(
            ["groff", "-man", "-Tutf8", "-k", "-ww"], input=text, capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        shown = re.sub(r"\x1b\[[\d;]*m|.\x08", "", done.stdout)
        assert f"corral {' '.join(words)}".strip() in shown and "--verbose" in shown
