"""Writing Lua Torch's binary files, and the nets that fb.resnet.torch saves in them."""

import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from torch import nn

from tests.latent_domains.convert.torch.nets import Block, Bottleneck, ResNet

_NUMBERS = {"Float": "<f4", "Double": "<f8", "Cuda": "<f4", "CudaHalf": "<f2", "Half": "<f2", "Long": "<i8"}


@dataclass(eq=False)
class Object:
    """An object of a Lua class."""

    name: str
    fields: dict[str, Any]
    version: int = 1


@dataclass(eq=False)
class Storage:
    """Numbers of a kind that tensors share."""

    kind: str
    numbers: np.ndarray
    size: int | None = None
    """What the file says its size is; None: the truth."""


@dataclass(eq=False)
class Strided:
    """A tensor: part of a storage, or nothing. The offset counts from 1."""

    kind: str
    storage: Storage | None
    offset: int = 1
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()


def tensor(array: Any, kind: str = "Float") -> Strided:
    """A tensor with a storage of its own."""
    array = np.asarray(array)
    strides = tuple(int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim))
    return Strided(kind, Storage(kind, array.ravel()), 1, array.shape, strides)


def written(value: Any) -> bytes:
    """The file that holds ``value``."""
    writer = _Writer()
    writer.value(value)
    return bytes(writer.data)


@dataclass
class _Writer:
    data: bytearray = field(default_factory=bytearray)
    objects: dict[int, int] = field(default_factory=dict)

    def pack(self, kinds: str, *values: Any) -> None:
        self.data += struct.pack(f"<{kinds}", *values)

    def string(self, text: str) -> None:
        self.pack("i", len(text.encode()))
        self.data += text.encode()

    def value(self, value: Any) -> None:
        if value is None:
            self.pack("i", 0)
        elif isinstance(value, bool):
            self.pack("ii", 5, value)
        elif isinstance(value, (int, float)):
            self.pack("id", 1, value)
        elif isinstance(value, str):
            self.pack("i", 2)
            self.string(value)
        else:
            self.reference(value)

    def reference(self, value: Any) -> None:
        """What is written once, and referred to by its number after that."""
        self.pack("i", 3 if isinstance(value, (dict, list)) else 4)
        known = self.objects.get(id(value))
        self.pack("i", known or len(self.objects) + 1)
        if known:
            return
        self.objects[id(value)] = len(self.objects) + 1
        if isinstance(value, list):
            value = dict(enumerate(value, 1))
        if isinstance(value, dict):
            self.table(value)
        elif isinstance(value, Object):
            self.class_name(value.name, value.version)
            self.value(value.fields)
        elif isinstance(value, Storage):
            self.class_name(f"torch.{value.kind}Storage")
            self.pack("q", len(value.numbers) if value.size is None else value.size)
            self.data += value.numbers.astype(_NUMBERS[value.kind]).tobytes()
        else:
            self.class_name(f"torch.{value.kind}Tensor")
            axes = len(value.shape)
            self.pack(f"i{2 * axes}qq", axes, *value.shape, *value.strides, value.offset)
            self.value(value.storage)

    def class_name(self, name: str, version: int = 1) -> None:
        self.string(f"V {version}")
        self.string(name)

    def table(self, table: dict[Any, Any]) -> None:
        table = {key: value for key, value in table.items() if value is not None}  # no table holds nil
        self.pack("i", len(table))
        for key, value in table.items():
            self.value(key)
            self.value(value)


class Builder:
    """Makes the Lua objects of a ResNet, with these choices of those that are met in files.

    ``namespace`` of the layers with cuDNN versions; ``kind`` of the tensors; ``old`` BN; ``eps`` of BN; ``matrix``
    weights of two axes; ``biases`` of the convolutions, which BN subtracts again. As after Lua's getParameters, all
    parameters are parts of one storage.
    """

    def __init__(
        self,
        *,
        namespace: str = "nn",
        kind: str = "Float",
        old: bool = False,
        eps: float | None = 1e-5,
        matrix: bool = False,
        biases: bool = False,
    ) -> None:
        self.namespace, self.kind, self.old, self.eps = namespace, kind, old, eps
        self.matrix, self.biases = matrix, biases
        self._flat: list[np.ndarray] = []
        self._storage = Storage(kind, np.empty(0))
        self._rng = np.random.default_rng(7)

    def net(self, net: ResNet) -> Object:
        """The whole net."""
        modules = [
            *self._unit(net.conv1, net.bn1),
            self._relu(),
            self._object("SpatialMaxPooling", kW=3, kH=3, dW=2, dH=2, padW=1, padH=1, ceil_mode=False),
        ]
        for stage in range(1, 5):
            modules.append(_container("Sequential", [self._block(block) for block in getattr(net, f"layer{stage}")]))
        modules += [
            self._object("SpatialAveragePooling", kW=7, kH=7, dW=1, dH=1, padW=0, padH=0),
            Object("nn.View", {"numElements": net.fc.in_features, "numInputDims": 3}),
            Object("nn.Linear", {"weight": self._parameter(net.fc.weight), "bias": self._parameter(net.fc.bias)}),
        ]
        self._storage.numbers = np.concatenate(self._flat)
        return _container("Sequential", modules)

    def _block(self, block: Block | Bottleneck) -> Object:
        convolutions = [*self._unit(block.conv1, block.bn1), self._relu(), *self._unit(block.conv2, block.bn2)]
        if isinstance(block, Bottleneck):
            convolutions += [self._relu(), *self._unit(block.conv3, block.bn3)]
        shortcut = Object("nn.Identity", {})
        if block.downsample is not None:
            shortcut = _container("Sequential", self._unit(*block.downsample))
        both = _container("ConcatTable", [_container("Sequential", convolutions), shortcut])
        return _container("Sequential", [both, Object("nn.CAddTable", {"inplace": True}), self._relu()])

    def _unit(self, convolution: nn.Conv2d, bn: nn.BatchNorm2d) -> list[Object]:
        weight, mean, variance = (
            value.detach().double().numpy() for value in (convolution.weight, bn.running_mean, bn.running_var)
        )
        bias = None
        if self.biases:
            values = self._rng.normal(size=len(mean))
            mean, bias = mean + values, self._parameter(values)
        (stride, _), (pad, _), (size, _) = convolution.stride, convolution.padding, convolution.kernel_size
        geometry = {"nInputPlane": convolution.in_channels, "nOutputPlane": convolution.out_channels}
        geometry |= {
            f"{name}{axis}": value for name, value in (("k", size), ("d", stride), ("pad", pad)) for axis in "WH"
        }
        eps = 1e-5 if self.eps is None else self.eps
        if self.old:
            statistics = {"running_std": tensor((variance + 1e-5) ** -0.5, self.kind)}
        else:
            statistics = {"running_var": tensor(variance + 1e-5 - eps, self.kind)}
        name = "nn.SpatialConvolutionMM" if self.matrix else f"{self.namespace}.SpatialConvolution"
        return [
            Object(
                name,
                {
                    **geometry,
                    **({"groups": 1} if self.namespace == "cudnn" else {}),
                    "weight": self._parameter(weight.reshape(len(weight), -1) if self.matrix else weight),
                    "bias": bias,
                    "gradInput": Strided(self.kind, None),
                },
            ),
            Object(
                f"{self.namespace}.SpatialBatchNormalization",
                {
                    "eps": self.eps,
                    "weight": self._parameter(bn.weight),
                    "bias": self._parameter(bn.bias),
                    "running_mean": tensor(mean, self.kind),
                    **statistics,
                },
                version=1 if self.old else 2,
            ),
        ]

    def _parameter(self, values: Any) -> Strided:
        """A part of the storage that all parameters share."""
        array = np.asarray(values.detach() if isinstance(values, nn.Parameter) else values)
        offset = 1 + sum(len(part) for part in self._flat)
        self._flat.append(array.ravel())
        strides = tuple(int(np.prod(array.shape[axis + 1 :])) for axis in range(array.ndim))
        return Strided(self.kind, self._storage, offset, array.shape, strides)

    def _relu(self) -> Object:
        return self._object("ReLU", inplace=True, threshold=0, val=0)

    def _object(self, name: str, **fields: Any) -> Object:
        return Object(f"{self.namespace}.{name}", fields)


def _container(name: str, modules: list[Object]) -> Object:
    return Object(f"nn.{name}", {"modules": modules, "train": False, "_type": "torch.FloatTensor"})
