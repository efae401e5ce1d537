"""Training of runs: one process or several as one."""
