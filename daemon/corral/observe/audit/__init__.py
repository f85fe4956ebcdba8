"""The audit: who did what, in a chain that shows what is missing."""
