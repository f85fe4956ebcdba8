"""Mail: messages between sessions and people, how they are addressed, and how they reach their readers."""
