"""A net of stock Caffe layers and its weights as one ONNX model."""

from collections.abc import Callable, Sequence
from pathlib import Path

import caffe
import onnx
import onnxruntime
from caffe.proto.caffe_pb2 import NetParameter
from onnx import ModelProto

from latent_domains.common.files import check_free, expect_file, sha256, write_together
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.convert.onnx.graph import OPSET
from latent_domains.convert.onnx.layer import Refused
from latent_domains.convert.onnx.net import BATCH, blob_names, check_layers, onnx_model
from latent_domains.convert.onnx.verify import MEAN, compare
from latent_domains.convert.options import ConverterOptions, pixels_hint
from latent_domains.models.allowed import DATA, read_net
from latent_domains.models.compare import require, worst
from latent_domains.models.definition import for_phase
from latent_domains.models.model import check_finite, load, read_model
from latent_domains.models.onnx_runtime import MADE_OF

PRODUCER = "caffe-latent-domains"


def export_onnx(
    net: Path,
    weights: Path,
    out: Path,
    options: ConverterOptions,
    *,
    mean: Sequence[float] = (),
    scale: float = 1.0,
    check: Callable[[Path], None] | None = None,
) -> None:
    """Write a model of Caffe as the ONNX file ``out``, and print what there is to say about it.

    It is compared on pixels less ``mean``, by default MEAN, times ``scale``.
    ``check`` is called with the file before it gets its name: if it raises, there is none. Raises ProgramError as
    :func:`converted` does or, where that is verified, if ONNX Runtime finds something else than Caffe.
    """
    check_free(out, force=options.force, inputs=(net, weights))
    made, definition, loaded = converted(net, weights)
    (entry,) = loaded.inputs
    with write_together(out, force=options.force) as (aside,):
        aside.write_bytes(made.SerializeToString())
        if options.verify:
            rows = compare(definition, loaded, made, aside, options.images, mean or (MEAN,), scale)
            require(weights, rows, hint=pixels_hint(mean, scale, MEAN))
        if check is not None:
            check(aside)
    takes = f"{entry} {_free(loaded.blobs[entry].shape)}"
    gives = ", ".join(f"{output.name} {_free(_sizes(output))}" for output in made.graph.output)
    print(f"{out}: operator set {OPSET}, {len(made.graph.node)} nodes; {takes} → {gives}")
    if options.verify:
        furthest = worst(rows)
        print(
            f"ONNX Runtime {onnxruntime.__version__} agrees with Caffe: of {len(blob_names(made, loaded.blobs))} blobs "
            f"{furthest.name} differs most, by {furthest.relative:.1e} of its largest value"
        )
    else:
        print("not verified")


def converted(net: Path, weights: Path) -> tuple[ModelProto, NetParameter, caffe.Net]:
    """Return a model as ONNX, its definition, and the Caffe net with its weights.

    Raises ProgramError naming the file if one is missing, damaged or not the other's, or if the net has a layer with
    no exact counterpart in ONNX.
    """
    expect_file(net, "a deploy net")
    try:
        definition = for_phase(read_net(net, DATA), caffe.TEST, net)
        check_layers(definition)  # before Caffe opens what its layers name
        model = read_model(net, weights)
        check_finite(model.blobs, weights)
        loaded = load(model)
        made = onnx_model(
            model,
            loaded,
            producer=PRODUCER,
            about=_about(net),
            metadata={
                "net": net.name,
                "weights": weights.name,
                MADE_OF: sha256(weights),
            },
        )
    except Refused as refused:
        raise ProgramError(f"{net}: {refused}") from refused
    try:
        onnx.checker.check_model(made, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError) as error:
        raise ProgramError(f"{net}: onnx.checker refuses what was made of it: {error}") from error
    return made, definition, loaded


def _about(net: Path) -> str:
    """The comment that the prototxt begins with: the converters say in it what the input must be."""
    comment = []
    for line in net.read_text().splitlines():
        if not line.startswith("#"):
            break
        comment.append(line.removeprefix("#").strip())
    return "\n".join(comment)


def _free(shape: tuple[int, ...]) -> str:
    return f"{BATCH}×{by(tuple(shape)[1:])}"


def _sizes(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    """A value's declared shape; the batch counts as 0."""
    return tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
