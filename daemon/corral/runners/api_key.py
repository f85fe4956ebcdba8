"""The key for the Messages API as the daemon uses it: looked up when a worker needs it, and remembered for a short while."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from corral.config.keys.lookup import ApiKey, places_of
from corral.config.paths import Project
from corral.core.errors import ApiKeyUnavailable
from corral.core.redaction import remember_secret
from corral.git.checkouts.ignored import is_tracked

REMEMBERED_S = 30.0
"""Seconds for which an answer is reused: a keychain answers slowly, and a missing one is slower still."""


class ApiKeyHolder:
    """Finds the key; threads that ask at the same time share one lookup. Every key is redacted in logs and answers.

    Args:
        environ: The daemon's environment.
        clock: Gives the present instant.
    """

    def __init__(self, project: Project, environ: Mapping[str, str], clock: Callable[[], datetime]) -> None:
        self._places = places_of(project, environ, is_tracked)
        self._clock = clock
        self._guard = threading.Lock()
        self._answer: ApiKey | ApiKeyUnavailable | None = None
        self._good_until: datetime | None = None

    def find(self) -> ApiKey | None:
        """The key; None if there is none. Asks the keychain, so it may take ten seconds.

        Raises:
            ApiKeyUnavailable: A place that has, or may have, the key cannot be used.
        """
        with self._guard:
            if self._good_until is None or self._clock() >= self._good_until:
                self._answer = self._look_up()
                self._good_until = self._clock() + timedelta(seconds=REMEMBERED_S)
            answer = self._answer
        if isinstance(answer, ApiKeyUnavailable):
            raise answer
        return answer

    def value(self) -> str | None:
        """The key's text; raises as :meth:`find` does."""
        key = self.find()
        return key.value if key is not None else None

    def forget(self) -> None:
        """Make the next use look the key up again."""
        with self._guard:
            self._good_until = None

    def _look_up(self) -> ApiKey | ApiKeyUnavailable | None:
        try:
            key = self._places.find()
        except ApiKeyUnavailable as error:
            return error
        if key is not None:
            remember_secret(key.value)
        return key
