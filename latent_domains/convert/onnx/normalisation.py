"""LRN, BatchNorm, Scale and Bias."""

import numpy as np
from caffe.proto.caffe_pb2 import LRNParameter

from latent_domains.convert.onnx.layer import Layer
from latent_domains.models.graph import Value
from latent_domains.models.model import Array


def lrn(layer: Layer) -> None:
    """Both divide alpha by the number of channels that they sum over; Caffe's k is ONNX's bias."""
    x, _ = layer.one_to_one()
    param = layer.param.lrn_param
    if param.norm_region != LRNParameter.ACROSS_CHANNELS:
        region = LRNParameter.NormRegion.Name(param.norm_region)
        raise layer.refuse(f"norm_region: {region}, expected ACROSS_CHANNELS")
    layer.last("LRN", [x.name], size=param.local_size, alpha=param.alpha, beta=param.beta, bias=param.k)


def batch_norm(layer: Layer) -> None:
    """Caffe stores sums of means and variances with their divisor, which is 0 where nothing was summed."""
    x, _ = layer.one_to_one()
    param = layer.param.batch_norm_param
    if param.HasField("use_global_stats") and not param.use_global_stats:
        raise layer.refuse("use_global_stats: false, expected statistics that do not depend on the batch")
    mean, variance, divisor = (blob.astype(np.float64) for blob in layer.blobs)
    scale = 1 / divisor.item() if divisor.item() else 0.0
    ones = np.ones_like(mean)
    layer.last(
        "BatchNormalization",
        [
            x.name,
            layer.parameter("scale", ones),
            layer.parameter("bias", 0 * ones),
            layer.parameter("mean", mean * scale),
            layer.parameter("variance", variance * scale),
        ],
        epsilon=param.eps,
    )


def scale(layer: Layer) -> None:
    """Multiply by the layer's own factors, or by those that a second bottom has for each image; add its bias."""
    layer.check_counts(tops=1)
    param = layer.param.scale_param
    if len(layer.bottoms) > 1:
        if param.bias_term:
            raise layer.refuse("bias_term: true with a second bottom: it has a value for each image of a batch")
        layer.last("Mul", [layer.bottoms[0].name, _by_image(layer, param.axis)])
        return
    (x,) = layer.bottoms
    factor = layer.parameter("weight", _broadcast(layer, x, param.axis, layer.blobs[0]))
    if param.bias_term:
        bias = layer.parameter("bias", _broadcast(layer, x, param.axis, layer.blobs[1]))
        layer.last("Add", [layer.before("Mul", [x.name, factor]), bias])
    else:
        layer.last("Mul", [x.name, factor])


def bias(layer: Layer) -> None:
    """Add the layer's own values, or those that a second bottom has for each image."""
    layer.check_counts(tops=1)
    param = layer.param.bias_param
    if len(layer.bottoms) > 1:
        added = _by_image(layer, param.axis)
    else:
        added = layer.parameter("bias", _broadcast(layer, layer.bottoms[0], param.axis, layer.blobs[0]))
    layer.last("Add", [layer.bottoms[0].name, added])


def _broadcast(layer: Layer, x: Value, axis: int, blob: Array) -> Array:
    """A parameter for the axes of x from ``axis`` on, with axes of 1 for those after; a scalar goes with all."""
    if blob.ndim == 0:
        return blob
    rest = len(x.shape) - layer.axis("axis", axis, len(x.shape)) - blob.ndim
    return blob.reshape(*blob.shape, *[1] * rest)


def _by_image(layer: Layer, axis: int) -> str:
    """The second bottom, a row for each image, with axes of 1 after it to fit the first."""
    x, rows = layer.bottoms
    if axis not in (0, -len(x.shape)):
        raise layer.refuse(f"axis: {axis} with a second bottom, expected 0: its first axis is the batch too")
    if len(rows.shape) == len(x.shape):
        return rows.name
    shape = [0, *rows.shape[1:], *[1] * (len(x.shape) - len(rows.shape))]
    return layer.before("Reshape", [rows.name, layer.whole_numbers("shape", shape)])
