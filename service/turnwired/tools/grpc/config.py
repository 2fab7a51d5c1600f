"""How a deployment names a gRPC service whose methods become tools. Knows no gRPC."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final, Self

from pydantic import Field, model_validator

from turnwired.tools.grpc.endpoint import Endpoint, Seconds

_SERVICE: Final = r"^[A-Za-z_*][A-Za-z0-9_.*]*$"

_ServiceName = Annotated[str, Field(pattern=_SERVICE)]


class GrpcService(Endpoint):
    """One address and what is taken of it. Times are in seconds, sizes in bytes.

    ``services``: full names or patterns (``*``); when empty, all but those of gRPC itself (health, reflection,
    channelz). ``descriptor_set``, a file of ``protoc --descriptor_set_out`` or ``buf build``, is asked instead of
    server reflection. A streamed answer ends after ``max_streamed`` messages, ``max_message_bytes`` in all, or
    ``stream_timeout``.
    """

    services: tuple[_ServiceName, ...] = ()
    descriptor_set: Path | None = None
    reflection: bool | None = None
    stream_timeout: Seconds = 10.0
    max_streamed: Annotated[int, Field(ge=1, le=10_000)] = 100

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.descriptor_set is not None and self.reflection:
            raise ValueError("descriptor_set and reflection exclude each other")
        if self.descriptor_set is None and self.reflection is False:
            raise ValueError("reflection = false needs a descriptor_set")
        return self
