"""Latent domains of one's own pictures, found without training."""
