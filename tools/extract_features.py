"""Extract AlexNet's fc7 features: from each domain's LMDB of images, one of features.

    python -m tools.extract_features office31 --weights bvlc_alexnet.caffemodel

reads DATA/office31/DOMAIN and writes OUT/office31_fc7/DOMAIN: for each image, in the same order and by the same name, a
Datum of 4096×1×1 floats, fc7 of the central crop before its ReLU, with the image's label. Features that stand already
are not extracted again; those of other weights or images are an error, never reused.
"""

import argparse
import hashlib
from collections.abc import Callable, Iterator
from functools import cache
from itertools import islice
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import Datum

from tools import lmdb_io
from tools.arguments import positive
from tools.data.parts import FINGERPRINT, NOTE, Part, Records, build_missing
from tools.datasets import DATASETS, Dataset
from tools.image_list import read_classes
from tools.images import keyed_batches
from tools.nets.committed import FEATURES
from tools.nets.features import BLOB
from tools.program import ROOT, ProgramError, run
from tools.solver_mode import MODES, VARIABLE, check_available, requested_mode
from tools.weights import check_weights

VERSION = 1
"""Raised whenever the same images and weights give other features."""

LAYERS = ("conv1", "conv2", "conv3", "conv4", "conv5", "fc6", "fc7")
"""The layers that the weights must have."""

FINGERPRINT_RECORDS = 16
"""Records at the beginning of an LMDB that tell it from others."""

DATASET_NAMES = tuple(name for name in DATASETS if f"{name}_fc7" in DATASETS)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.extract_features",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("dataset", choices=DATASET_NAMES)
    parser.add_argument(
        "--weights", type=Path, required=True, metavar="FILE", help="AlexNet trained on ImageNet, a caffemodel"
    )
    parser.add_argument("--domains", nargs="+", metavar="DOMAIN", help="default: all of the dataset")
    parser.add_argument("--data", type=Path, default=ROOT / "data", metavar="DIR", help="data folder (default: data)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="data folder of the features (default: that of --data)")
    parser.add_argument("--batch-size", type=positive, default=32, metavar="N", help="images at once (default: 32)")
    parser.add_argument(
        "--solver-mode",
        choices=MODES,
        help=f"where Caffe computes (default: environment variable {VARIABLE}, else CPU)",
    )
    parser.add_argument("--force", action="store_true", help="replace features of other weights or images")
    arguments = parser.parse_args()
    known = DATASETS[arguments.dataset].domains
    for domain in arguments.domains or ():
        if domain not in known:
            parser.error(f"argument --domains: {domain!r}, expected some of {', '.join(known)}")
    return arguments


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
    for keys, inputs, labels in keyed_batches(images, data, batch_size):
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
    return [
        _part(
            DATASETS[dataset],
            data / DATASETS[dataset].train_lmdb(domain),
            out / DATASETS[f"{dataset}_fc7"].train_lmdb(domain),
            digest,
            net,
            batch_size,
        )
        for domain in domains
    ]


def _part(data: Dataset, images: Path, out: Path, digest: str, net: Callable[[], caffe.Net], batch_size: int) -> Part:
    count = lmdb_io.count_filled(images, data.made_by)
    recipe = {
        "program": f"tools.extract_features {data.name}",
        "part": out.name,
        "version": VERSION,
        "weights": digest,
        "images": count,
        FINGERPRINT: fingerprint(images),
    }
    classes = read_classes(images / "classes.txt") if (images / "classes.txt").is_file() else []
    return Part(out, recipe, lambda: Records(count, features(net(), images, data, batch_size)), tuple(classes))


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


def main() -> None:
    """Extract the features that are missing."""
    arguments = _arguments()
    if requested_mode(arguments.solver_mode) == "GPU":
        check_available("GPU", "solver mode GPU")
        caffe.set_mode_gpu()
    wanted = arguments.domains or DATASETS[arguments.dataset].domains
    build_missing(
        parts(
            arguments.dataset,
            tuple(dict.fromkeys(wanted)),
            arguments.weights,
            arguments.data,
            arguments.out or arguments.data,
            arguments.batch_size,
        ),
        force=arguments.force,
    )


if __name__ == "__main__":
    run(main)
