"""Classes of pictures by a trained model, and the description that goes with it: classes and preprocessing."""

import csv
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.files import expect_file, read_json, write_aside
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import UNKNOWN, Entry
from latent_domains.data.lmdb_io import by, datum_image
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.models.model import load, read_model
from latent_domains.runs.devices import check_available
from latent_domains.runs.evaluate import last_snapshot
from latent_domains.runs.outputs import class_names
from latent_domains.runs.run_folder import RunFolder


@dataclass(frozen=True)
class ModelDescription:
    """``name`` says where the model comes from; ``classes`` are named in the order of the net's outputs."""

    name: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing

    def text(self) -> str:
        """The text of the file."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def description_file(prefix: Path) -> Path:
    """The file's name, beside PREFIX.prototxt and PREFIX.caffemodel."""
    return prefix.with_name(f"{prefix.name}.json")


def describe_run(folder: RunFolder) -> ModelDescription:
    """The description of a run's model. Classes without names are called by their labels.

    The names stand beside the LMDBs, and in the record, which is still there when the LMDBs are not.
    """
    data = folder.experiment.data
    classes = class_names(folder)
    if classes is None and folder.record.exists():
        classes = folder.read_record().get("classes")
    classes = classes or [str(label) for label in range(data.classes)]
    return ModelDescription(
        f"{folder.experiment.dataset}, {folder.experiment.name}", tuple(classes), data.preprocessing
    )


def read_description(file: Path) -> ModelDescription:
    """Read the file. Raises ProgramError naming it if it is missing, damaged or contradicts itself."""
    expect_file(file, "the classes and the preprocessing of a model (python -m tools.export writes it)")
    try:
        description = checked(ModelDescription, read_json(file, ()), "model")
        _check_description(description)
    except ProgramError as error:
        text = str(error)
        raise ProgramError(text if text.startswith(str(file)) else f"{file}: {text}") from error
    return description


def _check_description(description: ModelDescription) -> None:
    form = description.preprocessing
    if len(set(description.classes)) != len(description.classes) or not description.classes:
        raise ProgramError(f"classes: got {list(description.classes)}, expected each name once")
    if min(form.stored_shape) < 1 or not 1 <= (form.crop or 1) <= min(form.stored_shape[1:]):
        raise ProgramError(f"crop: got {form.crop} of images of {list(form.stored_shape)}, expected one that fits")
    if len(form.mean) not in (0, 1, form.stored_shape[0]):
        raise ProgramError(f"mean: got {list(form.mean)}, expected one value, or one for each channel")


BATCH = 16
"""Images that go through the net together."""


@dataclass(frozen=True)
class Classifier:
    """A net with one input and class probabilities as its output, and what it takes and means."""

    net: caffe.Net
    description: ModelDescription

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
        description = describe_run(folder)
    else:
        prefix = model / "model" if model.is_dir() else _prefix(model)
        net, weights = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("prototxt", "caffemodel"))
        if not net.is_file():
            raise ProgramError(f"{model}: no {net.name} there, expected a run folder or an exported model")
        description = read_description(description_file(prefix))
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

    readable = make_readable(entries, form, jobs, skip=True)
    for entry, one in tqdm(readable, desc=desc, total=len(entries), unit="img"):
        waiting.append((entry, datum_image(Datum.FromString(one.datum))))
        if len(waiting) == BATCH:
            yield from go()
    if waiting:
        yield from go()


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
