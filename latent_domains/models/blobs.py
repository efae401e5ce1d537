"""What a net makes of the images of an LMDB."""

from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_io import count
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.models.model import feed


def blob_of_images(
    net: caffe.Net, blob: str, lmdb: Path, form: Preprocessing, batch_size: int, limit: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a net's ``blob`` (n×…) for an LMDB's images and their labels (n): of the first ``limit``, or of all."""
    number, rows = count(lmdb), []
    with tqdm(desc=f"{blob} of {lmdb.name}", total=min(limit or number, number), unit="img", leave=False) as bar:
        for inputs, classes in batches(lmdb, form, batch_size, limit):
            feed(net, inputs)
            net.forward()
            rows.append((net.blobs[blob].data.copy(), classes))
            bar.update(len(inputs))
    found, labels = map(np.concatenate, zip(*rows, strict=True))
    return found, labels
