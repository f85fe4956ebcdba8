"""SQL for sessions and for what they tell each other: names, locks, mail, handoffs, memory, features."""
