"""The turn machine: facts go in, events and effects come out. Pure: no I/O, no clock, no tasks, no randomness."""
