"""What the converters share: a net with its parameters, inputs to try it on, and the differences between two nets."""
