"""Where runs, logs and sessions are kept: a port, and one module per store."""
