"""What a trained model says about the images of a folder, at any depth: a CSV file of path, class and probability.

    python -m tools.predict runs/mine/model photos --out photos.csv
    python -m tools.predict runs/digits/mda_k2_seed0 digits

MODEL is a run folder, one of python -m tools.adapt, or what the names of an exported model's files begin with
(python -m tools.export): MODEL.prototxt, MODEL.caffemodel and MODEL.json, which says how an image becomes the input.
An image that cannot be read is named and left out.
"""

import argparse
import csv
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray
from tqdm import tqdm

from tools import model_description
from tools.arguments import positive
from tools.convert.model import load, read_model
from tools.evaluate import last_snapshot
from tools.files import check_free, write_aside
from tools.image_datum import Format, make_all
from tools.image_list import SUFFIXES, Entry, class_files
from tools.lmdb_io import by, datum_image
from tools.model_description import Description, description_file
from tools.program import ProgramError, run
from tools.run_folder import RunFolder
from tools.solver_mode import add_mode_option, check_available, choose_mode

BATCH = 16
"""Images that go through the net together."""

UNKNOWN = -1
"""The label of an image whose class nobody knows."""


@dataclass(frozen=True)
class Classifier:
    """A net with one input and class probabilities as its output, and what it takes and means."""

    net: caffe.Net
    description: Description

    def probabilities(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Class probabilities (n×classes) of images of the stored shape (C×H×W)."""
        (name,), (output,) = self.net.inputs, self.net.outputs
        inputs = self.description.preprocessing.inputs(images)
        self.net.blobs[name].reshape(*inputs.shape)
        self.net.blobs[name].data[...] = inputs
        return self.net.forward()[output].reshape(len(inputs), -1).copy()


@dataclass(frozen=True)
class Prediction:
    """The most probable class of an image, and its probability."""

    entry: Entry
    label: int
    probability: float


def open_classifier(model: Path, mode: str) -> Classifier:
    """Load a model for prediction: a run folder's, the one in a folder of ``tools.adapt``, or an exported one.

    ``mode`` is GPU or CPU. Raises ProgramError if there is no such model, or if its parts do not fit together.
    """
    if (model / "experiment.json").is_file():
        folder = RunFolder.load(model)
        net, weights = folder.net("deploy"), last_snapshot(folder).model
        description = model_description.of_run(folder)
    else:
        prefix = model / "model" if model.is_dir() else _prefix(model)
        net, weights = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("prototxt", "caffemodel"))
        if not net.is_file():
            raise ProgramError(f"{model}: no {net.name} there, expected a run folder or an exported model")
        description = model_description.read(description_file(prefix))
    if mode == "GPU":
        check_available(mode, str(model))
        caffe.set_mode_gpu()
    classifier = Classifier(load(read_model(net, weights)), description)
    _check(net, classifier)
    return classifier


def _prefix(model: Path) -> Path:
    """What the names of an exported model's files begin with: one of the files names it too."""
    return model.with_suffix("") if model.suffix in (".prototxt", ".caffemodel", ".json") else model


def _check(file: Path, classifier: Classifier) -> None:
    """Raise ProgramError if the net takes no images, or other ones or classes than its description says."""
    net, description = classifier.net, classifier.description
    if len(net.inputs) != 1 or len(net.outputs) != 1:
        raise ProgramError(f"{file}: inputs {net.inputs}, outputs {net.outputs}, expected one of each")
    form, found = description.preprocessing, tuple(net.blobs[net.inputs[0]].shape)[1:]
    if form.stored_shape[0] not in (1, 3) or form.stored_shape[1] == 1:
        raise ProgramError(f"{file}: its input is {by(form.stored_shape)}, features: expected a net that takes images")
    if found != form.shape:
        raise ProgramError(f"{file}: its input is N×{by(found)}, expected N×{by(form.shape)} by its description")
    classes = int(np.prod(net.blobs[net.outputs[0]].shape[1:]))
    if classes != len(description.classes):
        raise ProgramError(f"{file}: it has {classes} classes, expected {len(description.classes)} by its description")


def predict(
    classifier: Classifier, entries: Sequence[Entry], *, jobs: int = 1, desc: str = "predict"
) -> Iterator[Prediction]:
    """Yield what ``classifier`` says of each image, in order, read as an LMDB's images are.

    What cannot be read is named on stderr and left out. Raises ProgramError if a score is no number.
    """
    channels, height, width = classifier.description.preprocessing.stored_shape
    form = Format((height, width), gray=channels == 1)
    waiting: list[tuple[Entry, NDArray[np.uint8]]] = []

    def go() -> Iterator[Prediction]:
        rows = classifier.probabilities([image for _, image in waiting])
        if not np.isfinite(rows).all():
            raise ProgramError(f"{classifier.description.name}: its probabilities are NaN: the training diverged")
        for (entry, _), row in zip(waiting, rows, strict=True):
            yield Prediction(entry, int(row.argmax()), float(row.max()))
        waiting.clear()

    made = make_all(entries, form, jobs)
    for entry, one in zip(entries, tqdm(made, desc=desc, total=len(entries), unit="img"), strict=True):
        if one.failure is not None:
            tqdm.write(f"left out {entry.file}: {one.failure}", file=sys.stderr)
            continue
        waiting.append((entry, datum_image(Datum.FromString(one.datum))))
        if len(waiting) == BATCH:
            yield from go()
    if waiting:
        yield from go()


def folder_entries(folder: Path) -> list[Entry]:
    """All images of a folder, at any depth and sorted, named by their paths in it; their label says unknown.

    Raises ProgramError if there are none.
    """
    if not folder.is_dir():
        found = "a file" if folder.exists() else "no such folder"
        raise ProgramError(f"{folder}: {found}, expected a folder of images")
    images, _ = class_files(folder)
    if not images:
        raise ProgramError(f"{folder}: no images in it (names ending in {' '.join(sorted(SUFFIXES))})")
    return [Entry(file, str(file.relative_to(folder)), UNKNOWN) for file in images]


def write_predictions(out: Path, predictions: Iterator[Prediction], classes: Sequence[str]) -> tuple[int, int, int]:
    """Write path, class and probability of each image and, if some labels are known, the true class.

    Returns how many images there are, how many of them have a known class, and for how many it was found. Raises
    ProgramError if there is no image at all.
    """
    images = known = correct = 0
    with write_aside(out) as aside, aside.open("w", newline="", errors="surrogateescape") as file:
        writer = csv.writer(file)
        for prediction in predictions:
            label = prediction.entry.label
            if images == 0:
                labelled = label != UNKNOWN
                writer.writerow(["path", "class", "probability", *(["true class"] if labelled else [])])
            row = [prediction.entry.name, classes[prediction.label], f"{prediction.probability:.6f}"]
            writer.writerow([*row, *([classes[label]] if label != UNKNOWN else [])])
            images += 1
            known += label != UNKNOWN
            correct += label == prediction.label
        if images == 0:
            raise ProgramError(f"{out}: none of the images could be read, so there is nothing to write")
    return images, known, correct


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.predict", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path, metavar="MODEL", help="run folder, or beginning of a model's file names")
    parser.add_argument("images", type=Path, metavar="DIR", help="folder of images, at any depth")
    parser.add_argument(
        "--out", type=Path, default=Path("predictions.csv"), metavar="FILE", help="default: %(default)s"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    parser.add_argument(
        "--jobs", type=positive, default=len(os.sched_getaffinity(0)), help="processes that read (default: one a core)"
    )
    add_mode_option(parser)
    options = parser.parse_args()
    check_free(options.out, force=options.force)
    entries = folder_entries(options.images)
    classifier = open_classifier(options.model, choose_mode(options.solver_mode, "GPU"))
    predictions = predict(classifier, entries, jobs=options.jobs)
    images, _, _ = write_predictions(options.out, predictions, classifier.description.classes)
    left_out = f", {len(entries) - images} left out" if images < len(entries) else ""
    print(f"{options.out}: {images} images{left_out}")
    return 0


if __name__ == "__main__":
    run(main)
