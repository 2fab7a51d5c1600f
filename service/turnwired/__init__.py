"""Turnwire: a service that runs agent turns and settles each of them exactly once."""

__version__ = "0.1.0"
