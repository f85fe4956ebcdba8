"""Sessions and what they tell each other over HTTP."""
