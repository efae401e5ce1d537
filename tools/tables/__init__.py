"""The paper's tables, and the runs that they are made of."""
