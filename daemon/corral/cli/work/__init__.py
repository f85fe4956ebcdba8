"""Commands about the queue beside the tasks themselves: shared state, the dead-letter queue."""
