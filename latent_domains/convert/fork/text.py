"""The fork's prototxts as nets of Caffe's own messages: template fields (``%NAME%``) filled, layers replaced.

Layers that stock Caffe lacks become the Python layers of :mod:`latent_domains.convert.fork.reference`: from then on the
net is one that Caffe runs.
"""

import json
import re
import sys
from collections.abc import Collection, Mapping
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import BatchNormParameter, LayerParameter, LossParameter, NetParameter
from google.protobuf import text_format

from latent_domains.common.files import read_text
from latent_domains.common.program import ProgramError
from latent_domains.models.allowed import DATA, check_allowed
from latent_domains.models.prototxt import with_round_modes

MODULE = "latent_domains.convert.fork.reference"
MULTIMODAL, ENTROPY = "MultiModalBatchNorm", "EntropyLoss"

_COMMENT = re.compile(r"^\s*#.*$", re.MULTILINE)
_TEMPLATE = re.compile(r"(\w+)\s*:[^:%\n]*%(\w+)%")
"""A template field, behind the name of the field whose value it is."""

_OF_TRAINING = ("batch_size", "source", "root_folder", "loss_weight", "slice_point")
"""Fields that the training net alone depends on."""

_WHAT = "a prototxt of the authors' fork of Caffe"


def read_template(file: Path, values: Mapping[str, str]) -> tuple[NetParameter, list[str]]:
    """The net of ``file`` with the ``values`` of its template fields, and the fields that a training net lacks.

    A field without a value is 1. Fields that Caffe does not know are passed over with a warning. Raises ProgramError
    naming ``file`` if it is no prototxt, if :func:`check_allowed` refuses a layer, if a field of ``values`` is not in
    it, or if a value is missing that every net needs.
    """
    try:
        text = _COMMENT.sub("", read_text(file))
    except UnicodeDecodeError as error:
        raise ProgramError(f"{file}: not {_WHAT}: {error}") from error
    net = _parse(file, re.sub(r"%(\w+)%", lambda name: values.get(name[1], "1"), text))
    return net, _missing(file, text, values)


def _missing(file: Path, text: str, given: Collection[str]) -> list[str]:
    """The template fields without a value that only a training net needs."""
    found: dict[str, set[str]] = {}
    for field, name in _TEMPLATE.findall(text):
        found.setdefault(name, set()).add(field)
    if odd := [name for name in given if name not in found]:
        raise ProgramError(
            f"--set {', '.join(odd)}: {file} has no such template field; it has {', '.join(sorted(found)) or 'none'}"
        )
    missing = sorted(name for name in found if name not in given and not name.startswith("TEST_"))
    if needed := [name for name in missing if not found[name].issubset(_OF_TRAINING)]:
        raise ProgramError(f"{file}: it needs a value for {', '.join(needed)}: give each with --set NAME=VALUE")
    return missing


def _parse(file: Path, text: str) -> NetParameter:
    """The net of a text without template fields, with Python layers in place of the fork's."""
    text = re.sub(r"\bmultimodal_batch_norm_param\b", "batch_norm_param", text)  # the same fields and defaults
    text = with_round_modes(text)
    try:
        try:
            net = text_format.Parse(text, NetParameter())
        except text_format.ParseError as error:
            if "has no field named" not in str(error):
                raise
            net = text_format.Parse(text, NetParameter(), allow_unknown_field=True)
            print(f"warning: {file}:{error}: passed over, and all such fields", file=sys.stderr)
    except (text_format.ParseError, RecursionError) as error:
        raise ProgramError(f"{file}: not {_WHAT}: {error}") from error
    check_allowed(net, file, [*DATA, MULTIMODAL, ENTROPY])
    for layer in net.layer:
        if layer.type == MULTIMODAL:
            _make_python(layer, statistics_param(layer.batch_norm_param))
        elif layer.type == ENTROPY:
            _check_entropy(file, layer)
            _make_python(layer, {})
            if not layer.loss_weight:
                layer.loss_weight.append(1)  # the default of losses in C++, not of Python layers
    return net


def statistics_param(param: BatchNormParameter) -> dict[str, object]:
    """Parameters of a normalisation as MDALayer names them."""
    # As they were written: 1e-05, not 9.999999747378752e-06.
    values: dict[str, object] = {
        name: float(str(np.float32(getattr(param, name)))) for name in ("eps", "moving_average_fraction")
    }
    return {**values, "use_global_stats": param.use_global_stats} if param.HasField("use_global_stats") else values


def _check_entropy(file: Path, layer: LayerParameter) -> None:
    mode, axis = layer.loss_param.normalization, layer.softmax_param.axis
    if mode not in (LossParameter.VALID, LossParameter.FULL) or axis != 1:
        raise ProgramError(
            f"{file}: layer {layer.name} (EntropyLoss) has normalization {LossParameter.NormalizationMode.Name(mode)} "
            f"and axis {axis}, expected VALID or FULL, and axis 1"
        )


def _make_python(layer: LayerParameter, param: dict[str, object]) -> None:
    """Make ``layer`` the Python layer of the same name."""
    layer.python_param.module, layer.python_param.layer = MODULE, layer.type
    if param:
        layer.python_param.param_str = json.dumps(param)
    layer.type = "Python"
    for field in ("batch_norm_param", "loss_param", "softmax_param"):
        layer.ClearField(field)
