"""The digit data sets: where they come from, how they are read, and how their LMDBs are made."""
