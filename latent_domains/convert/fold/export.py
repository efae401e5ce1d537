"""Fold a model's normalisation into stock layers, verify it, write it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import cv2

from latent_domains.common.files import check_free
from latent_domains.common.program import ProgramError
from latent_domains.convert.backbone_and_head import check_on_pictures, is_head, picture_input, picture_net
from latent_domains.convert.fold.fold import Folded, fold
from latent_domains.convert.fold.verify import batches_for, compare_nets, compare_opencv
from latent_domains.convert.options import ConverterOptions, pixels_hint
from latent_domains.data.preprocessing import Transform
from latent_domains.models.allowed import DATA, read_net
from latent_domains.models.classifier import ModelDescription, description_file
from latent_domains.models.compare import TOLERANCE, in_words, require, tried, worst
from latent_domains.models.model import Array, Model, check_finite, forward, load, model_files, read_model, write_model
from latent_domains.runs.predict import describe_run
from latent_domains.runs.run_folder import RunFolder


@dataclass(frozen=True)
class Source:
    """The model to export, and how pixels become its input.

    ``description`` exists if a run is the source; ``head`` if its net reads a backbone's features: then the backbone is
    put before it.
    """

    name: str
    net: Path
    weights: Path
    transform: Transform
    description: ModelDescription | None = None
    head: RunFolder | None = None


def read(source: Source) -> Model:
    """Read the model. Refuses one that is not for tests, or has several inputs."""
    net = read_net(source.net, DATA)
    if found := [f"{layer.name} ({layer.type})" for layer in net.layer if layer.type in DATA]:
        raise ProgramError(
            f"{source.net}: its layers {', '.join(found)} read data, expected a deploy net (with an Input layer)"
        )
    model = read_model(source.net, source.weights)
    check_finite(model.blobs, source.weights)
    if source.head is not None:
        model = picture_net(source.head, model)
    found = [layer for layer in model.net.layer if layer.type == "Input"]
    tops = [top for layer in found for top in layer.top]
    if len(tops) != 1 or len(found[0].input_param.shape) != 1 or len(found[0].input_param.shape[0].dim) < 2:
        raise ProgramError(
            f"{source.net}: its inputs are {', '.join(tops) or 'none'}, expected one of a shape N×C×… (a deploy net)"
        )
    return model


def export(source: Source, prefix: Path, options: ConverterOptions, *, opencv: bool = True) -> None:
    """Write the folded model and print notes about it. ``opencv``: whether OpenCV verifies it too.

    Refuses a model that cannot be folded, or whose results change by it, if that is verified.
    """
    files, beside = model_files(prefix), {}
    if source.description is not None:
        beside[description_file(prefix)] = source.description.text()
    elif description_file(prefix).exists():
        raise ProgramError(f"{description_file(prefix)}: describes another model: remove it or choose another name")
    check_free(*files, *beside, force=options.force, inputs=(source.net, source.weights))
    model = read(source)
    folded = fold(model)
    (shape,) = [layer.input_param.shape[0].dim for layer in model.net.layer if layer.type == "Input"]
    about = (
        f"{source.name} in stock layers of Caffe, made by python -m tools.export.\n"
        f"{in_words(tuple(shape[1:]), source.transform)}"
    )
    print(f"layers: {len(model.net.layer)}, folded {len(folded.model.net.layer)}")
    for note in folded.notes:
        print(f"note: {note}")
    check = None
    if options.verify:
        rows, names = tried(tuple(shape[1:]), options.images, source.transform)
        check = partial(_verify, source, model, folded, rows, names, opencv)
    else:
        print("not verified")
    write_model(folded.model, prefix, about=about, force=options.force, check=check, beside=beside)
    print(f"wrote {' and '.join(map(str, (*files, *beside)))}")


def _verify(
    source: Source, model: Model, folded: Folded, rows: Array, names: str, opencv: bool, net: Path, weights: Path
) -> None:
    """Compare the model with the files that were written and print how they compare.

    Refuses files whose results differ, in Caffe or in OpenCV.
    """
    original, written = load(model), load(read_model(net, weights))
    batches = batches_for(model.net, rows)
    found, outputs = compare_nets(original, written, folded, batches)
    hint = "" if source.description else pixels_hint(source.transform, 0)
    require(source.weights, found, hint=hint)
    furthest = worst(found)
    print(f"largest difference in {len(found)} blobs, on {names}: {furthest.relative:.1e} ({furthest.name})")
    if opencv and folded.heads:
        _verify_in_opencv(folded, batches, outputs, net, weights, hint)
    if source.head is not None:
        (output,) = written.outputs
        check_on_pictures(source.head, source.weights, lambda pictures: forward(written, pictures)[output], "Caffe")


def _verify_in_opencv(
    folded: Folded,
    batches: Sequence[Array],
    expected: Sequence[Mapping[str, Array]],
    net: Path,
    weights: Path,
    hint: str,
) -> None:
    """Compare OpenCV's results from the files with those ``expected`` for each batch, and print how they compare.

    If they differ, the error ends in the ``hint``. Caffe has agreed before.
    """
    opencv = f"OpenCV {cv2.__version__}"
    only = (
        "Caffe runs the folded net as the one that was read, OpenCV does not; nothing is written (but by --no-opencv)"
    )
    try:
        agreement = compare_opencv(net, weights, folded, batches, expected)
    except cv2.error as error:
        onnx = f"python -m tools.export_onnx makes an ONNX file of it, which {opencv} may run"
        print(f"{opencv} cannot run {net.name}, which Caffe does: {error.err or error}; {onnx}")
        return
    except ProgramError as error:
        raise ProgramError(f"{opencv}: {error}: {only}") from error
    output = agreement.furthest
    best = f"top-1 of {agreement.same} of {agreement.inputs} inputs the same, " if agreement.inputs else ""
    result = f"{opencv}: {best}largest difference in {output.name} {output.relative:.1e}"
    if agreement.same < agreement.inputs or not output.relative <= TOLERANCE:
        raise ProgramError(f"{result}, expected all of them and at most {TOLERANCE:g}{hint}: {only}")
    print(result)


def run_source(folder: RunFolder, weights: Path | None = None) -> Source:
    """Return a run's deploy net with ``weights`` (None: those of its last iteration)."""
    description = describe_run(folder)
    if is_head(folder):
        of_pictures = replace(picture_input(folder), reading=description.preprocessing.reading)
        description = replace(description, preprocessing=of_pictures)
    form = description.preprocessing
    model, head = weights or folder.final_snapshot().model, folder if is_head(folder) else None
    return Source(f"{description.name},", folder.net("deploy"), model, form.transform, description, head)
