"""The layers that a net from outside may have.

Other types name modules and files that Caffe would import or overwrite.
"""

from collections.abc import Collection
from pathlib import Path

from caffe.proto.caffe_pb2 import NetParameter

import caffe_layers
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import harmless
from latent_domains.models import prototxt
from latent_domains.models.prototxt import check_format

_PURE = """
    AbsVal Accuracy ArgMax BNLL BatchNorm BatchReindex Bias Clip Concat ContrastiveLoss Convolution Crop Deconvolution
    Dropout DummyData ELU Eltwise Embed EuclideanLoss Exp Filter Flatten HingeLoss Im2col InnerProduct Input LRN LSTM
    LSTMUnit Log MVN MultinomialLogisticLoss PReLU Parameter Pooling Power RNN ReLU Reduction Reshape SPP Scale Sigmoid
    SigmoidCrossEntropyLoss Silence Slice Softmax SoftmaxWithLoss Split Swish TanH Threshold Tile
"""
PURE = frozenset(_PURE.split())
"""Layer types that compute, and touch no file."""

DATA = frozenset({"Data", "HDF5Data", "ImageData", "MemoryData", "WindowData"})
"""Layer types that read files which the net names: for programs that replace these layers, or only draw them."""

_DEPTHWISE = ("ConvolutionDepthwise", "DepthwiseConvolution")
"""Name in other Caffes of a Convolution with as many groups as outputs."""

_MODULE = caffe_layers.__name__

_WHAT = "a net's prototxt"


def read_net(file: Path, also: Collection[str] = ()) -> NetParameter:
    """Return the net in a file, with Convolutions in place of the depthwise layers of other Caffes.

    Refuses layers that :func:`check_allowed` does not allow.
    """
    try:
        net = _read(file)
    except ProgramError:  # a layer of another Caffe, which has fields of its own, is to be named
        check_allowed(_read(file, unknown_fields=True), file, also)
        raise
    check_allowed(net, file, also)
    if not net.layer:
        raise ProgramError(f"{file}: found no layer {{ … }}, expected {_WHAT}")
    return net


def _read(file: Path, *, unknown_fields: bool = False) -> NetParameter:
    net = prototxt.read(file, NetParameter(), _WHAT, unknown_fields=unknown_fields)
    for layer in net.layer:
        if layer.type in _DEPTHWISE:
            layer.type = "Convolution"
            if not layer.convolution_param.HasField("group"):
                layer.convolution_param.group = layer.convolution_param.num_output
    return net


def check_allowed(net: NetParameter, file: Path, also: Collection[str] = ()) -> None:
    """Raise ProgramError, naming ``file``, if a net has a layer of the old format or, in any phase, one not allowed.

    Allowed are the types in PURE and in ``also``, and the Python layers of ``caffe_layers``. Names must not contain
    characters that a terminal obeys.
    """
    check_format(net, file)
    for layer in net.layer:
        where, named = f"{file}: layer {layer.name} ({layer.type})", layer.python_param
        if layer.type == "Python":
            if named.module != _MODULE or named.layer not in caffe_layers.__all__:
                raise ProgramError(
                    f"{where} runs {named.layer!r} of the module {named.module!r}, expected "
                    f"{', '.join(caffe_layers.__all__)} of {_MODULE!r}"
                )
        elif layer.type not in PURE and layer.type not in also:
            raise ProgramError(f"{where} is not allowed, expected one of {', '.join(sorted({*PURE, *also, 'Python'}))}")
        names = [layer.name, *layer.bottom, *layer.top]
        if harmless("".join(names)) != "".join(names):
            raise ProgramError(f"{where}: found names with control characters, {names}, expected names to print")
