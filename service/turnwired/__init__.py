"""Turnwire's server. Nothing happens on import."""
