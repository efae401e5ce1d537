"""A run folder, what is read from it, and what its nets compute."""
