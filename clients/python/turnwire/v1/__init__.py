"""Generated messages and stubs of the contract ``turnwire.v1``. Do not edit; see scripts/generate.py."""
