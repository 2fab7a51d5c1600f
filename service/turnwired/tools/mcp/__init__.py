"""MCP servers as sources of tools.

The only package that imports ``mcp``, and only in ``session.py``, loaded late: the SDK takes about a second and 57 MB.
"""
