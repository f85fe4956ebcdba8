"""Templates: those of tasks (``.corral/templates/*.yaml``), and those that a project is prepared from."""
