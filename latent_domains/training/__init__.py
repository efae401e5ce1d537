"""Training of runs: one process or several as one, and what is trained to learn something about the method."""
