"""The process that asks the keychain: one request as JSON on standard input, one answer on standard output.

Only backends that ``keyring`` recommends are used: others keep the key in a readable file.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SERVICE = "corral"
ACCOUNT = "anthropic-api-key"


def main() -> None:
    """Answer the request."""
    out = os.dup(1)
    os.dup2(2, 1)  # a backend that prints must not spoil the answer
    answer = _answer(json.load(sys.stdin))
    os.write(out, json.dumps(answer).encode())


def _answer(request: dict[str, str]) -> dict[str, Any]:
    import keyring
    from keyring.core import init_backend, recommended
    from keyring.errors import KeyringLocked, NoKeyringError

    key, account = request.get("key", ""), request.get("account", ACCOUNT)
    try:
        init_backend(limit=recommended)
        if not recommended(keyring.get_keyring()):
            return {"problem": "none"}
        if request["do"] == "set":
            keyring.set_password(SERVICE, account, key)
            return {}
        stored = keyring.get_password(SERVICE, account)
        if request["do"] == "delete" and stored is not None:
            keyring.delete_password(SERVICE, account)
        return {"key": stored} if request["do"] == "get" else {"deleted": stored is not None}
    except NoKeyringError:
        return {"problem": "none"}
    except Exception as error:  # noqa: BLE001 - the edge of this process: a backend raises anything
        why = f"{type(error).__name__}: {error}"
        problem = "locked" if isinstance(error, KeyringLocked) else "failed"
        return {"problem": problem, "why": why.replace(key, "[redacted]") if key else why}
