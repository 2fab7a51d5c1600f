"""The gRPC face: servicers, translation, errors. Knows no adapter."""
