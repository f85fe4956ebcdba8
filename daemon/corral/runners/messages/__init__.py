"""The worker of the runner ``anthropic``: a process of its own that talks with the Messages API and uses six tools.

It reads one JSON document from its standard input and writes one JSON event a line, in the form of ``claude
--output-format stream-json``, so that one parser (:mod:`corral.runners.stream`) reads both.
"""
