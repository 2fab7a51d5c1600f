"""What is served over HTTP: one ASGI app, and the server in front of it. Optional; imported where it is configured."""
