"""``corral template``: task templates, and the template that a project was prepared from."""
