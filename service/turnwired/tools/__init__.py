"""Tools: a port, the registry, and one adapter per kind of source."""
