"""A run folder, and all that is read from it or of it."""
