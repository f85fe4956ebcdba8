"""The supervisor's exports: what its files say of tasks that a runner executes, made from the event log."""
