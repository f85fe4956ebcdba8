"""What a SIGTERM means: a service manager that restarts the unit leaves what runs to the next daemon, any other ends it."""

from __future__ import annotations

import os
import subprocess

from corral.config import account
from corral.config.paths import Project
from corral.config.service import installed, manager, words
from corral.core import logs

ANSWER_S = 2.0
"""Time limit for the answer of the service manager, seconds; after that the workers are ended."""

log = logs.logger("daemon")


def is_restart(project: Project) -> bool:
    """Whether the service manager is restarting the project's unit, as `systemctl --user restart` does."""
    service, chosen = installed(project, os.environ, account.home()), manager()
    if service is None or not chosen.jobs:
        return False
    try:
        answer = subprocess.run(
            words(chosen.jobs, service), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=ANSWER_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        log.warning("service_manager_not_asked", reason=str(error))
        return False
    return any(line.split()[1:3] == [service.file.name, "restart"] for line in answer.stdout.splitlines())
