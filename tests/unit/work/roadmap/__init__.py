"""The roadmap."""
