"""The only folder that runs git: the wrapper (``command``), and one module per noun on top of it.

Nothing here keeps state, sleeps, or knows the database. Nothing outside runs git.
"""
