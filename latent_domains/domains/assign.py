"""Gives the source pictures of an experiment their domains, in the way of its method."""

from collections.abc import Callable

from latent_domains.domains import at_random, branch, from_file, known, pixels, style
from latent_domains.domains.pictures import Pictures, W

WAYS: dict[str, Callable[..., W]] = {
    "known": known.assign,
    "at_random": at_random.assign,
    "pixels": pixels.assign,
    "style": style.assign,
    "from_file": from_file.assign,
    "branch": branch.assign,
}
"""By the names that methods have for them (:mod:`latent_domains.experiment.methods`)."""


def assign(images: Pictures, way: tuple[str, dict[str, object]]) -> W:
    """w (n×k) of the pictures of an experiment by one of WAYS, with its options."""
    name, options = way
    return WAYS[name](images, images.experiment.k, images.experiment.seed, **options)
