"""The MCP server: tools and resources over the same functions that HTTP uses.

One request: :mod:`mount` (who asks, which profile) → FastMCP → a function in :mod:`tools` → ``coordination/`` or ``work/``.
"""
