"""Features: which line of work claims what, and which of them can go side by side."""
