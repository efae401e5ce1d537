"""Pooling."""

from caffe.proto.caffe_pb2 import PoolingParameter

from latent_domains.convert.onnx.layer import Layer
from latent_domains.models.windows import pair


def pooling(layer: Layer) -> None:
    """Pooling as Caffe's own output size has it: rounded up or down, and clipped.

    Runtimes differ in how they round up. Here they need not: the padding at the end is what makes the output of their
    plain rule as large as Caffe's.
    """
    x, y = layer.one_to_one()
    param = layer.param.pooling_param
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
    windows = {"kernel_shape": kernel, "strides": stride, "pads": [*begin, *(max(end, 0) for end in beyond)]}
    if maximum:
        layer.last("MaxPool", [x.name], **windows)
        return
    # Caffe divides by a window's part of the padded image. ONNX counts the padding or not, everywhere alike.
    if any(begin) and any(end > pad for end, pad in zip(beyond, begin, strict=True)):
        raise layer.refuse("an average over windows that reach beyond the padding, expected a pad for them or none")
    layer.last("AveragePool", [x.name], count_include_pad=int(any(begin)), **windows)
