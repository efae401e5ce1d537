"""Rows of the speed table for whole nets: training iterations and classification, beside PyTorch and OpenCV."""

import importlib.util
import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path

import caffe
import cv2
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.bench import lmdbs, sides, training
from latent_domains.bench.extent import Extent
from latent_domains.bench.rows import Measured, Row
from latent_domains.bench.turns import OURS, Best, take_turns
from latent_domains.convert.fold.fold import fold
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.model import Model, open_net, write_model
from latent_domains.runs.model_description import ModelDescription
from latent_domains.runs.predict import BATCH

THREADS = (2, 1)

# Net, what PyTorch has in mDA's place, goal on two threads.
TRAINING = (
    ("digits", "plain", 1.0),
    ("digits", "weighted", 0.45),
    ("resnet18", "plain", 1.1),
    ("alexnet", "plain", 1.1),
    ("lite0", "plain", 0.3),
    ("lite0-128", "plain", 0.3),
)

# Net, dataset, images of a batch of evaluation, images that are predicted.
CLASSIFICATION = (("digits", "digits", 223, 1024), ("resnet18", "pacs", 32, 128))


def has_torch() -> bool:
    """Whether PyTorch is installed, which these rows need and the project does not."""
    return importlib.util.find_spec("torch") is not None


def train(net: str, norm: str, threads: int) -> Callable[[Extent], Measured]:
    """The time of a training iteration in Caffe, with mDA, in units of PyTorch's."""

    def measure(extent: Extent) -> Measured:
        beside = {
            OURS: partial(sides.train_caffe, net=net, extent=extent),
            "PyTorch": partial(sides.train_torch, net=net, extent=extent, norm=norm),
        }
        best = take_turns(beside, threads, replace(extent, seconds=3 * extent.seconds))
        detail = ", ".join(f"{name} {_ms(taken.seconds)} (CPU {_ms(taken.cpu)})" for name, taken in best.items())
        return Measured(best[OURS].seconds / best["PyTorch"].seconds, detail)

    return measure


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def evaluate(net: str, dataset: str, batch: int, threads: int, *, exported: bool) -> Callable[[Extent], Measured]:
    """Images a second through the net for tests or, folded, through the ``exported`` one, which OpenCV always runs.

    The value is in units of the faster of the others.
    """

    def measure(extent: Extent) -> Measured:
        trained, folded = (str(prefix) for prefix in _models(net, dataset))
        ours = folded if exported else trained
        images = extent.images(batch)
        beside = {
            OURS: partial(sides.forward_caffe, prefix=ours, batch=images),
            "PyTorch": partial(sides.forward_torch, prefix=ours, batch=images),
            "OpenCV": partial(sides.forward_opencv, prefix=folded, batch=images),
        }
        return _rates(take_turns(beside, threads, extent), images)

    return measure


def predict(net: str, dataset: str, count: int, threads: int) -> Callable[[Extent], Measured]:
    """Images a second that tools.predict reads and classifies, in units of the faster of the others."""

    def measure(extent: Extent) -> Measured:
        _, folded = _models(net, dataset)
        images = extent.images(count)
        folder = _pictures(net, images)
        beside = {
            name: partial(side, prefix=str(folded), folder=str(folder))
            for name, side in (
                (OURS, sides.predict_caffe),
                ("PyTorch", sides.predict_torch),
                ("OpenCV", sides.predict_opencv),
                ("the program, start to exit", sides.predict_program),
            )
        }
        return _rates(take_turns(beside, threads, extent), images)

    return measure


def _rates(best: dict[str, Best], images: int) -> Measured:
    rates = {name: images / taken.seconds for name, taken in best.items()}
    detail = ", ".join(f"{name} {rate:.0f}/s" for name, rate in rates.items())
    return Measured(rates[OURS] / max(rates["PyTorch"], rates["OpenCV"]), detail)


@cache
def _scratch() -> tempfile.TemporaryDirectory:
    """A folder that is removed when the process ends."""
    return tempfile.TemporaryDirectory()


@cache
def _models(net: str, dataset: str) -> tuple[Path, Path]:
    """The deploy net with random parameters, and what tools.export makes of one: what their files' names begin with."""
    data = make_experiment(dataset, "mda").data
    model = random_model(training.NETS[net].read("deploy"))
    description = ModelDescription(net, tuple(map(str, range(data.classes))), data.preprocessing)
    prefixes = Path(_scratch().name) / net, Path(_scratch().name) / f"{net}_folded"
    for prefix, each in zip(prefixes, (model, fold(model).model), strict=True):
        write_model(each, prefix, about="", force=False, beside={prefix.with_suffix(".json"): description.text()})
    return prefixes


def random_model(net: NetParameter) -> Model:
    """A net for tests with random parameters that keep the size of what goes through it."""
    loaded = open_net(net, caffe.TEST)
    rng = np.random.default_rng(0)
    types = {layer.name: layer.type for layer in net.layer}
    blobs = {}
    for name, of_layer in loaded.params.items():
        shapes = [blob.data.shape for blob in of_layer]
        if types[name] in ("Python", "BatchNorm"):
            values = [np.zeros(shapes[0]), np.ones(shapes[1]), np.ones(shapes[2])]
        elif types[name] == "Scale":
            values = [np.full(shapes[0], 0.7), np.zeros(shapes[1])]
        else:
            values = [rng.normal(size=shape) / np.sqrt(np.prod(shape[1:]) / 2) for shape in shapes]
        blobs[name] = [each.astype(np.float32) for each in values]
    return Model(net, blobs)


@cache
def _pictures(net: str, count: int) -> Path:
    """``count`` pictures: digits' PNGs of random pixels at the net's size, JPEGs of photographs for larger nets."""
    folder = Path(_scratch().name) / f"{net}_pictures"
    folder.mkdir()
    channels, height, width = training.NETS[net].image
    if height > 100:
        lmdbs.make_set(folder, None, count, seed=0)
    else:
        rng = np.random.default_rng(0)
        for i in range(count):
            cv2.imwrite(str(folder / f"{i:05d}.png"), rng.integers(0, 256, (height, width, channels), np.uint8))
    return folder


def _all_rows() -> tuple[Row, ...]:
    rows = []
    for threads in THREADS:
        for net, norm, goal in TRAINING:
            name, what = f"train-{net}-{norm}-{threads}", f"mDA / torch {norm} BN"
            rows.append(Row(name, what, goal if threads == 2 else None, True, "×", train(net, norm, threads)))
        for net, dataset, batch, count in CLASSIFICATION:
            for name, measure in (
                ("evaluate", evaluate(net, dataset, batch, threads, exported=False)),
                ("forward", evaluate(net, dataset, BATCH, threads, exported=True)),
                ("predict", predict(net, dataset, count, threads)),
            ):
                rows.append(Row(f"{name}-{net}-{threads}", "Caffe / faster other", 1, False, "×", measure))
    return tuple(rows)


ROWS = _all_rows()
