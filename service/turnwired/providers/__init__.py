"""Model providers: a port and one file per wire. The only package that may import a provider's SDK."""
