"""Between domain values and the bytes of the contract.

Beside ``rpc`` the only package that imports the generated ``turnwire.v1`` modules. For each type there is a pair
``x_to_pb(value, out)``, which fills an empty message in place, and ``x_from_pb(message)``, which raises CodecError
where the message does not say what the domain needs. Encoding then decoding gives an equal value. It knows nothing of
stores, streams or gRPC.
"""
