"""``python -m tests.golden record``, ``compare`` or ``missing``."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import api_story, schema_story
from tests.golden import playing
from tests.golden.asking import Answers
from tests.golden.plain import VARIES, common, differences, plain
from tests.support import programs
from tests.support.coordinated import Coordinated

FILE = Path(__file__).with_name("answers.jsonl")


def played() -> dict[str, Any]:
    """All answers, from repositories of their own."""
    kept: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="corral-golden-", dir="/tmp") as top:
        home = Path(top) / "home"
        home.mkdir()
        os.environ.update(HOME=str(home), EDITOR="true", VISUAL="")
        kept |= _in(Path(top) / "api", playing.ask_by_http, f"{api_story.CONFIG}\ndaemon: {{tcp: true}}")
        kept |= _in(Path(top) / "tools", playing.call_tools, "tasks: {max_retries: 0}")
        kept |= _in(Path(top) / "badly", lambda house, answers: playing.run_badly(house.root, answers), "")
        answers = _answers(Path(top) / "commands")
        schema_story.make_repository(Path(top) / "commands" / "repo")
        playing.play_commands(Path(top) / "commands" / "repo", answers)
        playing.keep_document(answers)
        refusals = _in(Path(top) / "refused", playing.be_refused, api_story.CONFIG)
        kept |= {name: answer for name, answer in {**refusals, **answers.kept}.items() if name not in kept}
    return kept


def _answers(folder: Path) -> Answers:
    slug = re.sub(r"[^a-z0-9]+", "-", f"{folder}/repo".lower()).strip("-")
    folders = {f"{folder}/repo": "<root>", str(folder): "<top>", f"{folder.parent}/home": "<home>"}
    return Answers({**folders, slug: "<slug>", str(Path(__file__).parents[2]): "<source>"})


def _in(folder: Path, play: Any, config: str) -> dict[str, Any]:
    answers = _answers(folder)
    root = folder / "repo"
    schema_story.make_repository(root)
    house = Coordinated(root)
    house.run("init", "--yes", "--no-check", "--verify", "true")
    if config:
        house.configure(config)
    house.run("daemon", "start")
    try:
        play(house, answers)
    finally:
        house.stop()
    return answers.kept


def record() -> int:
    """Play twice, and write what both have in common."""
    one, other = played(), played()
    lines = []
    for name in sorted({*one, *other}):
        answer = common(one.get(name, VARIES), other.get(name, VARIES))
        lines.append(json.dumps([name, answer], ensure_ascii=False, sort_keys=True))
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{len(lines)} answers, {FILE.stat().st_size} bytes")
    return 0


def _recorded() -> dict[str, Any]:
    lines = map(json.loads, FILE.read_text(encoding="utf-8").splitlines())
    return {name: plain(answer, {}) for name, answer in lines}


def missing() -> int:
    """Print what no recorded answer shows; it cannot be provoked cheaply."""
    print("\n".join(playing.not_provoked(_recorded())))
    return 0


def compare() -> int:
    """Play once, and print what is otherwise than recorded."""
    kept, now = _recorded(), played()
    lines: list[str] = []
    for name in sorted({*kept, *now}):
        if name not in now:
            lines += [] if kept[name] == VARIES else [f"{name}: gone"]
        elif name not in kept:
            lines.append(f"{name}: new")
        else:
            lines += differences(kept[name], now[name], name)
    print("\n".join(lines) or "no difference")
    return 1 if lines else 0


if __name__ == "__main__":
    os.environ.clear()  # an answer tells the environment: what is recorded is that of no particular machine
    os.environ.update(PATH=programs.COMMON, LANG="C.UTF-8")
    sys.exit({"record": record, "compare": compare, "missing": missing}[sys.argv[1]]())
