"""The swarm: the running agents, what they use together, and how they do."""
