"""What an operation means, once: a module per noun, called by HTTP routes, MCP tools and hook events alike."""
