"""The hot routes are those that are declared so, wherever that is."""

from __future__ import annotations

from corral.daemon import nouns


def test_every_route_that_is_declared_hot_is_answered_without_the_framework() -> None:
    hot = [routes for routes in nouns.every() if any(route.hot for route in routes.declared)]
    assert {*hot} == {*nouns.HOT}
    assert sum(route.hot for routes in hot for route in routes.declared) > 10
