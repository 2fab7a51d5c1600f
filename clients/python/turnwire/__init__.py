"""Python client of Turnwire. The messages and stubs are in ``turnwire.v1``."""
