"""Settings of telemetry and the variables they come from."""

from __future__ import annotations

import pytest

from turnwired.domain.errors import ConfigError
from turnwired.telemetry.settings import TelemetrySettings, settings_from_environment

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4317"}


@pytest.mark.requirement("TEL-11")
@pytest.mark.parametrize("environ", [{}, {**ENDPOINT, "OTEL_SDK_DISABLED": "true"}, {"OTEL_SERVICE_NAME": "x"}])
def test_without_an_endpoint_there_is_no_collector(environ: dict[str, str]) -> None:
    assert settings_from_environment(environ).endpoint is None


@pytest.mark.requirement("TEL-18")
def test_the_standard_variables_are_read() -> None:
    environ = {
        **ENDPOINT,
        "OTEL_SERVICE_NAME": "agents",
        "OTEL_TRACES_SAMPLER": "parentbased_traceidratio",
        "OTEL_TRACES_SAMPLER_ARG": "0.1",
        "OTEL_METRIC_EXPORT_INTERVAL": "5000",
    }
    assert settings_from_environment(environ, service_version="1.2.3") == TelemetrySettings(
        endpoint="http://127.0.0.1:4317",
        service_name="agents",
        service_version="1.2.3",
        sample_ratio=0.1,
        metric_interval=5.0,
    )
    off = settings_from_environment({**ENDPOINT, "OTEL_TRACES_SAMPLER": "parentbased_always_off"})
    assert off.sample_ratio == 0.0


@pytest.mark.requirement("TEL-18")
def test_an_endpoint_of_the_configuration_goes_first_and_keeps_the_other_variables() -> None:
    environ = {"OTEL_SERVICE_NAME": "agents", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://elsewhere:4317"}
    settings = settings_from_environment(environ, endpoint="http://here:4317")
    assert (settings.endpoint, settings.service_name) == ("http://here:4317", "agents")


@pytest.mark.requirement("TEL-18")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "use grpc"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "127.0.0.1:4317"}, "http://"),
        ({"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "parentbased_always_on"),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "many"}, "not a number"),
        ({"OTEL_TRACES_SAMPLER": "parentbased_traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "between 0 and 1"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "1"}, "between 1 and 3600"),
    ],
)
def test_what_is_not_supported_is_refused_in_one_line(changes: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words) as refused:
        settings_from_environment({**ENDPOINT, **changes})
    assert "\n" not in str(refused.value)


@pytest.mark.requirement("TEL-5")
def test_headers_of_the_collector_are_not_shown() -> None:
    assert "KEY" not in repr(TelemetrySettings(endpoint="http://c", headers={"authorization": "KEY"}))
