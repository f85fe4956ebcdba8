"""The web view: who may see it, the pages, the drawings, the live stream, and the actions of a person."""
