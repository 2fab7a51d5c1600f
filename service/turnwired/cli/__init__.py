"""The `turnwire` command."""
