"""Features of a trained net: from LMDBs of images to LMDBs of features."""

import hashlib
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import Datum

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.image_list import read_classes
from latent_domains.data.input_batches import keyed_batches
from latent_domains.data.parts import FINGERPRINT, NOTE, Part, Records
from latent_domains.experiment.datasets import DATASETS, Dataset
from latent_domains.models.weights import check_weights
from latent_domains.nets.committed import FEATURES
from latent_domains.nets.features import BLOB

VERSION = 1
"""Raised whenever the same images and weights give other features."""

LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7")
"""The layers that the weights must have."""

FINGERPRINT_RECORDS = 16
"""Records at the beginning of an LMDB that tell it from others."""

DATASET_NAMES = tuple(name for name in DATASETS if f"{name}_fc7" in DATASETS)


def load_net(weights: Path) -> caffe.Net:
    """Return the net that extracts features. Raises ProgramError if ``weights`` are not AlexNet's."""
    net = caffe.Net(str(ROOT / FEATURES), caffe.TEST)
    check_weights(weights, [net], LAYERS)
    net.copy_from(str(weights))
    return net


def features(net: caffe.Net, images: Path, data: Dataset, batch_size: int) -> Iterator[tuple[str, Datum]]:
    """Yield name and features of each image of an LMDB, in its order.

    Raises ProgramError if a record is no image of the dataset or the net gives anything but finite numbers for it.
    """
    for keys, inputs, labels in keyed_batches(images, data.preprocessing, batch_size):
        net.blobs["data"].reshape(*inputs.shape)
        net.blobs["data"].data[...] = inputs
        rows = net.forward()[BLOB]
        for key, row, label in zip(keys, rows, labels, strict=True):
            name = lmdb_io.record_name(key)
            if not np.isfinite(row).all():
                raise ProgramError(f"{images}: the features of {name!r} are not finite: the weights are damaged")
            yield name, Datum(channels=len(row), height=1, width=1, float_data=row, label=int(label))


def parts(dataset: str, domains: tuple[str, ...], weights: Path, data: Path, out: Path, batch_size: int) -> list[Part]:
    """Return a part for each domain. The net is loaded when the first of them is built.

    Raises ProgramError if the weights or an LMDB of images are not there.
    """
    if not weights.is_file():
        raise ProgramError(f"--weights {weights}: no such file, expected a caffemodel")
    with weights.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    net = cache(lambda: load_net(weights))
    images_of, features_of = DATASETS[dataset], DATASETS[f"{dataset}_fc7"]

    def part(domain: str) -> Part:
        images, place = data / images_of.train_lmdb(domain), out / features_of.train_lmdb(domain)
        count = lmdb_io.count_filled(images, images_of.made_by)
        recipe = {
            "program": f"tools.extract_features {dataset}",
            "part": place.name,
            "version": VERSION,
            "weights": digest,
            "images": count,
            FINGERPRINT: fingerprint(images),
        }
        names = images / "classes.txt"
        classes = tuple(read_classes(names)) if names.is_file() else ()
        return Part(place, recipe, lambda: Records(count, features(net(), images, images_of, batch_size)), classes)

    return [part(domain) for domain in domains]


def fingerprint(lmdb: Path) -> str:
    """Return a hash that other images change: of the LMDB's note, if it has one, and of its first records.

    To hash all of them would take as long as to read gigabytes, each time that there is nothing to do.
    """
    digest = hashlib.sha256()
    if (lmdb / NOTE).is_file():
        digest.update((lmdb / NOTE).read_bytes())
    for key, datum in islice(lmdb_io.read(lmdb), FINGERPRINT_RECORDS):
        digest.update(key)
        digest.update(datum.SerializeToString(deterministic=True))
    return digest.hexdigest()[:16]
