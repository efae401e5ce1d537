"""Office-Caltech as Gong et al. published it: histograms of SURF, rows divided by their sums, then z-scored."""

from functools import cache, partial
from io import BytesIO
from pathlib import Path

import numpy as np

from latent_domains.data.feature_files import LabelledFeatures, normalise_features
from latent_domains.data.lmdb_plans import Images, PlannedLmdb, plan_of_arrays
from latent_domains.data.published_file import read_contents
from latent_domains.data.sets.published import OFFICE_CALTECH
from latent_domains.data.sets.urls import OFFICE_CALTECH_SURF

NAME = "office_caltech_surf"

VERSION = 1
"""Increased whenever the same files and seed give other records or another order."""

NORMALISE = "l1+z"


def plans(out: Path, seed: int, mirror: Path | None = None, downloads: Path | None = None) -> list[PlannedLmdb]:
    """Plan an LMDB for each domain in the folder NAME of ``out``. Nothing is read before one of them is built.

    z is over all domains. Gong et al. compute it for each domain by itself; that is an adaptation, and left to the
    methods.
    """

    @cache
    def domains() -> dict[str, LabelledFeatures]:
        from scipy.io import loadmat  # slow to import

        found = {}
        for domain, file in OFFICE_CALTECH_SURF.items():
            arrays = loadmat(BytesIO(read_contents(file, downloads or out / "downloads", mirror)))
            labels = arrays["labels"].ravel().astype(np.int64) - 1
            found[domain] = LabelledFeatures(arrays["fts"].astype(np.float64), labels)
        return normalise_features(found, NORMALISE)

    def images(domain: str) -> Images:
        found = domains()[domain]
        return found.features, found.labels

    made = {"program": f"tools.get_data {NAME}", "version": VERSION, "backbone": "surf", "normalise": NORMALISE}
    return [
        plan_of_arrays(
            out / NAME / domain,
            {**made, "part": domain, "seed": seed},
            partial(images, domain),
            (seed, 300 + number),
            OFFICE_CALTECH.classes,
        )
        for number, domain in enumerate(OFFICE_CALTECH_SURF)
    ]
