"""Without a collector: nothing is imported, sent or kept."""

from __future__ import annotations

import subprocess
import sys

import pytest
from telemetry.script import Driver, discover, info, run_with_tools

from turnwired.domain.model import TraceContext
from turnwired.telemetry.null import NullTelemetry
from turnwired.telemetry.opening import open_telemetry
from turnwired.telemetry.otel import OtelTelemetry
from turnwired.telemetry.port import Telemetry
from turnwired.telemetry.settings import TelemetrySettings


@pytest.mark.requirement("TEL-11")
def test_without_a_collector_everything_is_empty() -> None:
    telemetry = open_telemetry(TelemetrySettings())
    assert isinstance(telemetry, NullTelemetry)
    driver = Driver(telemetry, info({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}))
    assert driver.run.trace_context == TraceContext()
    assert driver.run.iteration_started(1, None) == ""
    assert driver.run.tool_started("call-1", "clock") == ""
    assert dict(driver.run.headers_for_model(1)) == {}
    assert dict(driver.run.headers_for_tool("call-1")) == {}
    run_with_tools(driver)
    discover(telemetry)
    call = telemetry.rpc.call_started("a.B/C", {})
    assert dict(call.headers) == {}
    call.ended("OK")
    telemetry.rpc.unknown_method("a.B/D")
    telemetry.aclose()


@pytest.mark.requirement("TEL-11")
def test_without_a_collector_opentelemetry_is_not_imported() -> None:
    script = """
import sys
from turnwired.telemetry.opening import open_telemetry
from turnwired.telemetry.settings import settings_from_environment
telemetry = open_telemetry(settings_from_environment({}))
telemetry.aclose()
print([name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "grpc", "google")])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=30, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


@pytest.mark.requirement("TEL-11")
def test_both_kinds_of_telemetry_fulfil_the_port(telemetry: OtelTelemetry) -> None:
    kinds: list[Telemetry] = [NullTelemetry(), telemetry]
    assert all(callable(kind.begin_run) for kind in kinds)
