"""Who asks, where the process at the other end shows it, and where it does not."""

from __future__ import annotations

import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from corral.coordination.caller_process import Peer, process_of
from corral.core.routing import PEER, Caller

PROJECT: Any = SimpleNamespace(root=Path("/repo"))


def asked_by(environ: dict[str, str] | Exception, monkeypatch: pytest.MonkeyPatch) -> Caller:
    """The kind of the caller, if the process at the other end of a real socket has this environment."""

    def read(process: psutil.Process) -> dict[str, str]:
        if process.pid != os.getpid():
            return {}
        if isinstance(environ, Exception):
            raise environ
        return environ

    monkeypatch.setattr(psutil.Process, "environ", read)
    one, other = socket.socketpair()
    with one, other:
        return process_of(PROJECT, "an-id", {PEER: Peer(SimpleNamespace(get_extra_info=lambda _name: one))}).kind


@pytest.mark.parametrize(
    ("environ", "caller"),
    [
        ({"HOME": "/root"}, Caller.PERSON),
        ({"CLAUDECODE": "1"}, Caller.SESSION),
        ({"CORRAL_TASK_ID": "0b6f"}, Caller.SESSION),
        ({"CORRAL_PROJECT": "/repo", "CORRAL_TASK_ID": "0b6f"}, Caller.WORK),
        (psutil.AccessDenied(1), Caller.WORK),
        (psutil.NoSuchProcess(1), Caller.WORK),
    ],
)
def test_who_cannot_be_looked_at_is_no_person(
    environ: dict[str, str] | Exception, caller: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert asked_by(environ, monkeypatch) is caller
