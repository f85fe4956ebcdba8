"""Configuration: where things are (:mod:`.paths`), the settings' schema (:mod:`.model`), loading, watching.

Nothing is imported here: a hook or a command that only needs a path must not pay for the schema.
"""
