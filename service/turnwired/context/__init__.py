"""What the model sees: the canonical request, with the encoded bytes of each message kept."""
