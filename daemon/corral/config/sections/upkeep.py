"""The daemon, its log, and how long data is kept."""

from __future__ import annotations

from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from corral.config.sections.values import Address, Days, Section, expanded, upper


class Logs(Section):
    """The daemon's log, `.corral/logs/corral.log`."""

    level: Annotated[Literal["DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"], BeforeValidator(upper)] = Field(
        default="INFO", description="Lowest level that is written."
    )
    keep_days: int = Field(default=30, ge=1, le=3650, description="Days after which a day's log is deleted.")


class Templates(Section):
    """Templates that `corral init --template` and `corral template update` fetch."""

    cache_days: float = Field(
        default=7,
        ge=0,
        le=3650,
        description="Days for which a fetched version is used without a look at its repository.",
    )
    allowed_signers: Annotated[str, Field(min_length=1), AfterValidator(expanded)] | None = Field(
        default=None,
        description="File of allowed signers (SSH keys): only versions that one of them signed are accepted; null: not checked.",
    )


class Salvage(Section):
    """What is saved of worktrees, so that it can be recovered."""

    ignored_mb: int = Field(
        default=64,
        ge=0,
        le=2048,
        description="MB of files that git ignores, up to which they are saved with a worktree, the smallest first; 0: none.",
    )


class Retention(Section):
    """How long finished data is kept. Open or unread data, tasks, merges, handoffs and unlanded work always stay."""

    events_days: Days = Field(default=30, description="Days after which an event is deleted; null: never.")
    notices_days: Days = Field(default=7, description="Days after which a delivered notice is deleted; null: never.")
    alerts_days: Days = Field(default=90, description="Days after which a resolved alert is deleted; null: never.")
    deliveries_days: Days = Field(
        default=7, description="Days after which a webhook delivery that is over is deleted; null: never."
    )
    messages_days: Days = Field(
        default=90, description="Days after which mail that every recipient has read is deleted; null: never."
    )
    sessions_days: Days = Field(
        default=30, description="Days after which an ended session without a handoff is deleted; null: never."
    )
    attempts_days: Days = Field(
        default=90,
        description="Days after which an attempt at a settled task, but its newest, is deleted; null: never.",
    )
    audit_days: Days = Field(default=90, description="Days after which a line of the audit is deleted; null: never.")
    worktrees_days: Days = Field(
        default=30, description="Days after which the row of a removed worktree is deleted; null: never."
    )
    receipts_days: Days = Field(
        default=90,
        description="Days after which a receipt of no open or landed merge is deleted; null: never.",
    )
    logs_days: Days = Field(
        default=30, description="Days after which a log of a task, merge or worktree is deleted; null: never."
    )
    logs_mb: int = Field(
        default=1000, ge=1, description="Total size of those logs in MB; beyond it the oldest are deleted."
    )
    disk_mb: int = Field(
        default=2000,
        ge=10,
        description="Size of the database, logs and exports in MB; beyond it logs of landed work go before their age, then "
        "other logs of finished work, then events older than a day.",
    )
    salvage_days: Days = Field(
        default=30, description="Days after which saved work that a branch or tag contains is deleted; null: never."
    )
    landed_days: Days = Field(
        default=30,
        description="Days for which a ref keeps what landed, and what a rewound branch lost once a person has accepted "
        "that; null: for ever.",
    )
    backups_days: Days = Field(
        default=30, description="Days after which the database copy from before an upgrade is deleted; null: never."
    )


class Daemon(Section):
    """The daemon process."""

    tcp: bool | None = Field(
        default=None,
        description="Listen on loopback TCP too; null: only if `daemon.tcp_port` names a port.",
    )
    tcp_port: int = Field(default=0, ge=0, le=65_535, description="Loopback TCP port; 0: any free one.")

    @property
    def port(self) -> int | None:
        """The loopback TCP port to listen on (0: any free one); None: no TCP."""
        enabled = self.tcp_port > 0 if self.tcp is None else self.tcp
        return self.tcp_port if enabled else None


# -- Traces of tasks for an OpenTelemetry collector


class Telemetry(Section):
    """Sending a trace of each task to an OpenTelemetry collector."""

    otlp_endpoint: Address | None = Field(
        default=None,
        description="Collector that gets the traces by OTLP/HTTP, like `http://127.0.0.1:4318`; needs the extra `otel`; "
        "null: none.",
    )
    otlp_timeout_s: Annotated[float, Field(gt=0, le=60)] = Field(
        default=10, description="Time limit for one request to it."
    )

    @property
    def traces_url(self) -> str | None:
        """The address of the requests: an endpoint without a path gets OTLP's own, ``/v1/traces``."""
        endpoint = self.otlp_endpoint
        if endpoint is None or urlsplit(endpoint)[2:] not in (("", "", ""), ("/", "", "")):
            return endpoint
        return f"{endpoint.rstrip('/')}/v1/traces"
