"""The parameters of a task template, and the values that a submission gives them."""

from __future__ import annotations

import json
import math
import re
import shlex
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, model_validator

from corral.config.document import shown
from corral.work.templates.substitution import Value, as_text

MOST_ITEMS = 1000
"""Items of a list."""


class Parameter(BaseModel):
    """One parameter of a template; without a default it is required."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    type: Literal["string", "integer", "number", "boolean", "list"] = "string"
    description: str = ""
    default: Any = None
    choices: Annotated[list[Any], Field(min_length=1)] | None = None

    @property
    def required(self) -> bool:
        """Whether a submission must name it."""
        return "default" not in self.model_fields_set

    @property
    def is_plain(self) -> bool:
        """Whether each of its values means nothing to a shell."""
        texts = self.choices or [" "]
        return self.type not in ("string", "list") or all(shlex.quote(str(text)) == str(text) for text in texts)

    @model_validator(mode="after")
    def _fits_itself(self) -> Parameter:
        item_type = "string" if self.type == "list" else self.type
        for choice in self.choices or ():
            typed(self.model_copy(update={"choices": None, "type": item_type}), choice, is_exact=True)
        if not self.required:
            typed(self, self.default, is_exact=True)
        return self


def typed(parameter: Parameter, raw: Any, *, is_exact: bool = False) -> Value:
    """The value of a parameter.

    Args:
        raw: A value of its type, or a text that means one.
        is_exact: Whether a text counts as a text alone.

    Raises:
        ValueError: It is no value of this parameter; the message begins with a verb.
    """
    if parameter.type == "list":
        of_item = parameter.model_copy(update={"type": "string"})
        return [str(typed(of_item, item)) for item in items_of(raw, is_exact=is_exact)]
    value = raw if is_exact or parameter.type == "string" or not isinstance(raw, str) else _parsed(raw)
    fits = {
        "string": isinstance(value, str),
        "integer": isinstance(value, int) and not isinstance(value, bool),
        "number": isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value),
        "boolean": isinstance(value, bool),
    }[parameter.type]
    if not fits:
        raise ValueError(f"must be of type {parameter.type} (it is {shown(raw)})")
    if isinstance(value, str) and ("\0" in value or not _is_unicode(value)):
        raise ValueError("has a character that no command can have")
    if parameter.choices is not None and value not in parameter.choices:
        raise ValueError(f"must be one of {', '.join(map(str, parameter.choices))} (it is {shown(raw)})")
    return value  # type: ignore[no-any-return]


def items_of(raw: Any, *, is_exact: bool = True) -> list[str]:
    """The items of a list, as texts.

    Args:
        raw: A list of texts, numbers and truth values, or a text that means one: JSON, or items between commas.
        is_exact: Whether a text is no list.

    Raises:
        ValueError: It is no such list, or too long; the message begins with a verb.
    """
    if isinstance(raw, str) and not is_exact:
        raw = _listed(raw.strip())
    if not isinstance(raw, list) or not all(isinstance(item, (str, int, float)) for item in raw):
        raise ValueError(f"must be a list of texts (it is {shown(raw)})")
    if len(raw) > MOST_ITEMS:
        raise ValueError(f"must have at most {MOST_ITEMS} items (it has {len(raw)})")
    return [as_text(item) for item in raw]


def _listed(text: str) -> Any:
    if text.startswith("["):
        try:
            return json.loads(text)
        except ValueError:
            return text
    return [part.strip() for part in text.split(",") if part.strip()]


def _parsed(text: str) -> Any:
    text = text.strip()
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if re.fullmatch(r"[-+]?[0-9]{1,18}", text) else float(text)
    except ValueError:
        return text


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
