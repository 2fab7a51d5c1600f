"""How a deployment names an app that serves tools. Knows no gRPC."""

from __future__ import annotations

from turnwired.tools.grpc.endpoint import Endpoint, Seconds


class ToolHostConfig(Endpoint):
    """One app. ``refresh_interval``: seconds after which its tools are asked for again beside the next run, which an
    app that implements WatchTools makes needless.
    """

    refresh_interval: Seconds = 60.0
