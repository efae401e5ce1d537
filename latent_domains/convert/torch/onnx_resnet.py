"""ResNets in ONNX files with separate BN nodes: CNTK's, the model zoo's, and PyTorch's exports for training.

The graph is walked from its input to its output: what a node is follows from what it computes, not from its name. Each
node must be one of a ResNet's, with the attributes of Torch's, and none may be left over. So the tensors get their
names in torchvision's state dicts.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper

from latent_domains.common.wording import by, some
from latent_domains.convert.torch.tensors import escaped
from latent_domains.experiment.datasets import input_of
from latent_domains.models.onnx_file import Array, Runtime, with_outputs
from latent_domains.networks.network import EPS, STATISTICS, CheckpointError
from latent_domains.networks.resnet import RESNET18, STAGES, basic_blocks, blocks

OPSETS = (7, onnx.defs.onnx_opset_version())
"""The oldest and the newest operator set that are read: before, BatchNormalization was different."""

_KINDS = {(3, 3): "two 3×3", (1, 3, 1): "1×1, 3×3 and 1×1"}

_APART = (
    "export it with its BatchNormalization nodes: torch.onnx.export(net.eval(), x, FILE, dynamo=False, "
    "training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False)"
)

_SAME = ("Identity", "Dropout")
"""Operators whose output is their input."""

_SHAPING = ("Flatten", "Reshape", "Squeeze")


@dataclass(frozen=True)
class OnnxNet:
    """A ResNet as its file computes it: the values of ``runtime`` by Caffe's names of blobs, for maps of ``size``."""

    runtime: Runtime
    values: Mapping[str, str]
    size: tuple[int, int]

    def forward(self, inputs: Array) -> dict[str, Array]:
        """Return the stem, every block, the features and the scores of inputs (N×3×H×W), in the file's batch size."""
        ((name, (fixed, *_)),) = self.runtime.inputs.items()
        count, batch = len(inputs), fixed if isinstance(fixed, int) and fixed > 0 else 1
        filled = inputs[np.arange(-(-count // batch) * batch) % count]
        rows = [self.runtime.forward({name: part}) for part in np.split(filled, len(filled) // batch)]
        found = {blob: np.concatenate([row[value] for row in rows])[:count] for blob, value in self.values.items()}
        flat = {"pool5": (-1, 1, 1)}
        return {
            blob: maps if blob.startswith(("res", "scale")) else maps.reshape(count, *flat.get(blob, (-1,)))
            for blob, maps in found.items()
        }


@dataclass(eq=False)
class _Node:
    """A node that computes: its inputs, as nodes that make them, and its first output."""

    op: str
    name: str
    inputs: list[str]
    output: str
    attributes: dict[str, Any]

    def __str__(self) -> str:
        return f"{escaped(self.name or self.output)} ({escaped(self.op)})"

    def number(self, name: str, default: float) -> float:
        """Return an attribute that is a number. Raises CheckpointError for anything else."""
        if isinstance(found := self.attributes.get(name, default), int | float):
            return found
        raise CheckpointError(f"{self}: {name} is {escaped(str(found))}, expected a number")

    def numbers(self, name: str, default: Sequence[int]) -> list[int]:
        """Return an attribute of as many whole numbers as ``default`` has. Raises CheckpointError for anything else."""
        found = self.attributes.get(name, default)
        if isinstance(found, list | tuple) and len(found) == len(default) and all(0 <= n <= 4096 for n in found):
            return list(found)
        raise CheckpointError(
            f"{self}: {name} is {escaped(str(found))}, expected {len(default)} numbers from 0 to 4096"
        )


@dataclass
class _Unit:
    """A convolution with its BN: the weights, the statistics, and where the BN ends."""

    node: _Node
    weights: NDArray
    statistics: list[NDArray]
    output: str
    size: tuple[int, int]

    @property
    def kernel(self) -> int:
        return self.weights.shape[2]


@dataclass
class _Walk:
    """A graph during the walk from its input to its output."""

    model: ModelProto
    tensors: dict[str, NDArray] = field(default_factory=dict)
    values: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        graph = self.model.graph
        self.constants: dict[str, TensorProto] = {tensor.name: tensor for tensor in graph.initializer}
        self.input, self.size = _input(self.model, self.constants)
        self.turned: dict[str, NodeProto] = {}  # the Transpose of a constant
        self.readers: dict[str, list[_Node]] = defaultdict(list)
        self.makers: dict[str, _Node] = {}
        self.left: list[_Node] = []
        known, same = {self.input, "", *self.constants}, {}
        for node in graph.node:
            missing = [name for name in node.input if name not in known]
            if missing:
                raise CheckpointError(f"node {_title(node)} reads {escaped(missing[0])}, which no node before it makes")
            known.update(node.output)
            inputs = [same.get(name, name) for name in node.input]
            if node.op_type == "Constant" and node.output:
                self._take_constant(node)
            elif node.op_type in (*_SAME, "Transpose") and inputs and node.output and inputs[0] in self.constants:
                self._take_same(node, inputs[0])
            elif node.op_type in _SAME and inputs and node.output:
                same[node.output[0]] = inputs[0]
            else:
                self._add(node, inputs)

    def _take_constant(self, node: NodeProto) -> None:
        value = {attribute.name: attribute for attribute in node.attribute}.get("value")
        if value is not None:
            self.constants[node.output[0]] = value.t

    def _take_same(self, node: NodeProto, constant: str) -> None:
        """Add a constant with another name, or transposed, as PyTorch writes a classifier's weights without a bias."""
        name = node.output[0]
        self.constants[name] = self.constants[constant]
        if node.op_type == "Transpose" and constant in self.turned:
            raise CheckpointError(f"node {_title(node)} transposes what is transposed, which no ResNet needs")
        if node.op_type == "Transpose" or constant in self.turned:
            self.turned[name] = node if node.op_type == "Transpose" else self.turned[constant]

    def _transposed(self, node: NodeProto, values: NDArray) -> NDArray:
        order = {one.name: list(one.ints) for one in node.attribute}.get("perm", list(range(values.ndim))[::-1])
        if sorted(order) != list(range(values.ndim)):
            raise CheckpointError(f"node {_title(node)}: perm is {order}, expected each of {values.ndim} axes")
        return values.transpose(order)

    def _add(self, node: NodeProto, inputs: list[str]) -> None:
        if not node.input or not node.output:
            raise CheckpointError(f"node {_title(node)} reads or makes nothing, which no node of a ResNet does")
        if node.domain not in ("", "ai.onnx"):
            raise CheckpointError(f"node {_title(node)} is of the operators of {escaped(node.domain)}")
        attributes = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
        made = _Node(node.op_type, node.name, inputs, node.output[0], attributes)
        self.left.append(made)
        self.makers[made.output] = made
        for name in dict.fromkeys(inputs):
            self.readers[name].append(made)

    def array(self, node: _Node, place: int) -> NDArray | None:
        """Return a constant that a node reads; None if it reads nothing there.

        Raises CheckpointError for anything else.
        """
        name = node.inputs[place] if place < len(node.inputs) else ""
        if not name:
            return None
        if name not in self.constants:
            raise CheckpointError(f"{node} reads {escaped(name)}, expected a constant")
        tensor = self.constants[name]
        try:
            values = numpy_helper.to_array(tensor)
        except Exception as error:  # of a damaged tensor: of the library's own classes, or NumPy's
            raise CheckpointError(f"tensor {escaped(name)} of {by(tensor.dims)} is damaged") from error
        return self._transposed(self.turned[name], values) if name in self.turned else values

    def use(self, node: _Node) -> _Node:
        """Remove a node from those that are left."""
        if node not in self.left:
            raise CheckpointError(f"{node} is reached on two ways, expected a ResNet")
        self.left.remove(node)
        return node

    def next(self, value: str, after: str, *ops: str) -> _Node:
        """Return the one node that reads a value, which must be one of ``ops``."""
        return self.use(self.only(value, after, *ops))

    def only(self, value: str, after: str, *ops: str) -> _Node:
        """Return the one node that reads a value, which must be one of ``ops``; it stays among those that are left."""
        found = self.readers[value]
        if len(found) != 1 or found[0].op not in ops:
            read = some(map(str, found), 5) or "nothing"
            raise CheckpointError(f"{after} is read by {read}, expected by one {' or '.join(ops)}")
        return found[0]

    def unit(self, node: _Node, size: tuple[int, int]) -> _Unit:
        """Return a convolution on maps of ``size``, and the BN after it."""
        self.use(node)
        weights, bias = self.array(node, 1), self.array(node, 2)
        if weights is None or weights.ndim != 4 or weights.shape[2] != weights.shape[3]:
            raise CheckpointError(f"{node}: weights of {by(weights.shape if weights is not None else ())}")
        if node.number("group", 1) != 1 or node.numbers("dilations", (1, 1)) != [1, 1]:
            raise CheckpointError(f"{node}: groups or dilation, expected none in a ResNet")
        following = self.readers[node.output]
        if bias is not None and [reader.op for reader in following] != ["BatchNormalization"]:
            raise CheckpointError(f"{node} has a bias and no BN after it, which is folded into it: {_APART}")
        bn = self.next(node.output, str(node), "BatchNormalization")
        if bn.number("spatial", 1) != 1:
            raise CheckpointError(f"{bn}: spatial is 0, expected statistics of channels")
        scale, shift, mean, variance = (self.array(bn, place) for place in range(1, 5))
        if any(row is None or row.shape != weights.shape[:1] for row in (scale, shift, mean, variance)):
            raise CheckpointError(f"{bn}: expected four rows of {len(weights)} numbers after its maps")
        eps = bn.number("epsilon", 1e-5)
        if abs(eps - EPS) > 1e-9:  # what it adds beyond ours is in the variances then
            variance = variance + np.float32(eps - EPS)
        if bias is not None:
            mean = mean - bias
        return _Unit(node, weights, [scale, shift, mean, variance], bn.output, _moved(node, weights.shape[2], size))

    def keep(self, unit: _Unit, convolution: str, bn: str, stride: int) -> None:
        """Give tensors their names. Raises CheckpointError if a convolution has another stride."""
        if (found := unit.node.numbers("strides", (1, 1))) != [stride] * 2:
            original = " (He et al.'s original nets have it there)" if unit.kernel == 1 and stride == 1 else ""
            raise CheckpointError(f"{unit.node}, {convolution}: stride {by(found)}{original}, expected {stride}")
        self.tensors[f"{convolution}.weight"] = unit.weights
        self.tensors |= {f"{bn}.{name}": row for name, row in zip(STATISTICS, unit.statistics, strict=True)}

    def stem(self) -> tuple[str, tuple[int, int]]:
        """Walk over conv1, its BN, ReLU and pooling."""
        readers = self.readers[self.input]
        if [node.op for node in readers] != ["Conv"]:
            found = some(map(str, readers), 5) or "nothing"
            raise CheckpointError(f"its input is read by {found}, expected by one Conv of 7×7, as in a ResNet")
        conv1 = self.unit(readers[0], self.size)
        self.keep(conv1, "conv1", "bn1", 2)
        relu = self.next(conv1.output, "bn1", "Relu")
        self.values["scale_conv1"] = relu.output
        pool = self.next(relu.output, str(relu), "MaxPool")
        kernel, strides = pool.numbers("kernel_shape", (0, 0)), pool.numbers("strides", (1, 1))
        if kernel != [3, 3] or strides != [2, 2] or pool.numbers("dilations", (1, 1)) != [1, 1]:
            raise CheckpointError(f"{pool}: {by(kernel)}, stride {by(strides)}, expected 3×3 and 2×2")
        return pool.output, _moved(pool, 3, conv1.size)

    def block(self, x: str, size: tuple[int, int]) -> tuple[list[_Unit], _Unit | None, str]:
        """Walk over a residual block; return its convolutions, that of its shortcut, and its output."""
        readers = self.readers[x]
        chains = [self._chain(node, size) for node in readers if node.op == "Conv"]
        adds = [node for node in readers if node.op in ("Add", "Sum")]
        if len(readers) != 2 or len(chains) + len(adds) != 2 or not chains:
            raise CheckpointError(f"{escaped(x)} is read by {some(map(str, readers), 5)}, expected a residual block")
        chains.sort(key=lambda chain: len(chain[0]))
        units, add = chains.pop()
        shortcut = chains[0][0] if chains else None
        if (shortcut and (len(shortcut) != 1 or chains[0][1] is not add)) or (adds and adds != [add]):
            raise CheckpointError(f"{escaped(x)}: the two ways from it do not meet, expected a residual block")
        self.use(add)
        relu = self.next(add.output, str(add), "Relu")
        return units, shortcut and shortcut[0], relu.output

    def _chain(self, node: _Node, size: tuple[int, int]) -> tuple[list[_Unit], _Node]:
        """Walk over convolutions with ReLU between them; return them and the sum at their end."""
        units = [self.unit(node, size)]
        while (reader := self._after(units[-1])).op == "Relu":
            self.use(reader)
            units.append(self.unit(self.only(reader.output, str(reader), "Conv"), units[-1].size))
        return units, reader

    def _after(self, unit: _Unit) -> _Node:
        readers = self.readers[unit.output]
        op = "Add" if [node.op for node in readers] != ["Sum"] else "Sum"  # the same of two, and named as one
        return self.only(unit.output, f"the BN after {unit.node}", "Relu", op)

    def stages(self, x: str, size: tuple[int, int]) -> tuple[str, tuple[int, int]]:
        """Walk over all residual blocks."""
        widths, counts, outputs = [width for _, width in STAGES], [0] * len(STAGES), []
        while not outputs or (self.readers[x] and self.readers[x][0].op in ("Conv", "Add", "Sum")):
            units, shortcut, x = self.block(x, size)
            kernels, filters = tuple(unit.kernel for unit in units), len(units[0].weights)
            if kernels not in _KINDS:
                found = ", ".join(f"{kernel}×{kernel}" for kernel in kernels)
                raise CheckpointError(f"{units[0].node}: a block of {found}, expected {' or '.join(_KINDS.values())}")
            if filters not in widths or any(counts[widths.index(filters) + 1 :]):
                raise CheckpointError(f"{units[0].node}: {filters} filters, expected {by(widths)} in four stages")
            stage = widths.index(filters)
            block, stride = f"layer{stage + 1}.{counts[stage]}", 2 if stage and not counts[stage] else 1
            for number, unit in enumerate(units, 1):
                strided = stride if number == kernels.index(3) + 1 else 1
                self.keep(unit, f"{block}.conv{number}", f"{block}.bn{number}", strided)
            if shortcut:
                self.keep(shortcut, f"{block}.downsample.0", f"{block}.downsample.1", stride)
            counts[stage] += 1
            outputs.append(x)
            size = units[-1].size
        names = [f"res{name}" for _, _, name in blocks(basic_blocks(*counts))]
        self.values |= dict(zip(names, outputs, strict=True))
        return x, size

    def features(self, x: str, size: tuple[int, int]) -> str:
        """Walk over the average of each map."""
        pool = self.next(x, "the last block", "GlobalAveragePool", "AveragePool", "ReduceMean")
        if pool.op == "ReduceMean":
            axes = pool.attributes.get("axes") if len(pool.inputs) < 2 else self.array(pool, 1)
            axes = np.asarray(() if axes is None else axes).ravel()
            whole = axes.dtype.kind == "i" and sorted(axes % 4) == [2, 3]
        elif pool.op == "AveragePool":
            whole = pool.numbers("kernel_shape", size) == list(size) and not any(pool.numbers("pads", (0,) * 4))
        else:
            whole = True
        if not whole:
            raise CheckpointError(f"{pool}: expected the average of whole maps, which are {by(size)}")
        self.values["pool5"] = pool.output
        return pool.output

    def classifier(self, x: str) -> None:
        """Walk over the classifier, if there is one, to the end."""
        x = self._shaped(x)
        if not self.readers[x]:
            return
        node = self.next(x, "the features", "Gemm", "MatMul")
        weight, bias = self.array(node, 1), self.array(node, 2)
        if weight is None or weight.ndim != 2:
            raise CheckpointError(f"{node}: expected weights of features by classes")
        if node.op == "MatMul" and [reader.op for reader in self.readers[node.output]] == ["Add"]:
            node = self.next(node.output, str(node), "Add")
            (place,) = [i for i, name in enumerate(node.inputs) if name in self.constants] or [0]
            bias = self.array(node, place)
        elif {node.number(name, 1) for name in ("alpha", "beta")} != {1} or node.number("transA", 0):
            raise CheckpointError(f"{node}: alpha, beta or transA, expected a product with weights plus a bias")
        if not node.number("transB", 0):
            weight = weight.T
        self.tensors["fc.weight"] = weight
        self.tensors["fc.bias"] = np.zeros(len(weight), np.float32) if bias is None else bias.reshape(-1)
        self.values[f"fc{len(weight)}"] = node.output
        x = self._shaped(node.output)
        if self.readers[x]:
            self.next(x, "the scores", "Softmax")

    def _shaped(self, x: str) -> str:
        """Walk over nodes that only change the shape."""
        while [node.op in _SHAPING for node in self.readers[x]] == [True]:
            node = self.use(self.readers[x][0])
            for name in node.inputs[1:]:
                self._use_ancestors(name)
            x = node.output
        return x

    def _use_ancestors(self, name: str) -> None:
        """Remove the nodes that only compute a shape: those of PyTorch's ``view(x.size(0), -1)``."""
        maker = self.makers.get(name)
        if maker in self.left and maker.op in ("Shape", "Gather", "Unsqueeze", "Concat", "Slice", "Cast"):
            self.use(maker)
            for one in maker.inputs:
                self._use_ancestors(one)


def read(model: ModelProto, where: str) -> tuple[dict[str, NDArray], OnnxNet]:
    """Return the tensors of a ResNet, by torchvision's names, and the net as its file ``where`` computes it.

    Raises CheckpointError naming a node that no ResNet has.
    """
    opset = next((one.version for one in model.opset_import if one.domain in ("", "ai.onnx")), 0)
    if not OPSETS[0] <= opset <= OPSETS[1]:
        raise CheckpointError(f"operator set {opset}, expected {OPSETS[0]} to {OPSETS[1]}")
    if model.functions:
        model = onnx.inliner.inline_local_functions(model)
    walk = _Walk(model)
    for readers in walk.readers.values():  # of what only shapes are made by
        readers[:] = [node for node in readers if node.op != "Shape"]
    walk.classifier(walk.features(*walk.stages(*walk.stem())))
    if walk.left:
        raise CheckpointError(f"with {some(map(str, walk.left), 5)}, which no ResNet has")
    runtime = Runtime(_for_tests(model, walk.values.values()), name=where)
    return walk.tensors, OnnxNet(runtime, walk.values, walk.size)


def _for_tests(model: ModelProto, values: Iterable[str]) -> bytes:
    """Return the graph as nets are tested, with these values as outputs."""
    graph = with_outputs(model, dict.fromkeys(values))
    for node in graph.graph.node:
        if node.op_type == "BatchNormalization":
            del node.output[1:]
            _drop(node, "training_mode")
        elif node.op_type == "Dropout":
            node.op_type = "Identity"
            del node.input[1:], node.output[1:], node.attribute[:]
    return graph.SerializeToString()


def _drop(node: NodeProto, attribute: str) -> None:
    kept = [one for one in node.attribute if one.name != attribute]
    del node.attribute[:]
    node.attribute.extend(kept)


def _title(node: NodeProto) -> str:
    return f"{escaped(node.name or next(iter(node.output), ''))} ({escaped(node.op_type)})"


def _input(model: ModelProto, constants: Mapping[str, TensorProto]) -> tuple[str, tuple[int, int]]:
    """Return the name of the only input, and its height and width: the network's if they are free."""
    inputs = [one for one in model.graph.input if one.name not in constants]
    if len(inputs) != 1:
        raise CheckpointError(
            f"its inputs are {some((escaped(one.name) for one in inputs), 5) or 'none'}, expected one"
        )
    kind = inputs[0].type.tensor_type
    dims = [one.dim_value for one in kind.shape.dim]
    if kind.elem_type != TensorProto.FLOAT or len(dims) != 4 or dims[1] not in (0, 3):
        raise CheckpointError(f"its input is {by(dims)} (0: any), expected N×3×H×W in 32-bit floats")
    if not all(0 <= size <= 4096 for size in dims):
        raise CheckpointError(f"its input is {by(dims)}, expected pictures of at most 4096×4096")
    return inputs[0].name, tuple(size or input_of(RESNET18).crop for size in dims[2:])


def _moved(node: _Node, kernel: int, size: tuple[int, int]) -> tuple[int, int]:
    """Return the output size of a window on maps of ``size``, if it reads the pixels that Torch's does.

    Torch pads by half a window on all sides, and rounds down; at even sizes one pixel less below and right reads the
    same. Raises CheckpointError if a window reads others.
    """
    strides = [max(stride, 1) for stride in node.numbers("strides", (1, 1))]
    found = list(_windows(node, kernel, strides, size))
    torch = [(kernel // 2, (side + kernel // 2 * 2 - kernel) // strides[i] + 1) for i, side in enumerate(size)]
    if found != torch:
        pads = node.attributes.get("pads", node.attributes.get("auto_pad", "none"))
        raise CheckpointError(
            f"{node}: at {by(size)} its pads {escaped(str(pads))} read other pixels than Torch's {kernel // 2} do"
        )
    return tuple(count for _, count in torch)


def _windows(node: _Node, kernel: int, strides: Sequence[int], size: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yield where the first window begins (pixels before the map) and how many there are, down and across."""
    pads = node.numbers("pads", (0,) * 4)
    auto = node.attributes.get("auto_pad", b"NOTSET")
    up = 1 if node.number("ceil_mode", 0) else 0
    for axis, side in enumerate(size):
        stride, (before, after) = strides[axis], (pads[axis], pads[axis + 2])
        if auto in (b"SAME_UPPER", b"SAME_LOWER"):
            total = max((-(-side // stride) - 1) * stride + kernel - side, 0)
            before = total // 2 if auto == b"SAME_UPPER" else total - total // 2
            after = total - before
        yield before, (side + before + after - kernel + up * (stride - 1)) // stride + 1
