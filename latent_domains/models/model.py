"""A net with its parameters: the contents of a deploy prototxt and a caffemodel."""

import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format
from numpy.typing import NDArray

from latent_domains.common.caffe_process import ending, ending_with_parent, environment
from latent_domains.common.files import expect_file, write_together
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.wording import some
from latent_domains.models import prototxt
from latent_domains.models.allowed import read_net
from latent_domains.models.prototxt import for_phase
from latent_domains.models.weights import check_weights, for_caffe, put_values

Array = NDArray[np.float32]

_LOAD = """
import sys
from caffe import Net, TEST
net = Net(sys.argv[1], int(sys.argv[2]))
if int(sys.argv[2]) == TEST:
    net.forward()
"""

OF_A_PHASE = ("BatchNorm", "Dropout", "Python")
"""Layers that compute differently in training."""


@dataclass(frozen=True)
class Model:
    """A net, and the parameters of its layers by the layer's name."""

    net: NetParameter
    blobs: Mapping[str, Sequence[Array]]


def read_model(net: Path, weights: Path) -> Model:
    """Read a prototxt and the caffemodel that belongs to it, for the TEST phase.

    Removes the fields of a prototxt that was printed from a caffemodel: weights of losses, parameters, phases.

    Refuses layers that :func:`read_net` or Caffe refuses, layers with parameters that share a name, and weights that
    lack a layer of the net or have another shape. Refuses a layer of OF_A_PHASE in the TRAIN phase.
    """
    for file in (net, weights):
        expect_file(file, "a model's")
    definition = read_net(net)
    check_definition(definition, str(net))
    definition = for_phase(definition, caffe.TEST, net)
    trained = [layer for layer in definition.layer if layer.HasField("phase") and layer.phase == caffe.TRAIN]
    if wrong := [layer.name for layer in trained if layer.type in OF_A_PHASE]:
        raise ProgramError(
            f"{net}: Caffe runs layers with phase: TRAIN as in training: found {some(wrong)}, expected no phase there"
        )
    for layer in definition.layer:
        for name in ("blobs", "loss_weight", "phase"):
            layer.ClearField(name)
    loaded = open_net(definition, caffe.TEST)
    _check_names(net, loaded)
    check_weights(weights, [loaded], [name for name, blobs in loaded.params.items() if blobs])
    with for_caffe(weights) as file:
        loaded.copy_from(str(file))
    return Model(definition, {name: [blob.data.copy() for blob in blobs] for name, blobs in loaded.params.items()})


def check_finite(blobs: Mapping[str, Sequence[Array]], weights: Path) -> None:
    """Raise ProgramError naming the file ``weights`` if a number in the layers' ``blobs`` is not finite."""
    for name, of_layer in blobs.items():
        for i, blob in enumerate(of_layer):
            if not np.isfinite(blob).all():
                raise ProgramError(f"{weights}: blob {i} of layer {name} holds values that are not finite")


def _check_names(net: Path, loaded: caffe.Net) -> None:
    """Raise ProgramError if layers with parameters share a name: Caffe loads all their blobs into the first."""
    named = [name for name, layer in zip(loaded._layer_names, loaded.layers, strict=True) if len(layer.blobs)]
    if several := [name for name in dict.fromkeys(named) if named.count(name) > 1]:
        raise ProgramError(
            f"{net}: several layers with parameters have the name {', '.join(map(repr, several))}, expected one each: "
            "a caffemodel tells layers apart by it"
        )


def check_loads(net: Path, phase: int = caffe.TEST) -> None:
    """Raise ProgramError if Caffe refuses a net or a forward. Caffe would end this process, so another one tries."""
    child = subprocess.run(
        ending_with_parent([sys.executable, "-c", _LOAD, str(net.resolve()), str(phase)]),
        env={**environment(1), "GLOG_minloglevel": "2"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if child.returncode:
        raise ProgramError(f"{net}: Caffe refuses this net: {ending(child.returncode, child.stderr)}")


def load(model: Model) -> caffe.Net:
    """Make a net for the TEST phase out of a model."""
    net = open_net(model.net, caffe.TEST)
    for name, blobs in model.blobs.items():
        for target, blob in zip(net.params[name], blobs, strict=True):
            target.data[...] = blob
    return net


def open_net(net: NetParameter, phase: int) -> caffe.Net:
    """Load a net in Caffe, without filling its large layers (see :func:`as_file`)."""
    with as_file(net) as file:
        return caffe.Net(str(file), phase)


def check_definition(definition: NetParameter, said: str) -> None:
    """Raise ProgramError, beginning with ``said``, if Caffe refuses a net that is not in a file of this Caffe."""
    with as_file(definition) as file:
        try:
            check_loads(file)
        except ProgramError as error:
            raise ProgramError(str(error).replace(str(file), said)) from error


@contextmanager
def as_file(net: NetParameter) -> Iterator[Path]:
    """Yield a prototxt of the net.

    Large layers lose their fillers, which take seconds; weights replace their values.
    """
    quick = NetParameter()
    quick.CopyFrom(net)
    for layer in quick.layer:
        for field in ("convolution_param", "inner_product_param"):
            if layer.HasField(field):
                getattr(layer, field).ClearField("weight_filler")
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(text_format.MessageToString(quick))
        file.flush()
        yield Path(file.name)


def write_model(
    model: Model,
    prefix: Path,
    *,
    about: str,
    force: bool,
    check: Callable[[Path, Path], None] | None = None,
    beside: Mapping[Path, str | bytes] | None = None,
) -> tuple[Path, Path]:
    """Write PREFIX.prototxt, which begins with the comment ``about``, and PREFIX.caffemodel; return their names.

    ``beside`` has the contents of further files. All files are written, or none. ``check`` is called with the model's
    two files before they get their names; if it raises, nothing is written. ``force`` replaces existing files.
    """
    files, beside = model_files(prefix), beside or {}
    with write_together(*files, *beside, force=force) as (text, weights, *asides):
        text.write_text(about_lines(about) + prototxt.net_text(model.net.name, model.net))
        weights.write_bytes(weights_bytes(model))
        for aside, contents in zip(asides, beside.values(), strict=True):
            (aside.write_text if isinstance(contents, str) else aside.write_bytes)(contents)
        if check is not None:
            check(text, weights)
    return files


def weights_bytes(model: Model) -> bytes:
    """Return the contents of a caffemodel: the net's layers with their blobs, then the blobs of other layers."""
    types = {layer.name: layer.type for layer in model.net.layer}
    names = [name for name in types if name in model.blobs] + [name for name in model.blobs if name not in types]
    parts = [NetParameter(name=model.net.name).SerializeToString()]
    for name in names:  # one by one: protobuf needs several times the memory of what it writes
        part = NetParameter()
        layer = part.layer.add(name=name, type=types.get(name, ""))
        for values in model.blobs[name]:
            blob = layer.blobs.add()
            blob.shape.dim[:] = values.shape
            put_values(values, blob)
        parts.append(part.SerializeToString())
    return b"".join(parts)


def model_files(prefix: Path) -> tuple[Path, Path]:
    """Return the names of a model's two files. Refuses a ``prefix`` that is a folder or has their suffix."""
    if prefix.name in ("", ".."):
        raise ProgramError(f"{prefix}: a folder, expected a prefix of the output files' names")
    if prefix.suffix in (".prototxt", ".caffemodel"):
        raise ProgramError(f"{prefix}: expected a prefix of the output files' names, without {prefix.suffix}")
    return prefix.with_name(f"{prefix.name}.prototxt"), prefix.with_name(f"{prefix.name}.caffemodel")


def about_lines(about: str) -> str:
    """Return ``about`` as the comment at the beginning of a prototxt."""
    return "".join(f"# {line}\n" for line in about.splitlines())


def feed(net: caffe.Net, inputs: Array | Mapping[str, Array]) -> None:
    """Make ``inputs`` the next batch: an array for a net with one input, or an array for each input by its name."""
    if not isinstance(inputs, Mapping):
        (name,) = net.inputs
        inputs = {name: inputs}
    for name, rows in inputs.items():
        net.blobs[name].reshape(*rows.shape)
        net.blobs[name].data[...] = rows


def forward(net: caffe.Net, inputs: Array | Mapping[str, Array]) -> dict[str, Array]:
    """Return all blobs of ``net`` after a forward pass with ``inputs`` (:func:`feed`): of in-place layers the last."""
    feed(net, inputs)
    net.forward()
    return {blob: values.data.copy() for blob, values in net.blobs.items()}
