"""Features of a trained backbone: from pictures in folders to LMDBs, and from LMDBs of images to LMDBs of features."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.files import sha256
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domain_images import TaskImages
from latent_domains.data.image_datum import Format
from latent_domains.data.image_lmdb import plan_of_images
from latent_domains.data.input_batches import record_values
from latent_domains.data.lmdb_plans import NewRecords, PlannedLmdb, classes_of
from latent_domains.experiment.datasets import (
    DATASETS,
    STYLE,
    Dataset,
    Features,
    as_features,
    is_folder_name,
    of_network,
)
from latent_domains.experiment.networks import ANY_FEATURES, expect_caffemodel
from latent_domains.experiment.recipe import Recipe
from latent_domains.models.model import feed
from latent_domains.models.weights import check_weights, for_caffe
from latent_domains.nets.training_files import FC7_NET
from latent_domains.networks.alexnet import FEATURES
from latent_domains.networks.network import Pretrained

VERSION = 1
"""Increased whenever a change gives other features for the same images and weights."""

_BATCH = 32
"""Images in a batch of AlexNet."""

USAGE = 10_000
"""Images of each domain from which a record judges the latent domains."""

Row = tuple[str, NDArray[np.float32], int]
"""The name of an image's record, its features and its label."""


@dataclass(frozen=True)
class Extractor:
    """Turns images into features."""

    origin: Mapping[str, str | int]
    """All that decides the features of an image."""
    rows: Callable[[Path, Dataset], Iterator[Row]]
    """Returns the features of each image of an LMDB, in its order."""


def describe_pictures(
    name: str, images: TaskImages, like: Dataset, counts: Mapping[str, int], recipe: Recipe, made_by: str
) -> Dataset:
    """Describe pictures as a dataset, with size, network and input of the pictures of ``like``.

    ``counts`` are the stored pictures of each domain; ``made_by`` is the command that makes the LMDBs.
    """
    sources, targets = (tuple(each.name for each in group) for group in (images.sources, images.targets))
    return replace(
        like,
        name=name,
        folder=None,
        domains=(*sources, *targets),
        sources=sources,
        targets=targets,
        unlabelled=tuple(target.name for target in images.targets if not target.labelled),
        classes=len(images.classes),
        counts=dict(counts),
        test_split=False,
        test_counts=None,
        usage_images=min(USAGE, max(counts.values())),
        made_by=made_by,
        recipe=recipe,
    )


def plan_pictures(lmdbs: Path, images: TaskImages, like: Dataset, **how: Any) -> dict[str, PlannedLmdb]:
    """Plan an LMDB of each domain, in the folder ``lmdbs``, of pictures read and stored as in ``like``.

    ``how`` are options of :func:`plan_of_images`.
    """
    form = Format(like.stored_shape[1:], reading=like.reading)
    return {
        domain.name: plan_of_images(lmdbs / domain.name, domain.entries, images.classes, form, order=(0, number), **how)
        for number, domain in enumerate(images.domains)
    }


def fc7_dataset(images: Dataset) -> Dataset:
    """Return the dataset of AlexNet's features of these images. Refuses a dataset without such features."""
    known = {data.features.images: data for data in DATASETS.values() if data.features and data.network != ANY_FEATURES}
    if DATASETS.get(images.name) != images or images.name not in known:
        raise ProgramError(f"dataset: got {images.name!r}, expected one with fc7 features: {', '.join(known)}")
    return known[images.name]


def backbone_dataset(images: Dataset, weights: Pretrained, backbone: OnnxBackbone, made_by: str) -> Dataset:
    """Return the dataset of a network's features of these pictures; its name contains the weights.

    It may be one of ours.
    """
    ours = DATASETS.get(f"{images.name}_{weights.name}")
    if ours and DATASETS[images.name] == images:
        return ours
    features = Features(images.name, weights.name, backbone.early_size)
    return _dataset(images, weights.name, features, backbone.row_size, made_by)


def style_dataset(images: Dataset, size: int, made_by: str) -> Dataset:
    """Return the dataset of the statistics of style (``size`` numbers) for latent domains of these images."""
    return _dataset(images, STYLE, Features(images.name, "lite0_style"), size, made_by)


def onnx_dataset(images: Dataset, kind: str, backbone: OnnxBackbone, made_by: str) -> Dataset:
    """Return the dataset of an ONNX model's features. Refuses a ``kind`` whose dataset's name is one of ours."""
    if not is_folder_name(name := f"{images.name}_{kind}"):
        raise ProgramError(f"--name: found {kind!r}, expected a part of a folder's name")
    if name in DATASETS or kind == STYLE:
        raise ProgramError(f"--name {kind}: {name} are other features, expected another name")
    features = Features(images.name, f"{kind}-{backbone.digest}", backbone.early_size)
    return _dataset(images, kind, features, backbone.row_size, made_by)


def _dataset(images: Dataset, kind: str, features: Features, size: int, made_by: str) -> Dataset:
    recipe = of_network(ANY_FEATURES).recipe
    return as_features(images, kind, ANY_FEATURES, size, features, recipe=recipe, made_by=made_by)


def alexnet_extractor(weights: Path) -> Extractor:
    """Return AlexNet's fc7, before its ReLU, computed by Caffe. The net is loaded at the first use."""
    expect_caffemodel(weights)
    net_once = cache(lambda: load_net(weights))

    def rows(images: Path, data: Dataset) -> Iterator[Row]:
        net = net_once()
        records = lmdb_io.read(images)
        while batch := list(islice(records, _BATCH)):
            values = [record_values(images, key, datum, data.stored_shape) for key, datum in batch]
            feed(net, data.preprocessing.inputs(values))
            for (key, datum), row in zip(batch, net.forward()[FEATURES], strict=True):
                yield lmdb_io.record_name(key), row, datum.label

    return Extractor({"weights": sha256(weights)}, rows)


def load_net(weights: Path) -> caffe.Net:
    """Return the net that extracts fc7."""
    net = caffe.Net(str(ROOT / FC7_NET), caffe.TEST)
    check_weights(weights, [net], list(net.params))
    with for_caffe(weights) as file:
        net.copy_from(str(file))
    return net


def onnx_extractor(backbone: OnnxBackbone, name: str, jobs: int, *, style: bool = False) -> Extractor:
    """Return an ONNX model's features and early statistics, by ONNX Runtime, ``jobs`` pictures at a time.

    ``name`` is the backbone's name in the features' dataset. ``style`` takes only the means of the early blocks.
    """
    kept = backbone.early_means if style else slice(None)

    def rows(images: Path, data: Dataset) -> Iterator[Row]:
        def extract(record: tuple[bytes, Datum]) -> Row:
            key, datum = record
            row = backbone.features(record_values(images, key, datum, data.stored_shape))
            return lmdb_io.record_name(key), row[kept], datum.label

        return in_threads(extract, lmdb_io.read(images), jobs)

    return Extractor({"backbone": name, **backbone.description}, rows)


def plan_features(
    images: Dataset, features: Dataset, domains: Sequence[str], extractor: Extractor, data: Path, out: Path
) -> list[PlannedLmdb]:
    """Plan an LMDB of ``features`` for each LMDB of ``images`` of the domains.

    ``data`` is the folder of the images' LMDBs, ``out`` that of the new ones.
    """

    def part(source: str, target: str) -> PlannedLmdb:
        lmdb, place = data / source, out / target
        count = lmdb_io.count_filled(lmdb, images.made_by)
        origin = {
            "program": f"tools.extract_features {images.name}",
            "part": place.name,
            "version": VERSION,
            **extractor.origin,
            "images": count,
        }
        return PlannedLmdb(
            place,
            origin,
            lambda: NewRecords(count, _datums(lmdb, extractor.rows(lmdb, images))),
            classes_of(lmdb),
            material=lmdb_io.material(lmdb),
        )

    places = [
        (of(images, domain), of(features, domain))
        for domain in domains
        for of in (Dataset.train_lmdb, Dataset.test_lmdb)
    ]
    return [part(*place) for place in dict.fromkeys(places)]


def _datums(lmdb: Path, rows: Iterator[Row]) -> Iterator[tuple[str, Datum]]:
    """Yield name and Datum of each row. Refuses numbers that are not finite."""
    for name, row, label in rows:
        if not np.isfinite(row).all():
            raise ProgramError(f"{lmdb}: the features of {name!r} are not finite: the weights are damaged")
        yield name, lmdb_io.feature_datum(row, int(label))
