"""Training of runs: one process or several as one, and whether a net learns at all."""
