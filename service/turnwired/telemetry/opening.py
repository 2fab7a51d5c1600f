"""The one door to telemetry. Imports OpenTelemetry only when there is somewhere to send to."""

from __future__ import annotations

from turnwired.telemetry.null import NullTelemetry
from turnwired.telemetry.port import Telemetry
from turnwired.telemetry.settings import TelemetrySettings


def open_telemetry(settings: TelemetrySettings) -> Telemetry:
    """Telemetry to the configured collector, or telemetry that does nothing when none is configured.

    Never connects here: a collector that is down, now or later, does no harm.
    """
    if settings.endpoint is None:
        return NullTelemetry()
    from turnwired.telemetry.otel import OtelTelemetry

    return OtelTelemetry(settings)
