"""Where telemetry goes: settings, and how they are read from the environment. Imports no OpenTelemetry.

Variables are those of the OpenTelemetry specification (SDK environment variables, OTLP exporter).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnwired.domain.errors import ConfigError


@dataclass(frozen=True, slots=True)
class TelemetrySettings:
    """Settings of telemetry. ``endpoint`` None: no collector is configured, and nothing is recorded.

    ``endpoint`` is a URL such as ``http://127.0.0.1:4317`` (OTLP over gRPC; ``https`` means TLS). ``headers`` go with
    each request to the collector. ``sample_ratio`` is the share of traces begun here that is recorded; a caller's
    trace is recorded when the caller records it. ``metric_interval`` is in seconds.
    """

    endpoint: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    service_name: str = "turnwire"
    service_version: str = ""
    sample_ratio: float = 1.0
    metric_interval: float = 60.0

    def __post_init__(self) -> None:
        """Refuse what cannot be done.

        Raises:
            ConfigError: with one line that says what to change.
        """
        if self.endpoint is not None and not self.endpoint.startswith(("http://", "https://")):
            raise ConfigError(f"telemetry: endpoint {self.endpoint!r} must begin with http:// or https://")
        if not 0.0 <= self.sample_ratio <= 1.0:
            raise ConfigError(f"telemetry: sample_ratio {self.sample_ratio} is not between 0 and 1")
        if not 1.0 <= self.metric_interval <= 3600.0:
            raise ConfigError(f"telemetry: metric_interval {self.metric_interval} s is not between 1 and 3600")


def settings_from_environment(
    environ: Mapping[str, str], *, service_version: str = "", endpoint: str | None = None
) -> TelemetrySettings:
    """Read the standard variables; docs/telemetry.md lists them. An ``endpoint`` given goes before the variable's.

    Raises:
        ConfigError: a variable asks for what is not built, or is no number.
    """
    endpoint = endpoint or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "").strip()
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true" or not endpoint:
        return TelemetrySettings()
    protocol = environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc").strip()
    if protocol != "grpc":
        raise ConfigError(f"telemetry: OTEL_EXPORTER_OTLP_PROTOCOL={protocol!r} is not supported, use grpc")
    return TelemetrySettings(
        endpoint=endpoint,
        service_name=environ.get("OTEL_SERVICE_NAME", "").strip() or "turnwire",
        service_version=service_version,
        sample_ratio=_sample_ratio(environ),
        metric_interval=_number(environ, "OTEL_METRIC_EXPORT_INTERVAL", 60_000.0) / 1000,
    )


def _sample_ratio(environ: Mapping[str, str]) -> float:
    sampler = environ.get("OTEL_TRACES_SAMPLER", "parentbased_always_on").strip()
    match sampler:
        case "parentbased_always_on":
            return 1.0
        case "parentbased_always_off":
            return 0.0
        case "parentbased_traceidratio":
            return _number(environ, "OTEL_TRACES_SAMPLER_ARG", 1.0)
        case _:
            raise ConfigError(
                f"telemetry: OTEL_TRACES_SAMPLER={sampler!r} is not supported,"
                " use parentbased_always_on, parentbased_always_off or parentbased_traceidratio"
            )


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    text = environ.get(name, "").strip()
    if not text:
        return default
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"telemetry: {name}={text!r} is not a number") from None
