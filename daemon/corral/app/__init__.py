"""The operations: a module per noun, called by HTTP routes, MCP tools and hook events alike."""
