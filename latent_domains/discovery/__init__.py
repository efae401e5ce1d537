"""Latent domains of the user's own pictures, found without training."""
