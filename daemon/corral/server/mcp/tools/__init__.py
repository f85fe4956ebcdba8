"""The tools, a module for each noun; every module lists its own in ``TOOLS``.

A tool's name, parameters and docstring are what the model pays for: the name is what the documents name, the parameters are
theirs, the docstring is one or two sentences. The operations are in ``app/`` and below.
"""
