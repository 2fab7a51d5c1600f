"""gRPC services as sources of tools: descriptors become schemas, calls go through dynamic messages.

With ``rpc/`` the only package that imports ``grpc``, with ``codec/`` and ``rpc/`` the only one that imports protobuf.
Turnwire's own contract it does not know.
"""
