"""Apps that serve tools over our own contract, in whatever language they are written."""
