"""A turn that was made in this process, held to the same rules as one that came over the wire.

It takes the same path through the contract's messages, so that nothing is allowed here that a server would refuse.
"""

from __future__ import annotations

from turnwire.v1 import turn_service_pb2
from turnwired.codec.run import turn_to_pb
from turnwired.domain.errors import FieldViolation, InvalidRequest
from turnwired.domain.run import TurnSpec
from turnwired.rpc.request import turn_spec


def checked(spec: TurnSpec) -> TurnSpec:
    """The turn as the service takes it. Raises InvalidRequest, with paths as in RunTurn."""
    message = turn_service_pb2.TurnSpec()
    try:
        turn_to_pb(spec, message)
    except ValueError as error:  # text with lone surrogates, numbers that the contract has no room for
        raise InvalidRequest([FieldViolation("turn", "holds a value that the contract cannot carry")]) from error
    return turn_spec(message, spec.caller, spec.on_disconnect)
