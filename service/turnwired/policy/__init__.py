"""Policy: layers, merge, ceilings and provenance. Pure."""
