"""The classifier in a run folder, or in an exported model's files."""

import shlex
from pathlib import Path

import caffe

from latent_domains.common.program import ProgramError
from latent_domains.experiment.networks import BACKBONES
from latent_domains.models.classifier import (
    Classifier,
    ModelDescription,
    description_file,
    in_caffe,
    in_onnx_runtime,
    read_description,
)
from latent_domains.runs.devices import check_available
from latent_domains.runs.outputs import class_names
from latent_domains.runs.run_folder import RunFolder, is_run_folder


def open_classifier(model: Path, mode: str) -> Classifier:
    """Load a model for prediction: from a run folder, from a folder of ``tools.adapt``, or exported.

    ``mode`` is GPU or CPU. On a CPU an exported model is run from its ONNX file, if it has one: ONNX Runtime is faster
    than Caffe. Raises ProgramError if there is no such model, or if its parts do not fit together.
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
    """What the names of an exported model's files begin with: ``model`` is that, one of the files, or their folder."""
    if model.is_dir():
        return model / "model"
    return model.with_suffix("") if model.suffix in (".prototxt", ".caffemodel", ".onnx", ".json") else model


def _in_caffe(net: Path, weights: Path, description: ModelDescription, mode: str) -> Classifier:
    if mode == "GPU":
        check_available(mode, f"{net} was to be run on the GPU")
        caffe.set_mode_gpu()
    return in_caffe(net, weights, description)


def describe_run(folder: RunFolder) -> ModelDescription:
    """The description of a run's model. Classes without names are called by their labels.

    The names come from the record or, without one, from the LMDBs' folder, where other classes may be by now.
    """
    data = folder.experiment.data
    classes = folder.read_record().classes if folder.record.exists() else None
    classes = classes or class_names(folder) or [str(label) for label in range(data.classes)]
    return ModelDescription(
        f"{folder.experiment.dataset}, {folder.experiment.name}", tuple(classes), data.preprocessing
    )
