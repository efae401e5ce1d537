"""Sizes of images that nets are trained on, and of those that are stored for it."""

from latent_domains.common.program import ProgramError

STORED, SEEN = 256, 224
"""Side of the stored images where a net sees squares of side SEEN of them: the rest is for random crops."""

SMALLEST, STEP = 64, 32
"""Nets halve an image five times."""


def stored_side(image_size: int) -> int:
    """Side of the stored images of which a net sees squares of ``image_size``: the same part as of usual ones."""
    return round(image_size * STORED / SEEN)


def size_folder(name: str, image_size: int) -> str:
    """The folder of a set's LMDBs for images of another size than SEEN."""
    return f"{name}_{image_size}"


def fits(image_size: int) -> bool:
    """Whether a net that takes any size takes this one."""
    return image_size >= SMALLEST and image_size % STEP == 0


def check_size(image_size: int) -> None:
    """Raise ProgramError if no net takes images of this size."""
    if not fits(image_size):
        raise ProgramError(f"image_size: got {image_size}, expected a multiple of {STEP}, at least {SMALLEST}")
