"""A net with its weights: reading, writing, running and comparing."""
