"""The key for the Messages API: where it is looked for (:mod:`.lookup`), and the places that keep it."""
