"""A file of tasks: read as the JSON that it means, whatever else YAML can say, and however few lines can mean gigabytes."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from corral.core.errors import InvalidInput

MOST_VALUES = 1_000_000
"""Values in a file, each alias counted with all that it stands for."""


_TIMESTAMP = "tag:yaml.org,2002:timestamp"
_NOTHING_SUBMITTED = "Correct the file; nothing was submitted."


def read_batch(file: Path) -> list[Any]:
    """The entries of a file of tasks, not validated: its list, or the one below ``tasks``. A date is the text that it is.

    Raises:
        InvalidInput: It cannot be read, has no list of tasks, or has values that no JSON has.
    """
    try:
        content = _loaded(file)
        size = count_values(content)
        if size > MOST_VALUES:
            raise InvalidInput(
                f"{file} means more than {MOST_VALUES:,} values once its aliases are written out.",
                remedy="Use fewer aliases; nothing was submitted.",
            )
        items = content.get("tasks") if isinstance(content, dict) else content
        if not isinstance(items, list) or not items:
            raise InvalidInput(
                f"{file} contains no list of tasks.", remedy="Write a list of {title, command or prompt, …}."
            )
        json.dumps(items, allow_nan=False)
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(f"Cannot read {file}.", cause=str(error), remedy="Name a readable file.") from error
    except RecursionError as error:
        raise InvalidInput(f"{file} is nested too deeply.", remedy=_NOTHING_SUBMITTED) from error
    except (TypeError, ValueError) as error:
        raise InvalidInput(
            f"{file} has a value that JSON cannot express.", cause=str(error), remedy=_NOTHING_SUBMITTED
        ) from error
    return items


def _loaded(file: Path) -> Any:
    import yaml  # few commands need it

    class Loader(yaml.SafeLoader):
        """Knows no dates: JSON has none."""

    Loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in known if tag != _TIMESTAMP]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    try:
        return yaml.load(file.read_text(encoding="utf-8"), Loader)
    except yaml.YAMLError as error:
        raise InvalidInput(f"{file} is not YAML or JSON.", cause=str(error), remedy=_NOTHING_SUBMITTED) from error


def count_values(value: Any, known: dict[int, float] | None = None) -> float:
    """The number of values with all aliases written out; infinite where one contains itself. Takes time for the file alone."""
    known = {} if known is None else known
    if not isinstance(value, (dict, list)):
        return 1
    if id(value) not in known:
        known[id(value)] = math.inf  # as long as it is being counted: what contains itself has no end
        parts = value.values() if isinstance(value, dict) else value
        known[id(value)] = 1 + sum(count_values(part, known) for part in parts)
    return known[id(value)]
