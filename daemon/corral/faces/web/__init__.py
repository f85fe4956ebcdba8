"""The web view: pages, their live streams, and who is let in."""
