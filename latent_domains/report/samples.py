"""Source images that the branch is surest and least sure about, for each latent domain."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import read_images, record_names
from latent_domains.report.chart import Chart
from latent_domains.runs.outputs import domain_probabilities, evaluation_lmdbs
from latent_domains.runs.preflight import check_data, check_nets
from latent_domains.runs.run_folder import RunFolder, Snapshot

LOOKED_AT = 1000
"""This many images of each source are searched, fewer if they are large."""

BYTES = 64 << 20
"""The most memory for the images of one source."""

MOST_DOMAINS = 12
"""Only this many latent domains, the largest, are shown on a page: 36 took 49 s to lay out, 200 over 5 minutes."""


@dataclass(frozen=True)
class SourceImages:
    """Source images (n×C×H×W, BGR), their true sources (n), and the branch's probabilities (n×k).

    There are no images if only their features exist.
    """

    images: NDArray[np.uint8] | None
    sources: list[str]
    probabilities: NDArray[np.float32]


def read_source_images(folder: RunFolder, snapshot: Snapshot) -> SourceImages:
    """Read the first images of each source, held-out ones if there are any, and classify their domains."""
    check_nets(folder)
    check_data(folder)
    lmdbs, _ = evaluation_lmdbs(folder)
    pictures = _pictures(folder, lmdbs)
    shape = read_images(pictures[0], 1)[0].shape[1:] if pictures else folder.experiment.data.stored_shape
    limit = min(LOOKED_AT, max(8, BYTES // int(np.prod(shape))))
    rows, _ = domain_probabilities(folder, snapshot.model, lmdbs, limit=limit)
    return SourceImages(
        np.concatenate([read_images(lmdb, limit)[0] for lmdb in pictures]) if pictures else None,
        [source for source, of_source in rows.items() for _ in of_source],
        np.concatenate(list(rows.values())),
    )


def _pictures(folder: RunFolder, lmdbs: dict[str, Path]) -> list[Path]:
    """Return the LMDBs of pictures that belong to ``lmdbs`` of images or features; empty if they are missing.

    Features have the names and the order of their pictures.
    """
    data = folder.experiment.data
    if not data.features:
        channels, *sides = data.stored_shape
        return list(lmdbs.values()) if channels in (1, 3) and min(sides) > 1 else []
    if not data.extracted:
        return []
    pictures = {lmdb: folder.data_folder / data.images / lmdb.name for lmdb in lmdbs.values()}
    theirs = (is_lmdb(image) and [*record_names(image)] == [*record_names(lmdb)] for lmdb, image in pictures.items())
    return list(pictures.values()) if all(theirs) else []


def largest(counts: NDArray[np.int64] | NDArray[np.float64]) -> tuple[list[int], str]:
    """Return the domains (of k) that a page shows, at most MOST_DOMAINS, and a text if these are not all."""
    k, shown = len(counts), sorted(np.argsort(-counts, kind="stable")[:MOST_DOMAINS].tolist())
    return shown, f"These are the {len(shown)} largest of {k} latent domains." if len(shown) < k else ""


def surest_and_least_sure(
    probabilities: NDArray[np.float32], domain: int, count: int = 8
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return, of the rows (n×k) in a latent domain, the ``count`` surest and as many least sure ones; none is both."""
    sure = probabilities.max(axis=1)
    members = np.flatnonzero(probabilities.argmax(axis=1) == domain)
    members = members[np.argsort(-sure[members], kind="stable")]
    return members[:count], members[count:][::-1][:count]


def mosaic(images: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Tile images (n×C×H×W, BGR) into one RGB picture with thin gaps, row by row."""
    n, _, height, width = images.shape
    rows = -(-n // columns)
    picture = np.full((rows * (height + 2) - 2, columns * (width + 2) - 2, 3), 255, np.uint8)
    for i, image in enumerate(images):
        y, x = divmod(i, columns)
        picture[y * (height + 2) :, x * (width + 2) :][:height, :width] = image[::-1].transpose(1, 2, 0)
    return picture


def mosaic_chart(title: str, alt: str, images: NDArray[np.uint8], width: float, height: float) -> Chart:
    """Return images (n×C×H×W, BGR), 8 per row; or a note if there are none."""

    def draw(axes: Axes) -> None:
        axes.axis("off")
        if len(images):
            axes.imshow(mosaic(images, 8))
        else:
            axes.text(0.5, 0.5, "no image", ha="center", va="center")

    return Chart(title, alt, draw, width, height)
