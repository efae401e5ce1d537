"""Pictures of PACS."""

import os
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.data.sets.published import PACS


@pytest.fixture(scope="session")
def pacs_sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Real pictures of PACS, some of each domain and class; without DATA_MIRROR, a tree of noise of the same shape."""
    mirror = os.environ.get("DATA_MIRROR")
    if mirror and (Path(mirror) / "pacs_sample").is_dir():
        return Path(mirror) / "pacs_sample"
    root = tmp_path_factory.mktemp("pictures") / "pacs_sample"
    rng = np.random.default_rng(0)
    for domain in PACS.domains:
        for name in PACS.classes:
            (root / domain / name).mkdir(parents=True)
            for number in range(1, 4):
                suffix = "png" if domain == "sketch" else "jpg"
                picture = cv2.resize(rng.integers(0, 256, (9, 9, 3)).astype(np.uint8), (227, 227))
                cv2.imwrite(str(root / domain / name / f"pic_{number:03d}.{suffix}"), picture)
    return root
