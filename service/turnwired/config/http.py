"""The section of what is served over HTTP: off unless it says where to listen. Pure data."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from turnwired.config.address import ListenAddress, parse_listen
from turnwired.config.words import located

_HOST = re.compile(r"[A-Za-z0-9.-]+(:\d{1,5})?|\[[0-9A-Fa-f:]+\](:\d{1,5})?")
_ORIGIN = re.compile(r"https?://[^/\s?#@*]+")


def _check_host(value: str) -> str:
    if not _HOST.fullmatch(value):
        raise ValueError('takes a host as it stands in a URL, such as "tools.example.com" or "10.0.0.7:8080"')
    return value.lower()


def _check_origin(value: str) -> str:
    if not _ORIGIN.fullmatch(value):
        raise ValueError('takes the origin of a page, such as "https://chat.example.com"')
    return value.lower()


class HttpConfig(BaseModel):
    """Where to listen for HTTP, and what is served there. ``listen`` None: nothing is.

    ``hosts`` are names of this server beside those of the loopback, ``origins`` those of pages that may call it: what
    says others is refused, so that no page can reach the server by a name of its own (DNS rebinding).
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    insecure_listen: bool = False
    listen: str | None = None
    mcp: bool = False
    connect: bool = False
    hosts: tuple[Annotated[str, AfterValidator(_check_host)], ...] = ()
    origins: tuple[Annotated[str, AfterValidator(_check_origin)], ...] = ()
    max_request_bytes: int = Field(default=16 << 20, ge=1024, le=256 << 20)
    max_connections: int = Field(default=1000, ge=1, le=100_000)

    @model_validator(mode="after")
    def _check_listen(self) -> HttpConfig:
        if self.listen is None:
            for name in ("mcp", "connect"):
                if getattr(self, name):
                    raise located(name, "needs http.listen, which says where to listen")
            return self
        try:
            address = parse_listen(self.listen)
        except ValueError as error:
            raise located("listen", str(error)) from None
        if not (self.mcp or self.connect):
            raise located("listen", "there is nothing to serve; set mcp = true or connect = true")
        if not address.is_local and not self.insecure_listen:
            words = "can be reached from other machines, and this version has no TLS; listen on 127.0.0.1, or set"
            raise located("listen", f"{self.listen} {words} http.insecure_listen = true behind a proxy that has it")
        if not address.is_local and not self.hosts:
            raise located(
                "hosts", "is required where other machines can connect: the names that they know this server by"
            )
        return self

    @property
    def address(self) -> ListenAddress:
        """``listen``, taken apart."""
        assert self.listen is not None, "something is served"
        return parse_listen(self.listen)
