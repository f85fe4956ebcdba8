"""The values of a task template's parameters, as a person types them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from corral.core.errors import InvalidInput


def with_parameters(
    input_data: dict[str, Any] | None, typed: Sequence[str], template: str | None
) -> dict[str, Any] | None:
    """The input of a task with the values that ``--set`` gives; those win.

    Args:
        typed: ``NAME=VALUE`` each; the daemon reads a value by the parameter's type.

    Raises:
        InvalidInput: One has no ``=`` or no name, is given twice, or there is no template.
    """
    if not typed:
        return input_data
    if template is None:
        raise InvalidInput("--set needs --template.", remedy="Name a template: `corral template list`.")
    named: dict[str, Any] = {}
    for assignment in typed:
        name, equals, value = assignment.partition("=")
        if not equals or not name:
            raise InvalidInput(f"{assignment!r} does not set a parameter.", remedy="Write --set NAME=VALUE.")
        if name in named:
            raise InvalidInput(f"The parameter {name!r} is set twice.", remedy="Set it once.")
        named[name] = value
    return {**(input_data or {}), **named}
