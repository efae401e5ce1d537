"""Lua Torch's files (.t7), and the ResNets in them.

Files are read by the library ``torchfile`` with our own reading of tensors and storages: its own trusts every size in
the file. Objects of Lua classes become plain records of their fields, functions stay unread bytes: nothing can run.

Nets of fb.resnet.torch, trees of Lua objects, become state dicts with torchvision's names: a Sequential of convolution,
BN, ReLU, pooling, four stages, pooling and the classifier. A stage is a Sequential of blocks; a block a Sequential of a
ConcatTable (the convolutions, and the shortcut: Identity or, of type B, a convolution with its BN), CAddTable and ReLU.
Classes may be nn's, cudnn's or fbnn's.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torchfile
from numpy.typing import NDArray
from torchfile import TorchObject

from latent_domains.common.wording import by
from latent_domains.convert.torch.tensors import KINDS, MOST_AXES, escaped, strided
from latent_domains.networks.network import EPS, CheckpointError


class _Source:
    """The bytes of a file. Each read begins where the last one ended, and never passes the end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def read(self, size: int) -> bytes:
        left = len(self._data) - self._at
        if not 0 <= size <= left:
            raise CheckpointError(f"damaged or truncated: {size} bytes are to come after byte {self._at}, found {left}")
        self._at += size
        return self._data[self._at - size : self._at]


def read(data: bytes) -> Any:
    """Return the object in a file: tables as dicts, strings as bytes, tensors as arrays, others as TorchObject.

    Raises CheckpointError if the file is damaged.
    """
    try:
        # Its lists are found by comparing all values, which arrays do not stand.
        return torchfile.T7Reader(_Source(data), force_8bytes_long=True, use_list_heuristic=False).read_obj()
    except CheckpointError:
        raise
    except Exception as error:  # the library checks nothing itself: a damaged file can raise anything
        found = escaped(str(error) or type(error).__name__)
        raise CheckpointError(f"damaged, or no binary file of Lua Torch's: {found}") from error


def _register(name: str, dtype: np.dtype) -> None:
    """Read storages and tensors of the Lua classes torch.NAMEStorage and torch.NAMETensor."""

    def storage(reader: torchfile.T7Reader, _: object) -> NDArray:
        return np.frombuffer(reader.f.read(reader.read_long() * dtype.itemsize), dtype)

    def tensor(reader: torchfile.T7Reader, _: object) -> NDArray:
        axes = reader.read_int()
        if not 0 <= axes <= MOST_AXES:
            raise CheckpointError(f"a tensor of {axes} axes, expected at most {MOST_AXES}")
        shape, strides = (tuple(reader.read_long() for _ in range(axes)) for _ in range(2))
        offset = reader.read_long() - 1  # Lua counts from 1
        numbers = reader.read_obj()
        if numbers is None or axes == 0:
            return np.empty(0, dtype)
        if not isinstance(numbers, np.ndarray) or numbers.dtype != dtype:
            raise CheckpointError(f"a torch.{name}Tensor whose storage has another type")
        return strided(numbers, offset, shape, strides)

    torchfile.register_handler(f"torch.{name}Storage".encode())(storage)
    torchfile.register_handler(f"torch.{name}Tensor".encode())(tensor)


for _dtype, (_name, _) in KINDS.items():
    _register(_name, _dtype)
    _register("Cuda" if _name == "Float" else f"Cuda{_name}", _dtype)


_NAMESPACES = ("nn", "cudnn", "fbnn")

_UNIT = "SpatialConvolution(MM)? (Spatial)?BatchNormalization"
_HEAD = "( View| Reshape)?( Linear( (Log)?SoftMax)?)?"
_NET = f"{_UNIT} ReLU SpatialMaxPooling( Sequential){{4}} SpatialAveragePooling{_HEAD}"
_STAGE, _BLOCK, _BRANCHES = "Sequential( Sequential)*", "ConcatTable CAddTable ReLU", "Sequential (Sequential|Identity)"
_CONVOLUTIONS = f"{_UNIT}( ReLU {_UNIT}){{1,2}}"
"""The classes of the modules in each container, as patterns."""

_ROUNDING = 1e-5
"""How far an inverse standard deviation may exceed eps^-½, as a share of it: it is a running average in float32."""


@dataclass(frozen=True)
class _Module:
    """A Lua object with its class, without the namespace, and its place in the tree, for messages."""

    kind: str
    name: str
    fields: dict[bytes, Any]

    def modules(self, pattern: str) -> list["_Module"]:
        """Return the modules in it. Raises CheckpointError unless their classes match the ``pattern``."""
        found = self.fields.get(b"modules")
        count = len(found) if isinstance(found, dict) else 0
        modules = [_module(found.get(place), f"{self.name}.{place}") for place in range(1, count + 1)]
        kinds = " ".join(module.kind for module in modules)
        if not re.fullmatch(pattern, kinds):
            raise CheckpointError(
                f"{self.name} ({self.kind}) holds {escaped(kinds)}, expected {pattern} as in a net of fb.resnet.torch"
            )
        return modules

    def number(self, field: str, default: float | None = None) -> float:
        value = self.fields.get(field.encode(), default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CheckpointError(f"{self.name}: its {field} is a {type(value).__name__}, expected a number")
        return value

    def has(self, field: str) -> bool:
        """Say whether there is a tensor that is not empty."""
        return getattr(self.fields.get(field.encode()), "size", 0) > 0

    def tensor(self, field: str) -> NDArray[np.float64]:
        """Return a tensor that must be there."""
        value = self.fields.get(field.encode())
        if not isinstance(value, np.ndarray) or value.dtype.kind != "f":
            found = value.dtype if isinstance(value, np.ndarray) else type(value).__name__
            raise CheckpointError(f"{self.name}: its {field} is {found}, expected a tensor of floats")
        with np.errstate(invalid="ignore"):  # a damaged file's NaNs, which are refused later
            return value.astype(np.float32).astype(np.float64)


def state_dict(root: Any) -> dict[str, NDArray]:
    """Return tensors by torchvision's names. Raises CheckpointError for a module that is not as in fb.resnet.torch."""
    tensors: dict[str, NDArray] = {}
    convolution, bn, _, pooling, *stages, average = (modules := _module(root, "the net").modules(_NET))[:9]
    _add_unit(tensors, convolution, bn, "conv1", "bn1", stride=2, pad=3)
    _check(pooling, kW=3, kH=3, dW=2, dH=2, padW=1, padH=1)
    for number, stage in enumerate(stages, 1):
        for place, block in enumerate(stage.modules(_STAGE)):
            _add_block(tensors, block, f"layer{number}.{place}", stride=2 if number > 1 and place == 0 else 1)
    _check(average, kW=7, kH=7, padW=0, padH=0)
    for linear in modules[9:]:
        if linear.kind == "Linear":
            tensors |= {f"fc.{field}": linear.tensor(field) for field in ("weight", "bias")}
    return {name: values.astype(np.float32) for name, values in tensors.items()}


def _add_block(tensors: dict[str, NDArray], block: _Module, name: str, *, stride: int) -> None:
    both, _, _ = block.modules(_BLOCK)
    convolutions, shortcut = both.modules(_BRANCHES)
    modules = convolutions.modules(_CONVOLUTIONS)
    steps = ((stride, 1), (1, 1)) if len(modules) == 5 else ((1, 0), (stride, 1), (1, 0))  # or a bottleneck
    for number, (step, pad) in enumerate(steps, 1):
        convolution, bn = modules[3 * number - 3 : 3 * number - 1]
        _add_unit(tensors, convolution, bn, f"{name}.conv{number}", f"{name}.bn{number}", stride=step, pad=pad)
    if shortcut.kind != "Identity":
        convolution, bn = shortcut.modules(_UNIT)  # of type A it is a pooling
        _add_unit(tensors, convolution, bn, f"{name}.downsample.0", f"{name}.downsample.1", stride=stride, pad=0)


def _add_unit(
    tensors: dict[str, NDArray], convolution: _Module, module: _Module, name: str, bn: str, *, stride: int, pad: int
) -> None:
    """Add a convolution and its BN. A bias before the BN only shifts the mean that it subtracts."""
    _check(convolution, dW=stride, dH=stride, padW=pad, padH=pad, groups=1)
    weights, mean = convolution.tensor("weight"), module.tensor("running_mean")
    if weights.ndim == 2:  # as SpatialConvolutionMM keeps them, and nn for a while
        geometry = (convolution.number(field) for field in ("nInputPlane", "kH", "kW"))
        weights = _reshaped(convolution, "weight", len(weights), *geometry)
    if convolution.has("bias"):
        mean = mean - _reshaped(convolution, "bias", *mean.shape)
    tensors[f"{name}.weight"] = weights
    tensors |= {f"{bn}.{field}": module.tensor(field) for field in ("weight", "bias")}
    tensors |= {f"{bn}.running_mean": mean, f"{bn}.running_var": _variance(module)}


def _reshaped(module: _Module, field: str, *shape: float) -> NDArray[np.float64]:
    values = module.tensor(field)
    if values.size != np.prod(shape) or min(shape, default=0) < 1:
        raise CheckpointError(f"{module.name}: its {field} is {by(values.shape)}, expected {by(shape)}")
    return values.reshape([int(size) for size in shape])


def _variance(bn: _Module) -> NDArray[np.float64]:
    """Return the running variance, to which EPS is to be added.

    BN kept ``running_std`` until its version 2: the average of (variance + eps)^-½, the inverse of its name.
    """
    eps = bn.number("eps", EPS)
    if not EPS * (1 - _ROUNDING) <= eps < 1:
        raise CheckpointError(f"{bn.name}: its eps is {eps:g}, expected at least {EPS:g} (Caffe's) and less than 1")
    if not bn.has("running_std"):
        variance = bn.tensor("running_var")
        return variance + (eps - EPS) if eps > EPS * (1 + _ROUNDING) else variance
    inverse = bn.tensor("running_std")
    impossible = ~((inverse > 0) & (inverse <= eps**-0.5 * (1 + _ROUNDING)))
    if impossible.any():
        raise CheckpointError(
            f"{bn.name}: its running_std holds {inverse[impossible][0]:g}, expected inverse standard deviations "
            f"above 0 and at most eps^-½ = {eps**-0.5:g}"
        )
    return np.maximum(inverse**-2 - EPS, 0)


def _check(module: _Module, **expected: int) -> None:
    """Raise CheckpointError if a field is not as expected. A missing field has Lua Torch's default."""
    for field, value in expected.items():
        found = module.number(field, {"padW": 0, "padH": 0, "groups": 1}.get(field))
        if found != value:
            raise CheckpointError(f"{module.name} ({module.kind}): its {field} is {found:g}, expected {value}")
    if module.fields.get(b"ceil_mode"):
        raise CheckpointError(f"{module.name} ({module.kind}) rounds its size up, expected down")


def _module(value: Any, name: str) -> _Module:
    what = value.torch_typename().decode(errors="replace") if isinstance(value, TorchObject) else type(value).__name__
    namespace, _, kind = escaped(what).rpartition(".")
    if namespace not in _NAMESPACES:
        raise CheckpointError(f"{name} is a {escaped(what)}, expected an object of {', '.join(_NAMESPACES)}")
    return _Module(kind, name, value._obj if isinstance(value._obj, dict) else {})
