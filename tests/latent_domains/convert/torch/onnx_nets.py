"""ResNets as ONNX files hold them, made node by node as CNTK, MXNet and PyTorch write them."""

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

WIDTHS = (64, 128, 256, 512)
CNTK = {3: (1, 0), 7: (3, 2)}
"""Pixels that CNTK pads before and after a map of an even size, where the stride is 2."""


class Builder:
    """The graph of a ResNet: nodes and tensors have numbers for names, as nothing may depend on them."""

    def __init__(self, *, opset: int = 13, cntk: bool = False, seed: int | None = None) -> None:
        self.nodes, self.tensors, self.opset, self.cntk = [], [], opset, cntk
        self.rng = None if seed is None else np.random.default_rng(seed)

    def tensor(self, shape: Sequence[int], low: float = 0.0, high: float = 0.0) -> str:
        """Zeros, or with a seed numbers from ``low`` to ``high``."""
        values = np.zeros(shape) if self.rng is None else self.rng.uniform(low, high, shape)
        return self.constant(values.astype(np.float32))

    def constant(self, values: np.ndarray) -> str:
        self.tensors.append(numpy_helper.from_array(values, f"t{len(self.tensors)}"))
        return self.tensors[-1].name

    def node(self, op: str, *inputs: str, **attributes: object) -> str:
        output = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [output], **attributes))
        return output

    def unit(self, x: str, entering: int, filters: int, kernel: int, stride: int = 1, *, bias: bool = False) -> str:
        """A convolution and its BN."""
        before = after = kernel // 2
        if self.cntk and stride == 2 and kernel > 1:
            before, after = CNTK[kernel]
        size = (6 / (entering * kernel * kernel)) ** 0.5
        weights = self.tensor((filters, entering, kernel, kernel), -size, size)
        more = [self.tensor((filters,), -1, 1)] if bias else []
        pads = [before] * 2 + [after] * 2
        x = self.node("Conv", x, weights, *more, strides=[stride] * 2, pads=pads, kernel_shape=[kernel] * 2)
        ranges = ((0.5, 1.5), (-0.5, 0.5), (-0.5, 0.5), (0.5, 2.0))
        return self.node("BatchNormalization", x, *(self.tensor((filters,), *range) for range in ranges), epsilon=1e-5)

    def net(
        self,
        blocks: Sequence[int] = (1, 1, 1, 1),
        classes: int | None = 5,
        *,
        bottlenecks: bool = False,
        bias: bool = False,
        size: int | str = 224,
        batch: int | str = 1,
        pool: str = "GlobalAveragePool",
        view: bool = False,
    ) -> ModelProto:
        """The whole. ``bias``: convolutions have one, before their BN; ``view``: as old PyTorch exports x.view()."""
        x = self.node("Relu", self.unit("pixels", 3, 64, 7, 2, bias=bias))
        pads = [1, 1, 0, 0] if self.cntk else [1] * 4
        x = self.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=pads)
        entering = 64
        for stage, (width, count) in enumerate(zip(WIDTHS, blocks, strict=True)):
            for place in range(count):
                stride, leaving = (2 if stage and not place else 1), width * (4 if bottlenecks else 1)
                if bottlenecks:
                    y = self.node("Relu", self.unit(x, entering, width, 1, bias=bias))
                    y = self.node("Relu", self.unit(y, width, width, 3, stride, bias=bias))
                    y = self.unit(y, width, leaving, 1, bias=bias)
                else:
                    y = self.node("Relu", self.unit(x, entering, width, 3, stride, bias=bias))
                    y = self.unit(y, width, width, 3, bias=bias)
                shortcut = self.unit(x, entering, leaving, 1, stride) if entering != leaving else x
                x, entering = self.node("Relu", self.node("Add", shortcut, y)), leaving
        x = self._pooled(x, pool)
        if classes is not None:
            x = self._viewed(x, entering) if view else self.node("Flatten", x)
            x = self.node("Dropout", self.node("Identity", x))
            weights = self.tensor((classes, entering), -1, 1)
            x = self.node("Gemm", x, weights, self.tensor((classes,), -1, 1), transB=1)
            x = self.node("Softmax", x)
        graph = helper.make_graph(
            self.nodes,
            "net",
            [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, [batch, 3, size, size])],
            [helper.make_tensor_value_info(x, TensorProto.FLOAT, None)],
            self.tensors,
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=8)

    def _pooled(self, x: str, pool: str) -> str:
        if pool == "AveragePool":
            return self.node(pool, x, kernel_shape=[7, 7])
        if pool == "ReduceMean":
            return self.node(pool, x, axes=[-1, -2], keepdims=0)
        return self.node(pool, x)

    def _viewed(self, x: str, features: int) -> str:
        batch = self.node("Gather", self.node("Shape", x), self.constant(np.array([0])), axis=0)
        return self.node("Reshape", x, self.node("Concat", batch, self.constant(np.array([features])), axis=0))


def resnet(**options: object) -> ModelProto:
    """A net of zeros."""
    return Builder().net(**options)
