"""Apply nets to pictures: classes by a trained model with its description, or a blob for the images of an LMDB."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Annotated

import caffe
import numpy as np
from annotated_types import MinLen
from numpy.typing import NDArray
from pydantic import AfterValidator
from tqdm import tqdm

from latent_domains.common.files import expect_file, json_text, read_json, sha256, write_csv
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ProgramError
from latent_domains.common.start import most_pixels
from latent_domains.common.validation import checked
from latent_domains.common.wording import by
from latent_domains.data.image_datum import Format, Made, make_readable
from latent_domains.data.image_list import UNKNOWN, Entry
from latent_domains.data.input_batches import batches
from latent_domains.data.lmdb_io import count
from latent_domains.data.preprocessing import Preprocessing, Reading
from latent_domains.models.model import feed, load, read_model
from latent_domains.models.onnx_file import MADE_OF, Runtime, check_onnx


def _distinct(classes: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(classes)) != len(classes):
        raise ValueError(f"found {list(classes)}, expected each name once")
    return classes


def _consistent(form: Preprocessing) -> Preprocessing:
    if math.prod(form.stored_shape[1:]) > most_pixels():
        raise ValueError(f"stored_shape: found {list(form.stored_shape)}, expected at most {most_pixels()} pixels")
    if (form.crop or 1) > min(form.stored_shape[1:]):
        raise ValueError(f"crop: found {form.crop} of images of {list(form.stored_shape)}, expected one that fits")
    if len(form.mean) not in (0, 1, form.stored_shape[0]):
        raise ValueError(f"mean: found {list(form.mean)}, expected one value, or one for each channel")
    return form


@dataclass(frozen=True)
class ModelDescription:
    """``name`` says where the model comes from; ``classes`` are in the order of the net's outputs."""

    name: str
    classes: Annotated[tuple[str, ...], MinLen(1), AfterValidator(_distinct)]
    preprocessing: Annotated[Preprocessing, AfterValidator(_consistent)]

    def text(self) -> str:
        """Return the text of the file."""
        return json_text(asdict(self))


def description_file(prefix: Path) -> Path:
    """Return the name of the description, beside PREFIX.prototxt and PREFIX.caffemodel."""
    return prefix.with_name(f"{prefix.name}.json")


def read_description(file: Path) -> ModelDescription:
    """Read the file. Refuses a description that contradicts itself."""
    expect_file(file, "the classes and the preprocessing of a model (python -m tools.export writes it)")
    return checked(ModelDescription, read_json(file), str(file))


BATCH = 16
"""Images that go through the net together."""


@dataclass(frozen=True)
class Classifier:
    """A loaded net from images to class probabilities, with its description.

    ``in_threads``: several threads may use it at once with one image each; else one thread uses it with BATCH images.
    """

    forward: Callable[[NDArray[np.float32]], NDArray[np.float32]]
    description: ModelDescription
    in_threads: bool = False

    def probabilities(self, images: Sequence[NDArray[np.uint8]]) -> NDArray[np.float32]:
        """Return class probabilities (n×classes) of images of the stored shape (C×H×W)."""
        return self.forward(self.description.preprocessing.inputs(images)).reshape(len(images), -1)


@dataclass(frozen=True)
class Prediction:
    """The most probable class of an image, and its probability."""

    entry: Entry
    label: int
    probability: float


def in_caffe(file: Path, weights: Path, description: ModelDescription) -> Classifier:
    """Load a net and its weights in Caffe. Refuses a description that does not fit them."""
    net = load(read_model(file, weights))
    shapes = {name: blob.shape for name, blob in net.blobs.items()}
    _check(file, {name: shapes[name] for name in net.inputs}, {name: shapes[name] for name in net.outputs}, description)
    (output,) = net.outputs

    def forward(inputs: NDArray[np.float32]) -> NDArray[np.float32]:
        feed(net, inputs)
        return net.forward()[output].copy()

    return Classifier(forward, description)


def in_onnx_runtime(file: Path, weights: Path, description: ModelDescription) -> Classifier:
    """Load an ONNX file in ONNX Runtime. Refuses a description that does not fit it.

    ``weights`` is the caffemodel from which it was made; if it exists and has changed, the ONNX file is refused.
    """
    check_onnx(file)
    net = Runtime(str(file), name=str(file), threads=1)
    made_of = net.metadata.get(MADE_OF)
    if made_of and weights.is_file() and made_of != sha256(weights):
        raise ProgramError(
            f"{file}: made of other weights than those in {weights.name}: make it again (python -m tools.export_onnx)"
        )
    _check(file, net.inputs, net.outputs, description)
    (name,), (output,) = net.inputs, net.outputs
    return Classifier(lambda inputs: net.forward({name: inputs})[output], description, in_threads=True)


Shapes = Mapping[str, Sequence[int | str]]


def _check(file: Path, inputs: Shapes, outputs: Shapes, description: ModelDescription) -> None:
    """Raise ProgramError unless the net takes images, of the shape and with the classes of its description."""
    if len(inputs) != 1 or len(outputs) != 1:
        raise ProgramError(f"{file}: inputs {list(inputs)}, outputs {list(outputs)}, expected one of each")
    ((_, *found),), ((_, *classes),) = inputs.values(), outputs.values()
    stored, expected = description.preprocessing.stored_shape, description.preprocessing.shape
    if stored[0] not in (1, 3) or stored[1] == 1:
        raise ProgramError(f"{file}: its input is {by(stored)}, features: expected a net that takes images")
    if tuple(found) != expected:
        raise ProgramError(f"{file}: its input is N×{by(found)}, expected N×{by(expected)} by its description")
    number, names = math.prod(size if isinstance(size, int) else 0 for size in classes), len(description.classes)
    if number != names:
        raise ProgramError(f"{file}: it has {number} classes, expected {names} by its description")


def predict(
    classifier: Classifier, entries: Sequence[Entry], *, reading: Reading, jobs: int = 1, desc: str = "predict"
) -> Iterator[Prediction]:
    """Yield the prediction of ``classifier`` for each image, in order, read as an LMDB's images are.

    Unreadable images are named on stderr and skipped. ``desc`` labels the progress bar. Refuses a net whose scores are
    NaN.
    """
    channels, height, width = classifier.description.preprocessing.stored_shape
    form = Format((height, width), gray=channels == 1, reading=reading)

    def classify(images: list[tuple[Entry, Made]]) -> tuple[list[Entry], NDArray[np.float32]]:
        rows = classifier.probabilities([made.planes for _, made in images])
        return [entry for entry, _ in images], rows

    readable, size = make_readable(entries, form, jobs, skip=True), 1 if classifier.in_threads else BATCH
    batches = iter(lambda: list(islice(readable, size)), [])
    classified = in_threads(classify, batches, jobs) if classifier.in_threads else map(classify, batches)
    with tqdm(desc=desc, total=len(entries), unit="img") as bar:
        for images, rows in classified:
            if not np.isfinite(rows).all():
                raise ProgramError(f"{classifier.description.name}: its probabilities are NaN: the training diverged")
            for entry, row in zip(images, rows, strict=True):
                yield Prediction(entry, int(row.argmax()), float(row.max()))
            bar.update(len(images))


def write_predictions(
    out: Path,
    predictions: Iterator[Prediction],
    classes: Sequence[str],
    *,
    labelled: bool = False,
    domains: Mapping[Entry, Sequence[float]] | None = None,
) -> int:
    """Write path, class and probability of each image and, if some labels are known (``labelled``), the true class.

    If ``domains`` has the probabilities of each image's domains, also write the most probable domain (from 1) and its
    probability. Returns the number of images. Refuses to write an empty file.
    """

    def rows() -> Iterator[list[str]]:
        prediction = None
        for prediction in predictions:
            label = prediction.entry.label
            row = [prediction.entry.name, classes[prediction.label], f"{prediction.probability:.6f}"]
            of_domain: list[str] = []
            if domains is not None:
                found = np.asarray(domains[prediction.entry])
                of_domain = [str(found.argmax() + 1), f"{found.max():.6f}"]
            yield [*row, *([classes[label] if label != UNKNOWN else ""] if labelled else []), *of_domain]
        if prediction is None:
            raise ProgramError(f"{out}: none of the images could be read, so there is nothing to write")

    header = ["path", "class", "probability", *(["true class"] if labelled else [])]
    return write_csv(out, [*header, *(["domain", "probability of the domain"] if domains is not None else [])], rows())


def blob_of_images(
    net: caffe.Net, blob: str, lmdb: Path, form: Preprocessing, batch_size: int, limit: int | None = None
) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return a net's ``blob`` (n×…) and the labels (n) for an LMDB's images: the first ``limit``, or all."""
    number, rows = count(lmdb), []
    with tqdm(desc=f"{blob} of {lmdb.name}", total=min(limit or number, number), unit="img", leave=False) as bar:
        for inputs, classes in batches(lmdb, form, batch_size, limit):
            feed(net, inputs)
            net.forward()
            rows.append((net.blobs[blob].data.copy(), classes))
            bar.update(len(inputs))
    found, labels = map(np.concatenate, zip(*rows, strict=True))
    return found, labels
