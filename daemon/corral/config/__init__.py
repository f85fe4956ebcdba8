"""Configuration: paths (:mod:`.paths`), the schema of the settings (:mod:`.model`), loading, watching.

Nothing is imported here: a hook or a command that only needs a path must not load the schema.
"""
