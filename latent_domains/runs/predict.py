"""Predict classes and domains of new pictures, with a run folder or an exported model's files."""

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import Entry
from latent_domains.data.preprocessing import Reading
from latent_domains.domains.statistics import LinearDomains, statistics_of
from latent_domains.experiment.datasets import PICTURE_SHAPE
from latent_domains.experiment.networks import BACKBONES
from latent_domains.models.classifier import (
    BATCH,
    Classifier,
    ModelDescription,
    description_file,
    in_caffe,
    in_onnx_runtime,
    read_description,
)
from latent_domains.models.model import feed
from latent_domains.runs.devices import check_available
from latent_domains.runs.outputs import class_names
from latent_domains.runs.run_folder import RunFolder, is_run_folder


def open_classifier(model: Path, mode: str) -> Classifier:
    """Load a model for prediction: from a run folder, from a folder of ``tools.adapt``, or exported.

    ``mode`` is GPU or CPU. On a CPU an exported model runs from its ONNX file, if it has one: ONNX Runtime is faster
    than Caffe.
    """
    if is_run_folder(model):
        folder = RunFolder.load(model)
        if (features := folder.experiment.data.features) and features.backbone in BACKBONES:
            raise ProgramError(
                f"{model}: a classifier of features of {features.backbone}, expected a net that takes images: "
                f"python -m tools.export {shlex.quote(str(model))} MODEL makes one of it"
            )
        return _in_caffe(folder.net("deploy"), folder.final_snapshot().model, describe_run(folder), mode)
    prefix = prefix_of(model)
    net, weights, onnx = (prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("prototxt", "caffemodel", "onnx"))
    by_caffe = mode == "GPU" or model.suffix in (".prototxt", ".caffemodel")
    if (model.suffix == ".onnx" and not model.is_dir()) or (onnx.is_file() and not by_caffe):
        return in_onnx_runtime(onnx, weights, read_description(description_file(prefix)))
    if not net.is_file():
        raise ProgramError(f"{model}: no {net.name} there, expected a run folder or an exported model")
    return _in_caffe(net, weights, read_description(description_file(prefix)), mode)


def prefix_of(model: Path) -> Path:
    """Return the prefix of an exported model's files; ``model`` is that prefix, one of the files, or their folder."""
    if model.is_dir():
        return model / "model"
    return model.with_suffix("") if model.suffix in (".prototxt", ".caffemodel", ".onnx", ".json") else model


def _in_caffe(net: Path, weights: Path, description: ModelDescription, mode: str) -> Classifier:
    if mode == "GPU":
        check_available(mode, f"{net} was to be run on the GPU")
        caffe.set_mode_gpu()
    return in_caffe(net, weights, description)


def describe_run(folder: RunFolder) -> ModelDescription:
    """Return the description of a run's model. Classes without names get their labels as names.

    The names come from the record or, without one, from the LMDBs' folder, whose classes may have changed since.
    """
    data = folder.experiment.data
    classes = folder.read_record().classes if folder.record_file.exists() else None
    classes = classes or class_names(folder) or [str(label) for label in range(data.classes)]
    return ModelDescription(
        f"{folder.experiment.dataset}, {folder.experiment.name}", tuple(classes), data.preprocessing
    )


Backbone = Callable[[Sequence[str] | None], OnnxBackbone]
"""Makes EfficientNet-Lite0 with statistics of these blocks, or (None) of the blocks in its datasets of features."""


def predict_domains(
    model: Path, entries: Sequence[Entry], backbone: Backbone, middle: Sequence[str], *, reading: Reading, jobs: int
) -> Mapping[Entry, NDArray[np.floating]]:
    """Return the probabilities of the source domains (k) for each readable picture.

    They come from the linear model beside ``model``, on statistics of the ``middle`` blocks; or from the branch of its
    run: ``model`` is the run folder, or a folder of tools.adapt. Refuses a model with neither.
    """
    prefix = model.parent / "model" if is_run_folder(model) else prefix_of(model)
    file, run = prefix.with_name(f"{prefix.name}.domains.npz"), model if is_run_folder(model) else prefix.parent / "run"
    if file.is_file():
        made = backbone(middle)
        linear = LinearDomains.read(file, made)
        rows = statistics_of(entries, made, reading=reading, jobs=jobs, skip_unreadable=True)
        return {entry: linear.probabilities(row[np.newaxis])[0] for entry, row in rows}
    folder = RunFolder.load(run) if is_run_folder(run) else None
    if folder is None or not folder.experiment.method.has_branch:
        raise ProgramError(
            f"{model}: it predicts no domains, expected a run with a branch (mda), or a model that tools.adapt "
            "trained on clusters of style or on domains of a file"
        )
    return dict(_by_branch(folder, entries, backbone, reading, jobs))


def _by_branch(
    folder: RunFolder, entries: Sequence[Entry], backbone: Backbone, reading: Reading, jobs: int
) -> Iterator[tuple[Entry, NDArray[np.float32]]]:
    data = folder.experiment.data
    of_features = data.features is not None
    if of_features and data.features.backbone not in BACKBONES:
        raise ProgramError(
            f"{folder.path}: domains by features of {data.features.backbone}, expected those of pictures"
        )
    made = backbone(None) if of_features else None
    channels, *size = PICTURE_SHAPE if of_features else data.preprocessing.stored_shape
    form = Format(tuple(size), gray=channels == 1, reading=reading)
    net = folder.load_net("domains", caffe.TEST, folder.final_snapshot().model)
    readable = make_readable(entries, form, jobs, skip=True)
    while batch := list(islice(readable, BATCH)):
        pictures = [one.planes for _, one in batch]
        if made is None:
            inputs = data.preprocessing.inputs(pictures)
        else:
            inputs = np.stack([made.features(picture) for picture in pictures])[:, :, np.newaxis, np.newaxis]
        feed(net, inputs)
        for (entry, _), row in zip(batch, net.forward()["domain_prob"].copy(), strict=True):
            yield entry, row
