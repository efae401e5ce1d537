"""How each type of layer is written as ONNX: one function for each, and the table of them."""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from caffe.proto.caffe_pb2 import EltwiseParameter, LRNParameter, PoolingParameter, ReductionParameter
from google.protobuf.message import Message
from onnx import TensorProto

from latent_domains.convert.onnx.layer import Layer
from latent_domains.models.graph import Value, end_pads, pair
from latent_domains.models.model import Array


def convolution(layer: Layer) -> None:
    """Write a convolution, or the transpose of one.

    Caffe and ONNX share the layout of the weights (out × in/group × h × w; of a transpose in × out/group × h × w) and
    the rule for the output's size.
    """
    param, axes, kernel = layer.param.convolution_param, len(layer.x.shape), layer.blobs[0]
    if axes != 4 or layer.axis("axis", param.axis, 4) != 1:
        raise layer.refuse(f"axis {param.axis} of {axes} axes, expected images: axis 1 of 4")
    op, dilation = "Conv", pair(param, "dilation", "dilation", 1)
    if layer.param.type == "Deconvolution":
        op, kernel, dilation = "ConvTranspose", _dilated(kernel, *dilation), (1, 1)
    inputs = [layer.x.name, layer.parameter("weight", kernel)]
    if param.bias_term:
        inputs.append(layer.parameter("bias", layer.blobs[1].reshape(-1)))
    layer.last(
        op,
        inputs,
        group=param.group,
        kernel_shape=kernel.shape[2:],
        strides=pair(param, "stride", "stride", 1),
        pads=pair(param, "pad", "pad", 0) + end_pads(param),
        dilations=dilation,
    )


def _dilated(kernel: Array, height: int, width: int) -> Array:
    """Return a kernel with the zeros of its dilation in it.

    OpenCV ignores the dilation of transposes without a message.
    """
    sizes = [(size - 1) * step + 1 for size, step in zip(kernel.shape[2:], (height, width), strict=True)]
    wide = np.zeros((*kernel.shape[:2], *sizes), kernel.dtype)
    wide[:, :, ::height, ::width] = kernel
    return wide


def inner_product(layer: Layer) -> None:
    """Write a fully connected layer in the form that runtimes know: all axes but the batch's are one row of inputs."""
    param, axes = layer.param.inner_product_param, len(layer.x.shape)
    if layer.axis("axis", param.axis, axes) != 1:
        raise layer.refuse(f"axis {param.axis} of {axes} axes, expected axis 1")
    biases = [layer.parameter("bias", layer.blobs[1].reshape(-1))] if param.bias_term else []
    weight = layer.parameter("weight", layer.blobs[0])
    layer.last("Gemm", [_joined(layer, 1), weight, *biases], transB=int(not param.transpose))


def pooling(layer: Layer) -> None:
    """Write a pooling with Caffe's own output size: rounded up or down, and clipped.

    Runtimes differ in how they round up. Here this does not matter: the padding at the end makes the output of their
    plain rule as large as Caffe's.
    """
    x, y, param = layer.x, layer.y, layer.param.pooling_param
    if param.pool not in (PoolingParameter.MAX, PoolingParameter.AVE):
        raise layer.refuse(f"pool: {PoolingParameter.PoolMethod.Name(param.pool)}, expected MAX or AVE")
    maximum = param.pool == PoolingParameter.MAX
    if param.global_pooling:
        layer.last("GlobalMaxPool" if maximum else "GlobalAveragePool", [x.name])
        return
    sizes = x.shape[2:]
    kernel = pair(param, "kernel", "kernel_size", 0)
    stride, begin = pair(param, "stride", "stride", 1), pair(param, "pad", "pad", 0)
    starts = [(out - 1) * s - b for out, s, b in zip(y.shape[2:], stride, begin, strict=True)]  # of the last window
    if any(start >= size for start, size in zip(starts, sizes, strict=True)):
        raise layer.refuse(f"a window of stride {max(stride)} lies outside of the {sizes[0]}×{sizes[1]} image")
    beyond = [start + k - size for start, k, size in zip(starts, kernel, sizes, strict=True)]
    windows = {"kernel_shape": kernel, "strides": stride}
    if maximum:
        layer.last("MaxPool", [x.name], pads=[*begin, *(max(end, 0) for end in beyond)], **windows)
        return
    over = [max(end - pad, 0) for end, pad in zip(beyond, begin, strict=True)]
    ends = [max(min(end, pad), 0) for end, pad in zip(beyond, begin, strict=True)]
    layer.last("AveragePool", [_padded(layer, x.name, begin, ends)], pads=[0, 0, *over], **windows)


def _padded(layer: Layer, images: str, begin: Sequence[int], end: Sequence[int]) -> str:
    """Return images with zeros around them, for an average that counts these.

    Caffe counts the padding and not what is beyond it, ONNX both or none, and OpenCV none.
    """
    if not any(begin):
        return images
    return layer.before("Pad", [images, layer.whole_numbers("pads", [0, 0, *begin, 0, 0, *end])])


def lrn(layer: Layer) -> None:
    """Write a local response normalisation; Caffe's k is ONNX's bias.

    Across channels both divide alpha by the number of channels in the sum. Within a channel it is x · (1 + alpha · mean
    of x² in a window)^-beta, without k; the padding counts.
    """
    x, param = layer.x.name, layer.param.lrn_param
    if param.norm_region == LRNParameter.ACROSS_CHANNELS:
        layer.last("LRN", [x], size=param.local_size, alpha=param.alpha, beta=param.beta, bias=param.k)
        return
    pads = [param.local_size // 2] * 2
    squares = _padded(layer, layer.before("Mul", [x, x]), pads, pads)
    mean = layer.before("AveragePool", [squares], kernel_shape=[param.local_size] * 2)
    scaled = layer.before("Mul", [mean, layer.number("alpha", param.alpha)])
    power = [layer.before("Add", [scaled, layer.number("one", 1)]), layer.number("power", -param.beta)]
    layer.last("Mul", [x, layer.before("Pow", power)])


def batch_norm(layer: Layer) -> None:
    """Write a BatchNorm.

    Caffe stores sums of means and variances with their divisor, which is 0 if nothing was summed.
    """
    param = layer.param.batch_norm_param
    if param.HasField("use_global_stats") and not param.use_global_stats:
        raise layer.refuse("use_global_stats: false, expected statistics that do not depend on the batch")
    mean, variance, divisor = (blob.astype(np.float64) for blob in layer.blobs)
    factor = 1 / divisor.item() if divisor.item() else 0.0
    ones = np.ones_like(mean)
    parameters = {"scale": ones, "bias": 0 * ones, "mean": mean * factor, "variance": variance * factor}
    inputs = [layer.x.name, *(layer.parameter(what, values) for what, values in parameters.items())]
    layer.last("BatchNormalization", inputs, epsilon=param.eps)


def scale(layer: Layer) -> None:
    """Multiply by the layer's own factors, or by those that a second bottom has for each image; add its bias."""
    x, param = layer.x, layer.param.scale_param
    if len(layer.bottoms) > 1:
        if param.bias_term:
            raise layer.refuse("bias_term: true with a second bottom: it has a value for each image of a batch")
        layer.last("Mul", [x.name, _by_image(layer, param.axis)])
        return
    factor = layer.parameter("weight", _broadcast(layer, param.axis, layer.blobs[0]))
    if param.bias_term:
        added = layer.parameter("bias", _broadcast(layer, param.axis, layer.blobs[1]))
        layer.last("Add", [layer.before("Mul", [x.name, factor]), added])
    else:
        layer.last("Mul", [x.name, factor])


def bias(layer: Layer) -> None:
    """Add the layer's own values, or those that a second bottom has for each image."""
    axis = layer.param.bias_param.axis
    if len(layer.bottoms) > 1:
        added = _by_image(layer, axis)
    else:
        added = layer.parameter("bias", _broadcast(layer, axis, layer.blobs[0]))
    layer.last("Add", [layer.x.name, added])


def _broadcast(layer: Layer, axis: int, blob: Array) -> Array:
    """Return a parameter for the axes of x from ``axis`` on, with axes of 1 for those after; a scalar goes with all."""
    if blob.ndim == 0:
        return blob
    axes = len(layer.x.shape)
    return blob.reshape(*blob.shape, *[1] * (axes - layer.axis("axis", axis, axes) - blob.ndim))


def _by_image(layer: Layer, axis: int) -> str:
    """Return the second bottom, a row for each image, with axes of 1 after it to fit the first."""
    x, rows = layer.bottoms
    if axis not in (0, -len(x.shape)):
        raise layer.refuse(f"axis: {axis} with a second bottom, expected 0: its first axis is the batch too")
    if len(rows.shape) == len(x.shape):
        return rows.name
    shape = [0, *rows.shape[1:], *[1] * (len(x.shape) - len(rows.shape))]
    return layer.before("Reshape", [rows.name, layer.whole_numbers("shape", shape)])


def relu(layer: Layer) -> None:
    """Write a ReLU, with its slope below 0 if it has one."""
    slope = layer.param.relu_param.negative_slope
    if slope:
        layer.last("LeakyRelu", [layer.x.name], alpha=slope)
    else:
        layer.last("Relu", [layer.x.name])


def prelu(layer: Layer) -> None:
    """Write a slope below 0 for each channel, the second axis, or one for all."""
    slopes = layer.blobs[0].reshape(-1, *[1] * (len(layer.x.shape) - 2))
    layer.last("PRelu", [layer.x.name, layer.parameter("slope", slopes)])


def elu(layer: Layer) -> None:
    """Write alpha · (exp(x) - 1) below 0."""
    layer.last("Elu", [layer.x.name], alpha=layer.param.elu_param.alpha)


def same(op: str) -> Callable[[Layer], None]:
    """Return the function for layers that ONNX has without any parameter."""
    return lambda layer: layer.last(op, [layer.x.name])


def clip(layer: Layer) -> None:
    """Write a clip: values below ``min`` become ``min``, those above ``max`` become ``max``."""
    param = layer.param.clip_param
    layer.last("Clip", [layer.x.name, layer.number("min", param.min), layer.number("max", param.max)])


def softmax(layer: Layer) -> None:
    """Write a softmax along any axis but the batch."""
    axis = layer.axis("axis", layer.param.softmax_param.axis, len(layer.x.shape))
    layer.last("Softmax", [layer.x.name], axis=axis)


def power(layer: Layer) -> None:
    """Write (shift + scale · x) ^ power, always as three nodes: it is rare."""
    param = layer.param.power_param
    factor, shift, exponent = (layer.number(what, getattr(param, what)) for what in ("scale", "shift", "power"))
    scaled = layer.before("Mul", [layer.x.name, factor])
    layer.last("Pow", [layer.before("Add", [scaled, shift]), exponent])


def eltwise(layer: Layer) -> None:
    """Write a sum with coefficients, product or maximum of bottoms of one shape."""
    param = layer.param.eltwise_param
    names = [bottom.name for bottom in layer.bottoms]
    if param.operation == EltwiseParameter.SUM:
        factors = param.coeff or [1.0] * len(names)
        names = [
            name if factor == 1 else layer.before("Mul", [name, layer.number("coeff", factor)])
            for name, factor in zip(names, factors, strict=True)
        ]
        layer.last("Add" if len(names) == 2 else "Sum", names)  # runtimes fuse the sum of two best as Add
    elif param.operation == EltwiseParameter.PROD:
        product = names[0]
        for name in names[1:-1]:
            product = layer.before("Mul", [product, name])
        layer.last("Mul", [product, names[-1]])
    else:
        layer.last("Max", names)


def concat(layer: Layer) -> None:
    """Write a concatenation along any axis but the batch."""
    axis = _axis_or(layer, layer.param.concat_param, "concat_dim")
    layer.last("Concat", [bottom.name for bottom in layer.bottoms], axis=axis)


def slice_(layer: Layer) -> None:
    """Write a split; the sizes of the parts are those of the tops."""
    axis = _axis_or(layer, layer.param.slice_param, "slice_dim")
    if len(layer.tops) == 1:
        layer.last("Identity", [layer.x.name])
        return
    sizes = layer.whole_numbers("sizes", [top.shape[axis] for top in layer.tops])
    layer.last("Split", [layer.x.name, sizes], axis=axis)


def crop(layer: Layer) -> None:
    """Cut the axes from ``axis`` on to the second bottom's sizes, beginning at the offsets; never the batch."""
    x, y, param = layer.x, layer.y, layer.param.crop_param
    axes = range(param.axis % len(x.shape), len(x.shape))
    offsets = list(param.offset) or [0]
    starts = dict(zip(axes, offsets * len(axes) if len(offsets) == 1 else offsets, strict=True))
    starts.pop(0, None)
    ends = [start + y.shape[axis] for axis, start in starts.items()]
    cut = {"starts": list(starts.values()), "ends": ends, "axes": list(starts)}
    layer.last("Slice", [x.name, *(layer.whole_numbers(what, values) for what, values in cut.items())])


def arg_max(layer: Layer) -> None:
    """Write the indices of the ``top_k`` largest values, or the values, along an axis or among all of an image.

    Of equal values Caffe returns the last one first.
    """
    x, param = layer.x, layer.param.argmax_param
    along = param.HasField("axis")
    axis = layer.axis("axis", param.axis, len(x.shape)) if along else 1
    rows, size = (x.name, x.shape[axis]) if along else (_joined(layer, 1), prod(x.shape[1:]))
    if param.top_k == 1 and not param.out_max_val:
        places = layer.before("ArgMax", [rows], axis=axis, select_last_index=1)
    else:  # of even values TopK takes the first
        backwards = layer.before("Gather", [rows, layer.whole_numbers("order", range(size)[::-1])], axis=axis)
        values, behind = (layer.graph.new_value(f"{layer.param.name}/{what}") for what in ("values", "behind"))
        inputs = [backwards, layer.whole_numbers("k", [param.top_k])]
        layer.graph.node("TopK", inputs, [values, behind], f"{layer.param.name}/topk", axis=axis)
        places = layer.before("Sub", [layer.whole_numbers("last", [size - 1]), behind])
    if along and param.out_max_val:
        layer.last("Identity", [values])
    elif along:
        layer.last("Cast", [places], to=TensorProto.FLOAT)
    else:
        found = layer.before("Cast", [places], to=TensorProto.FLOAT)
        if param.out_max_val:
            found = layer.before("Concat", [found, values], axis=1)
        layer.last("Reshape", [found, layer.whole_numbers("shape", [0, *layer.y.shape[1:]])])


def reduction(layer: Layer) -> None:
    """Reduce all axes from ``axis`` on to one number, times ``coeff``."""
    param = layer.param.reduction_param
    axis = layer.axis("axis", param.axis, len(layer.x.shape))
    rows = _joined(layer, axis)  # OpenCV reduces three axes wrongly
    write = layer.last if param.coeff == 1 else layer.before
    if param.operation == ReductionParameter.SUM:  # its axes are an input since operator set 13
        reduced = write("ReduceSum", [rows, layer.whole_numbers("axes", [axis])], keepdims=0)
    else:
        reduced = write(_REDUCTIONS[param.operation], [rows], axes=[axis], keepdims=0)
    if param.coeff != 1:
        layer.last("Mul", [reduced, layer.number("coeff", param.coeff)])


def _joined(layer: Layer, axis: int) -> str:
    """Return the first bottom, its axes from ``axis`` on as one."""
    x = layer.x
    if axis == len(x.shape) - 1:
        return x.name
    if axis == 1:
        return layer.before("Flatten", [x.name], axis=1)
    return layer.before("Reshape", [x.name, layer.whole_numbers("shape", [0, *x.shape[1:axis], -1])])


_REDUCTIONS = {
    ReductionParameter.ASUM: "ReduceL1",
    ReductionParameter.SUMSQ: "ReduceSumSquare",
    ReductionParameter.MEAN: "ReduceMean",
}


def _axis_or(layer: Layer, param: Message, old: str) -> int:
    """Return the axis, also by the ``old`` name of the field."""
    field = old if param.HasField(old) else "axis"
    return layer.axis(field, getattr(param, field), len(layer.x.shape))


def flatten(layer: Layer) -> None:
    """Join the axes from ``axis`` to ``end_axis``."""
    layer.axis("axis", layer.param.flatten_param.axis, len(layer.x.shape))
    _reshape(layer, layer.x, layer.y)


def reshape(layer: Layer) -> None:
    """Write any shape that does not change the batch."""
    x, y, param = layer.x, layer.y, layer.param.reshape_param
    start = param.axis if param.axis >= 0 else param.axis + len(x.shape) + 1
    # 0 keeps the batch; -1 is the batch where the rest is as large as an image.
    keeps = start > 0 or (param.num_axes != 0 and param.shape.dim and param.shape.dim[0] in (0, -1))
    if not keeps or y.shape[:1] != x.shape[:1]:
        raise layer.refuse(
            "shape: the first axis is the batch, which is left free; expected dim 0 for it, or axis 1 and on"
        )
    _reshape(layer, x, y)


def _reshape(layer: Layer, x: Value, y: Value) -> None:
    if len(y.shape) == 2:
        layer.last("Flatten", [x.name], axis=1)
    else:
        layer.last("Reshape", [x.name, layer.whole_numbers("shape", [0, *y.shape[1:]])])


def identity(layer: Layer) -> None:
    """Make each top equal to the bottom."""
    for top in layer.tops:
        layer.graph.node("Identity", [layer.x.name], [top.name], layer.param.name)


def nothing(layer: Layer) -> None:
    """Write no node."""


LAYERS = {
    "ArgMax": arg_max,
    "BatchNorm": batch_norm,
    "Bias": bias,
    "Clip": clip,
    "Concat": concat,
    "Convolution": convolution,
    "Crop": crop,
    "Deconvolution": convolution,
    "Dropout": identity,
    "ELU": elu,
    "Eltwise": eltwise,
    "Flatten": flatten,
    "InnerProduct": inner_product,
    "LRN": lrn,
    "PReLU": prelu,
    "Pooling": pooling,
    "Power": power,
    "ReLU": relu,
    "Reduction": reduction,
    "Reshape": reshape,
    "Scale": scale,
    "Sigmoid": same("Sigmoid"),
    "Silence": nothing,
    "Slice": slice_,
    "Softmax": softmax,
    "Split": identity,
    "TanH": same("Tanh"),
}
"""The function that writes each type of layer."""

SEVERAL = frozenset({"Bias", "Concat", "Crop", "Dropout", "Eltwise", "Scale", "Silence", "Slice", "Split"})
"""Types that may have several bottoms or tops."""
