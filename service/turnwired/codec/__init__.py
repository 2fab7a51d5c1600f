"""Domain values to the bytes of the log and back. With rpc the only place that knows the generated code."""
