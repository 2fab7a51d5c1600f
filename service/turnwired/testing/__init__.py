"""Public test kit: scripted provider, in-memory registry, event collector."""
