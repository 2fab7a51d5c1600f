"""Bytes to a message of the contract, with one kind of error."""

from __future__ import annotations

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from turnwired.domain.errors import CodecError

MessageType = TypeVar("MessageType", bound=Message)


def parse(kind: type[MessageType], body: bytes) -> MessageType:
    """The message that ``body`` holds. Raises CodecError when it holds none."""
    message = kind()
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise CodecError(f"these {len(body)} bytes are no {kind.__name__}") from error
    return message
