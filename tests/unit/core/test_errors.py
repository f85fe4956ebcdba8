"""An error is the same on both sides of the socket."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterator

import corral
from corral.core.errors import BY_CODE, CorralError, from_wire


def _every(cls: type[CorralError]) -> Iterator[type[CorralError]]:
    yield cls
    for below in cls.__subclasses__():
        yield from _every(below)


def test_every_error_comes_out_of_the_socket_as_it_went_in() -> None:
    for module in pkgutil.walk_packages(corral.__path__, "corral."):
        if not module.name.endswith("__main__") and ".migrations." not in module.name:
            importlib.import_module(module.name)
    known = [cls for cls in _every(CorralError) if cls.__module__.startswith("corral.")]
    assert {"recipient_not_found", "idempotency_key_conflict", "lock_held"} <= {cls.name for cls in known}
    for cls in known:
        sent = cls("What happened.", details={"n": 1}).to_wire()
        got = from_wire(sent)
        assert got.to_wire() == sent, cls
        assert got.exit_code == cls.exit_code, f"{cls.__name__} needs a code of its own"
        assert isinstance(got, BY_CODE[cls.code])


def test_an_error_of_a_newer_daemon_is_shown_as_it_came() -> None:
    error = {"code": "CORRAL-ERR-999", "name": "too_new", "message": "m", "cause": "c", "remedy": "r", "details": {}}
    assert from_wire({"error": error}).to_wire() == {"error": error}
    assert from_wire({}).to_wire()["error"]["name"] == "internal_error"
