"""Check the files of templates: every error, with its file and line."""

from __future__ import annotations

from pathlib import Path

from corral.config.load import read_file
from corral.work.templates.api import TemplateError
from corral.work.templates.task_template import FILE_NAME, MOST_FILES, SUFFIX, Problem, check


def findings_below(place: Path) -> tuple[list[Path], list[TemplateError]]:
    """The files that were checked, and their errors.

    Args:
        place: A task template's file, or a folder with some; one that is not there has none.
    """
    if not place.exists():
        return [], []
    if not place.is_dir():
        return [place], _findings(place)
    files = sorted(place.glob("*.y*ml"))[:MOST_FILES]
    return files, [finding for file in files for finding in _findings(file)]


def _findings(file: Path) -> list[TemplateError]:
    return [
        {"file": str(file), "line": problem.line, "field": problem.field, "reason": problem.reason}
        for problem in of_task_template(file)
    ]


def of_task_template(file: Path) -> list[Problem]:
    """The errors of one task template's file."""
    name = file.name.removesuffix(SUFFIX)
    if not FILE_NAME.fullmatch(name) or not file.name.endswith(SUFFIX):
        return [Problem(None, "", "the file must be called NAME.yaml, of letters, digits, dots, dashes and `_`")]
    try:
        data = read_file(file)
    except OSError as error:
        return [Problem(None, "", f"cannot be read: {error.strerror or error}")]
    return check(data, name)[1] if data is not None else [Problem(None, "", "leads nowhere")]
