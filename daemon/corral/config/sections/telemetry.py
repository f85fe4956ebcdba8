"""Traces of tasks for an OpenTelemetry collector."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field

from corral.config.sections.values import Address, Section


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
