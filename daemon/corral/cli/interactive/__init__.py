"""``corral interactive``: one terminal screen that shows what needs a person, what runs and what lands, and acts on it."""
