"""Reads nets of fb.resnet.torch, trees of Lua objects, into state dicts with torchvision's names.

A Sequential of convolution, BN, ReLU, pooling, four stages, pooling and the classifier. A stage is a Sequential of
blocks; a block a Sequential of a ConcatTable (the convolutions, and the shortcut: Identity or, of type B, a convolution
with its BN), CAddTable and ReLU. Classes may be nn's, cudnn's or fbnn's.
"""

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torchfile import TorchObject

from latent_domains.common.wording import by
from latent_domains.convert.torch.architectures import EPS
from latent_domains.convert.torch.tensors import CheckpointError, Tensor, of_values
from latent_domains.convert.torch.words import plain

_NAMESPACES = ("nn", "cudnn", "fbnn")

_UNIT = "SpatialConvolution(MM)? (Spatial)?BatchNormalization"
_HEAD = "( View| Reshape)?( Linear( (Log)?SoftMax)?)?"
_NET = f"{_UNIT} ReLU SpatialMaxPooling( Sequential){{4}} SpatialAveragePooling{_HEAD}"
_STAGE, _BLOCK, _BRANCHES = "Sequential( Sequential)*", "ConcatTable CAddTable ReLU", "Sequential (Sequential|Identity)"
_CONVOLUTIONS = f"{_UNIT}( ReLU {_UNIT}){{1,2}}"
"""The classes of the modules in each container, as patterns."""

_ROUNDING = 1e-5
"""How far an inverse standard deviation may go beyond eps^-½, as a part of it: it is a running average in float32."""


@dataclass(frozen=True)
class _Module:
    """A Lua object with its class, without the namespace, and its place in the tree, for messages."""

    kind: str
    name: str
    fields: dict[bytes, Any]

    def parts(self, pattern: str) -> list["_Module"]:
        """The modules in it. Raises CheckpointError unless their classes are as the ``pattern`` says."""
        modules = self.fields.get(b"modules")
        if not isinstance(modules, list):
            raise CheckpointError(
                f"{self.name} ({self.kind}) holds no list of modules, as a net of fb.resnet.torch does"
            )
        found = [_module(child, f"{self.name}.{place}") for place, child in enumerate(modules, 1)]
        kinds = " ".join(module.kind for module in found)
        if not re.fullmatch(pattern, kinds):
            raise CheckpointError(
                f"{self.name} ({self.kind}) holds {plain(kinds)}, expected {pattern} as in a net of fb.resnet.torch"
            )
        return found

    def number(self, field: str, default: float | None = None) -> float:
        value = self.fields.get(field.encode(), default)
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise CheckpointError(f"{self.name}: its {field} is {_shown(value)}, expected a number")
        return value

    def tensor(self, field: str) -> Tensor | None:
        """A tensor that may be missing, or empty."""
        value = self.fields.get(field.encode())
        if value is not None and not isinstance(value, Tensor):
            raise CheckpointError(f"{self.name}: its {field} is {_shown(value)}, expected a tensor")
        return value

    def values(self, field: str) -> NDArray[np.float64]:
        """A tensor that must be there."""
        tensor = self.tensor(field)
        if tensor is None:
            raise CheckpointError(f"{self.name} has no {field}, expected a tensor")
        try:
            with np.errstate(invalid="ignore"):  # a damaged file's NaNs, which are looked for later
                return tensor.values().astype(np.float64)
        except CheckpointError as error:
            raise CheckpointError(f"{self.name}: its {field}: {error}") from error


def state_dict(root: Any) -> dict[str, Tensor]:
    """Tensors by torchvision's names. Raises CheckpointError naming the module that is not as in fb.resnet.torch."""
    tensors: dict[str, Tensor] = {}
    convolution, bn, _, pooling, *stages, average = (modules := _module(root, "the net").parts(_NET))[:9]
    _add_unit(tensors, convolution, bn, "conv1", "bn1", stride=2, pad=3)
    _check(pooling, kW=3, kH=3, dW=2, dH=2, padW=1, padH=1)
    for number, stage in enumerate(stages, 1):
        for place, block in enumerate(stage.parts(_STAGE)):
            _add_block(tensors, block, f"layer{number}.{place}", stride=2 if number > 1 and place == 0 else 1)
    _check(average, kW=7, kH=7, padW=0, padH=0)
    for linear in modules[9:]:
        if linear.kind == "Linear":
            tensors |= {f"fc.{field}": of_values(linear.values(field)) for field in ("weight", "bias")}
    return tensors


def _add_block(tensors: dict[str, Tensor], block: _Module, name: str, *, stride: int) -> None:
    both, _, _ = block.parts(_BLOCK)
    convolutions, shortcut = both.parts(_BRANCHES)
    modules = convolutions.parts(_CONVOLUTIONS)
    steps = ((stride, 1), (1, 1)) if len(modules) == 5 else ((1, 0), (stride, 1), (1, 0))  # or a bottleneck
    for number, (step, pad) in enumerate(steps, 1):
        convolution, bn = modules[3 * number - 3 : 3 * number - 1]
        _add_unit(tensors, convolution, bn, f"{name}.conv{number}", f"{name}.bn{number}", stride=step, pad=pad)
    if shortcut.kind != "Identity":
        convolution, bn = shortcut.parts(_UNIT)  # of type A it is a pooling
        _add_unit(tensors, convolution, bn, f"{name}.downsample.0", f"{name}.downsample.1", stride=stride, pad=0)


def _add_unit(
    tensors: dict[str, Tensor], convolution: _Module, module: _Module, name: str, bn: str, *, stride: int, pad: int
) -> None:
    """A convolution and its BN. A bias before the BN only shifts the mean that it subtracts."""
    _check(convolution, dW=stride, dH=stride, padW=pad, padH=pad, groups=1)
    weights = convolution.values("weight")
    if weights.ndim == 2:  # as SpatialConvolutionMM keeps them, and nn for a while
        geometry = [convolution.number(field) for field in ("nInputPlane", "kH", "kW")]
        if weights.shape[1] != np.prod(geometry):
            raise CheckpointError(
                f"{convolution.name}: its weight is {by(weights.shape)}, expected {geometry[0]:g}·{geometry[1]:g}·"
                f"{geometry[2]:g} columns"
            )
        weights = weights.reshape(len(weights), *map(int, geometry))
    tensors[f"{name}.weight"] = of_values(weights)
    mean = module.values("running_mean")
    bias = convolution.tensor("bias")
    if bias is not None and bias.shape != (0,):
        if bias.shape != mean.shape:
            raise CheckpointError(f"{convolution.name}: its bias is {by(bias.shape)}, expected {by(mean.shape)}")
        mean = mean - convolution.values("bias")
    tensors[f"{bn}.weight"], tensors[f"{bn}.bias"] = (of_values(module.values(field)) for field in ("weight", "bias"))
    tensors[f"{bn}.running_mean"] = of_values(mean)
    tensors[f"{bn}.running_var"] = of_values(_variance(module))


def _variance(bn: _Module) -> NDArray[np.float64]:
    """The running variance, to which EPS is to be added.

    BN kept ``running_std`` until its version 2: the average of (variance + eps)^-½, the inverse of what it is called.
    """
    eps = bn.number("eps", EPS)
    if not EPS * (1 - _ROUNDING) <= eps < 1:
        raise CheckpointError(f"{bn.name}: its eps is {eps:g}, expected at least {EPS:g} (Caffe's) and less than 1")
    old, new = (bn.tensor(field) is not None for field in ("running_std", "running_var"))
    if old and new:
        raise CheckpointError(f"{bn.name} has a running_std and a running_var, expected one of them")
    if not old:
        variance = bn.values("running_var")
        return variance + (eps - EPS) if eps > EPS * (1 + _ROUNDING) else variance
    inverse = bn.values("running_std")
    largest = eps**-0.5 * (1 + _ROUNDING)
    impossible = ~((inverse > 0) & (inverse <= largest))
    if impossible.any():
        raise CheckpointError(
            f"{bn.name}: its running_std holds {inverse[impossible][0]:g}, expected inverse standard deviations "
            f"above 0 and at most eps^-½ = {eps**-0.5:g}"
        )
    return np.maximum(inverse**-2 - EPS, 0)


def _check(module: _Module, **expected: int) -> None:
    """Raise CheckpointError if a field is not as expected. One that is not there has the value Lua Torch gives it."""
    padding = module.number("padding", 0)  # as nn called both once
    for field, value in expected.items():
        found = module.number(field, {"padW": padding, "padH": padding, "groups": 1}.get(field))
        if found != value:
            raise CheckpointError(f"{module.name} ({module.kind}): its {field} is {found:g}, expected {value}")
    if module.fields.get(b"ceil_mode"):
        raise CheckpointError(f"{module.name} ({module.kind}) rounds its size up, expected down")


def _module(value: Any, name: str) -> _Module:
    if not isinstance(value, TorchObject) or not isinstance(value._obj, (dict, list)):
        raise CheckpointError(f"{name} is {_shown(value)}, expected an object of Lua Torch's nn")
    namespace, _, kind = _shown(value).rpartition(".")
    if namespace not in _NAMESPACES:
        raise CheckpointError(f"{name} is a {namespace}.{kind}, expected an object of {', '.join(_NAMESPACES)}")
    return _Module(kind, name, value._obj if isinstance(value._obj, dict) else {})


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, TorchObject):
        return plain(value.torch_typename().decode(errors="replace"))
    return type(value).__name__
