"""Golden answers: what every route, tool and ``--json`` command answers, recorded from a real daemon and compared later.

``python -m tests.golden record`` writes ``answers.jsonl``; ``python -m tests.golden compare`` says what has become different, and
``python -m tests.golden missing`` what no answer shows, since it cannot be provoked cheaply.
What is asked follows from the declarations of routes, tools and commands, and from the two stories that play them
(:mod:`tests.api_story`, :mod:`tests.schema_story`); beside its success each is asked with bad input, by a stranger, and once
more when all is over.
"""
