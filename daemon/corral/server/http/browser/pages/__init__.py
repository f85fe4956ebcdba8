"""The pages of the web view: a module per page or noun, each with a function that makes the values of a template."""
