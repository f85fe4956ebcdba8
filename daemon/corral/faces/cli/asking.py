"""What a command asks of the daemon: options and arguments that stand for the fields of a request.

What a field is for, its type, its limits and its default stand once, in the model or the signature that the daemon validates by.
Commands may not import that, which would take as long as all they do: ``fields.json`` has what they need of it, written by
``python -m tests.request_fields`` and held against the declarations by a test.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from corral.core.errors import InvalidInput
from corral.faces.cli.parsing import Context, Parameter
from corral.faces.cli.terminal.context import client, session_id
from corral.faces.cli.terminal.options import F, candidates, command, json_object

_KINDS = {"number": float, "integer": int, "boolean": bool}


@functools.cache
def declared() -> dict[str, Any]:
    """By operation the type of its ``answer``, and what it ``takes``, by field: ``about``, ``type``, and where there are any
    ``default``, ``choices``, ``min`` and ``max``, and ``most``, the items of a list."""
    known: dict[str, Any] = json.loads(Path(__file__).with_name("fields.json").read_text("utf-8"))
    return known


class Field:
    """A parameter of a command that stands for a field of a request.

    Args:
        name: The field; ``limits.max_turns`` is one of an object in it.
        words: The flags, and the name of the value on help pages. Without a flag it is an argument.
        of: As in :func:`corral.faces.cli.terminal.options.option`.
        off: What the flag means, where it says that the field is false; without it the field is true.
        also: What the command adds to what is said of the field.
        read: Makes the field's value of what was typed.
        or_file: An object may also be read from a file that is named.
        more: What is a person's alone: ``default``, ``required``, ``show_default``.
    """

    def __init__(
        self,
        name: str,
        *words: str,
        of: str = "",
        off: str = "",
        or_file: bool = False,
        also: str = "",
        read: Callable[[Any], Any] | None = None,
        **more: Any,
    ) -> None:
        self.name, self.of, self.off, self.or_file, self.more = name, of, off, or_file, more
        self.also, self.read = also, read
        self.flags = [word for word in words if word.startswith("-")]
        self.metavar = next((word for word in words if not word.startswith("-")), None)

    def parameter(self, about: dict[str, Any]) -> Parameter:
        """The parameter, as the request's declaration says it."""
        many, kind = about["type"].endswith("[]"), about["type"].removesuffix("[]")
        text = self.off or about["about"]
        if self.or_file:
            text = f"{text.rstrip('.')}, or a file with one."
        if self.also:
            text = f"{text.rstrip('.')}{self.also}."
        if many and self.flags:
            first, stop, others = text.partition(".")
            text = f"{first}; repeatable{stop}{others}"
        if "choices" in about and self.metavar:
            text += f" One of: {', '.join(about['choices'])}."
        parameter = Parameter(
            self.flags,
            help=text,
            metavar=self.metavar,
            min=None if self.read else about.get("min"),
            max=None if self.read else about.get("max"),
            candidates=candidates(self.of),
        )
        parameter.is_argument = not self.flags
        parameter.name, parameter.multiple = self.name, many
        parameter.kind = str if self.read else _KINDS.get(kind, str)
        parameter.words = about.get("choices", ())
        parameter.default = False if self.off else about.get("default")
        parameter.required = about.get("required", False) and not self.off
        vars(parameter).update(self.more)
        return parameter

    def value(self, value: Any, about: dict[str, Any]) -> Any:
        """What the field gets."""
        if self.off:
            return not value
        if self.read:
            try:
                return self.read(value)
            except InvalidInput as error:
                error.message = f"{' '.join(self.flags[:1])} {value!r}: {error.message}".lstrip()
                raise
        return json_object(self.flags[0], value, or_file=self.or_file) if about["type"] == "object" else value


class Request(dict[str, Any]):
    """The body of a request, of GET its query: the fields that the command line has. The others have the daemon's defaults."""

    operation = ""

    def __missing__(self, field: str) -> Any:
        """The default of a field that the command line does not have; it is not sent."""
        return declared()[self.operation]["takes"][field].get("default")

    def send(self, *, timeout_s: float = 30.0, **in_path: str) -> Any:
        """Ask, and return the answer; raises as :meth:`corral.client.connection.Client.request`.

        Args:
            timeout_s: For the answer, seconds.
            in_path: The values in the operation's address.
        """
        from corral.client.connection import segment  # help pages need none

        method, address = self.operation.split(" ")
        path = address.format(**{name: segment(value) for name, value in in_path.items()})
        body = self if self or declared()[self.operation]["takes"] else None
        content: dict[str, Any] = {"query": self} if method == "GET" else {"body": body}
        return client().request(method, path, timeout_s=timeout_s, **content)

    def listing(self, most: int | None = None) -> list[Any]:
        """The first rows of a list, or all of them."""
        return client().listing(self.operation.split(" ")[1], self, most)


class Asks:
    """The operation that a command asks for, and the parameters that are fields of its request.

    The command's function gets the request as ``request``; its own parameters stand before these, or where their names do.

    Args:
        operation: Its method and its address, below ``/api/v1``.
        takes: In the order of the help page.
        by: The field that says which session asks.
    """

    def __init__(self, operation: str, *takes: Field | str, by: str = "") -> None:
        self.operation, self._takes, self._by = operation, takes, by
        self.fields = [field for field in takes if isinstance(field, Field)]

    @property
    def prints(self) -> str:
        """The type of the answer, by name."""
        return str(declared()[self.operation]["answer"])

    def parameters(self, own: Sequence[Parameter]) -> Iterator[Parameter]:
        """All parameters of the command, in their order; ``own``: those that its function declares."""
        yield from (parameter for parameter in own if parameter.name not in self._takes)
        named, known = {parameter.name: parameter for parameter in own}, declared()[self.operation]["takes"]
        yield from (named[take] if isinstance(take, str) else take.parameter(known[take.name]) for take in self._takes)

    def take(self, context: Context) -> Request:
        """Take the fields out of what was read of a command line, and make them a request."""
        request, known = Request(), declared()[self.operation]["takes"]
        request.operation = self.operation
        for field in self.fields:
            value = context.params.pop(field.name)
            about = known[field.name]
            is_sent = field.name in context.on_command_line or "default" in field.more
            if is_sent or (field.off and about.get("default") is not True):
                outer, dot, inner = field.name.rpartition(".")
                part = request.setdefault(outer, {}) if dot else request
                part[inner] = field.value(value, about)
        if self._by:
            request[self._by] = session_id()
        return request


def asks(operation: str, *takes: Field | str, by: str = "", **more: Any) -> Callable[[F], F]:
    """Say of a command that stands in no group which operation it asks for; see :class:`Asks`."""
    return command(asks=Asks(operation, *takes, by=by), **more)
