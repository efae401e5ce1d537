"""Domains that a branch predicts."""

import caffe
import numpy as np

from latent_domains.domains.pictures import Pictures, W
from latent_domains.models.blobs import blob_of_images


def assign(images: Pictures, k: int, seed: int, net: caffe.Net) -> W:
    """The probabilities of the ``k`` domains by a run's domain ``net``. Nothing is drawn by ``seed``."""
    form = (images.experiment.data.preprocessing, images.experiment.data.test_batch_limit)
    parts = zip(images.lmdbs, images.counts, strict=True)
    return np.concatenate([blob_of_images(net, "domain_prob", lmdb, *form, number)[0] for lmdb, number in parts])
