"""SQL for the record of agents: versions of their definitions, what they did, and what people think of it."""
