"""The view: the one answer from which every face is made, and what needs a person."""
