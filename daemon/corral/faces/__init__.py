"""How the daemon is reached: HTTP, MCP, hooks, the web view, the screen, the command line."""
