"""Networks that turn pictures into features, and the LMDBs of these features."""
