"""Layers that move values without changing them: Concat, Slice, Flatten, Reshape, Split, Dropout, Silence."""

from latent_domains.convert.onnx.layer import Layer
from latent_domains.models.graph import Value


def concat(layer: Layer) -> None:
    """``concat_dim`` is the old name of ``axis``."""
    layer.check_counts(tops=1)
    param = layer.param.concat_param
    field = "concat_dim" if param.HasField("concat_dim") else "axis"
    axis = layer.axis(field, getattr(param, field), len(layer.bottoms[0].shape))
    layer.last("Concat", [bottom.name for bottom in layer.bottoms], axis=axis)


def slice_(layer: Layer) -> None:
    """The sizes of the parts are those of the tops. ``slice_dim`` is the old name of ``axis``."""
    layer.check_counts(bottoms=1)
    (x,) = layer.bottoms
    param = layer.param.slice_param
    field = "slice_dim" if param.HasField("slice_dim") else "axis"
    axis = layer.axis(field, getattr(param, field), len(x.shape))
    if len(layer.tops) == 1:
        layer.last("Identity", [x.name])
        return
    layer.last("Split", [x.name, layer.whole_numbers("sizes", [top.shape[axis] for top in layer.tops])], axis=axis)


def flatten(layer: Layer) -> None:
    """Axes from ``axis`` to ``end_axis`` become one."""
    x, y = layer.one_to_one()
    layer.axis("axis", layer.param.flatten_param.axis, len(x.shape))
    _reshape(layer, x, y)


def reshape(layer: Layer) -> None:
    """Any shape that leaves the batch as it is."""
    x, y = layer.one_to_one()
    param = layer.param.reshape_param
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


def same(layer: Layer) -> None:
    """Dropout in the TEST phase, and Split: each top is the bottom."""
    layer.check_counts(bottoms=1)
    for top in layer.tops:
        layer.graph.node("Identity", [layer.bottoms[0].name], [top.name], layer.param.name)


def nothing(layer: Layer) -> None:
    """Silence: it reads what nobody else does."""
