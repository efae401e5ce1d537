"""The LMDBs of a task: one for each domain, as large as the network wants its images."""

from collections.abc import Mapping

from latent_domains.adapt.duration import free_bytes
from latent_domains.adapt.paths import Paths
from latent_domains.adapt.trees import Images
from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format
from latent_domains.data.image_part import image_part
from latent_domains.data.lmdb_io import count
from latent_domains.data.parts import Part, build_missing
from latent_domains.experiment.datasets import of_network


def build_lmdbs(paths: Paths, images: Images, network: str, *, jobs: int, skip_unreadable: bool) -> dict[str, int]:
    """Build what is missing and return the images of each domain.

    Raises ProgramError naming an image that cannot be read (unless it may be skipped), an LMDB that was made from
    other images, or if the disk is too small.
    """
    parts = _parts(paths, images, network, jobs, skip_unreadable)
    _check_space(paths, images, network, parts)
    build_missing(list(parts.values()))
    counts = {name: count(part.path) for name, part in parts.items()}
    for name, stored in counts.items():
        if stored == 0:
            raise ProgramError(f"{parts[name].path}: none of the images could be read")
    return counts


def _parts(paths: Paths, images: Images, network: str, jobs: int, skip_unreadable: bool) -> dict[str, Part]:
    _, height, width = of_network(network).stored_shape
    return {
        domain.name: image_part(
            paths.lmdbs / domain.name,
            domain.entries,
            images.classes,
            Format((height, width)),
            program="tools.adapt",
            order=(0, number),
            jobs=jobs,
            remedy="replace or remove it, or pass --skip-unreadable to go on without such images",
            skip_unreadable=skip_unreadable,
        )
        for number, domain in enumerate(images.domains)
    }


def _check_space(paths: Paths, images: Images, network: str, parts: Mapping[str, Part]) -> None:
    """Raise ProgramError if the LMDBs that are still to be made do not fit on the disk."""
    channels, height, width = of_network(network).stored_shape
    each = -(-(channels * height * width + 200) // 4096) * 4096  # a record takes whole pages
    waiting = sum(len(domain.entries) for domain in images.domains if not parts[domain.name].path.exists())
    needed, free = each * waiting, free_bytes(paths.root)
    if needed > free:
        raise ProgramError(
            f"{paths.data}: the LMDBs of {waiting} images take {-(-needed // 2**20)} MB, but {free >> 20} MB are free "
            "on that disk: choose another --out"
        )
