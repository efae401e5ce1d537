"""A run folder, and what is read from it or computed with its nets."""
