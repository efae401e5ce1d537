"""Convolution and InnerProduct."""

from latent_domains.convert.onnx.layer import Layer
from latent_domains.models.windows import end_pads, pair


def convolution(layer: Layer) -> None:
    """Caffe and ONNX share the layout of the weights (out × in/group × h × w) and the rule for the output's size."""
    x, _ = layer.one_to_one()
    param = layer.param.convolution_param
    if len(x.shape) != 4 or layer.axis("axis", param.axis, 4) != 1:
        raise layer.refuse(f"axis {param.axis} of {len(x.shape)} axes, expected images: axis 1 of 4")
    inputs = [x.name, layer.parameter("weight", layer.blobs[0])]
    if param.bias_term:
        inputs.append(layer.parameter("bias", layer.blobs[1].reshape(-1)))
    layer.last(
        "Conv",
        inputs,
        group=param.group,
        kernel_shape=layer.blobs[0].shape[2:],
        strides=pair(param, "stride", "stride", 1),
        pads=pair(param, "pad", "pad", 0) + end_pads(param),
        dilations=pair(param, "dilation", "dilation", 1),
    )


def inner_product(layer: Layer) -> None:
    """All axes but the batch's are one row of inputs. Runtimes know a fully connected layer by this form."""
    x, _ = layer.one_to_one()
    param = layer.param.inner_product_param
    if layer.axis("axis", param.axis, len(x.shape)) != 1:
        raise layer.refuse(f"axis {param.axis} of {len(x.shape)} axes, expected axis 1")
    biases = [layer.parameter("bias", layer.blobs[1].reshape(-1))] if param.bias_term else []
    rows = layer.before("Flatten", [x.name], axis=1) if len(x.shape) > 2 else x.name
    weight = layer.parameter("weight", layer.blobs[0])
    layer.last("Gemm", [rows, weight, *biases], transB=int(not param.transpose))
