"""Domains that a branch predicts."""

from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_io import count
from latent_domains.domains.pictures import Pictures, W
from latent_domains.experiment.datasets import Dataset
from latent_domains.models.model import feed


def assign(images: Pictures, k: int, seed: int, net: caffe.Net) -> W:
    """The probabilities of the ``k`` domains by a run's domain ``net``. Nothing is drawn by ``seed``."""
    data = images.experiment.data
    parts = zip(images.lmdbs, images.counts, strict=True)
    return np.concatenate([predicted(net, lmdb, data, "domain_prob", number)[0] for lmdb, number in parts])


def predicted(net: caffe.Net, lmdb: Path, data: Dataset, blob: str, limit: int) -> tuple[W, NDArray[np.int64]]:
    """The probabilities (n×k, ``blob``) of the first ``limit`` records of an LMDB, and their labels (n)."""
    rows = []
    with tqdm(desc=f"domains of {lmdb.name}", total=min(limit, count(lmdb)), unit="img", leave=False) as bar:
        for inputs, classes in batches(lmdb, data.preprocessing, data.test_batch_limit, limit):
            feed(net, inputs)
            rows.append((net.forward()[blob].copy(), classes))
            bar.update(len(inputs))
    found, labels = map(np.concatenate, zip(*rows, strict=True))
    return found, labels
