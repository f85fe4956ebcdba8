"""The hot routes are those that are declared so, wherever that is."""

from __future__ import annotations

import importlib
import pkgutil

from corral.server.http import fast_path, routes
from corral.server.http.routing import Routes


def test_every_route_that_is_declared_hot_is_answered_without_the_framework() -> None:
    declared = set()
    for module in pkgutil.walk_packages(routes.__path__, f"{routes.__name__}."):
        router = getattr(importlib.import_module(module.name), "router", None)
        if isinstance(router, Routes):
            declared |= {route.answer for route in router.declared if route.hot}
    assert declared == {call.answer for call in fast_path.CALLS}
    assert len(declared) > 10
