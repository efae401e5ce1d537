"""A training net in PyTorch: the same layers and weights, from the same prototxt."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import torch
from caffe.proto.caffe_pb2 import EltwiseParameter, LayerParameter, NetParameter, PoolingParameter
from torch import Tensor
from torch.nn import functional

from caffe_layers.domain_assignment import parameters as assignment_parameters
from caffe_layers.mda import parameters as mda_parameters
from latent_domains.models.graph import kind
from latent_domains.models.model import Array

Step = Callable[..., Tensor | Sequence[Tensor]]

NORMS = ("MDALayer", "BatchNorm")


class Norm(torch.nn.Module):
    """mDA or BatchNorm in training, with the Scale after it, if any.

    With w an mDA layer is a weighted BN for each domain; without w it is one BN of all rows.
    """

    def __init__(self, layer: LayerParameter, statistics: Array, scale: Sequence[Array]) -> None:
        super().__init__()
        if layer.type == "BatchNorm":
            self.eps, fraction = layer.batch_norm_param.eps, layer.batch_norm_param.moving_average_fraction
        else:
            values = mda_parameters(layer.python_param.param_str)
            self.eps, fraction = values["eps"], values["moving_average_fraction"]
        self.momentum = 1 - fraction
        shape = np.atleast_2d(statistics).shape
        self.register_buffer("mean", torch.zeros(shape))
        self.register_buffer("variance", torch.ones(shape))
        self.gamma, self.beta = [torch.nn.Parameter(torch.tensor(blob)) for blob in scale] or (None, None)

    def forward(self, x: Tensor, w: Tensor | None = None) -> Tensor:
        """Return y for x (N×C×…) and w (N×D)."""
        if w is None:
            running = self.mean[-1], self.variance[-1]
            return functional.batch_norm(x, *running, self.gamma, self.beta, True, self.momentum, self.eps)
        places = tuple(range(2, x.ndim))
        channels = (1, -1, *[1] * len(places))
        y, of_images = torch.zeros_like(x), x.mean(places) if places else x
        for domain in range(w.shape[1]):
            row = w[:, domain]
            mass = row.sum()
            mean = row @ of_images / mass
            centred = x - mean.view(channels)
            squares = centred.square()
            variance = row @ (squares.mean(places) if places else squares) / mass
            inverse = torch.rsqrt(variance + self.eps)
            y = torch.addcmul(y, centred, (row[:, None] * inverse).view(*x.shape[:2], *[1] * len(places)))
            with torch.no_grad():
                count = mass * x[0, 0].numel()
                self.mean[domain].lerp_(mean, self.momentum)
                self.variance[domain].lerp_(variance * count / (count - 1), self.momentum)
        return y if self.gamma is None else y * self.gamma.view(channels) + self.beta.view(channels)


class TorchTwin(torch.nn.Module):
    """A training net as a module. ``forward`` maps inputs to the blobs that no layer reads, by their names in Caffe.

    Children have the names of the layers in Caffe that have their parameters. With ``plain`` every mDA layer is one BN
    of all rows. Parameters that the solver does not change (lr_mult 0) have no gradient. Raises ValueError naming a
    layer of another type.
    """

    def __init__(self, net: NetParameter, blobs: Mapping[str, Sequence[Array]], *, plain: bool = False) -> None:
        super().__init__()
        self._steps: list[tuple[Step, list[str], list[str]]] = []
        self.loss_weights: dict[str, float] = {}
        layers = [layer for layer in net.layer if layer.type not in ("Input", "Silence")]
        for layer, following in zip(layers, [*layers[1:], LayerParameter()], strict=True):
            bottoms, tops = list(layer.bottom), list(layer.top)
            if kind(layer) in NORMS:
                scaled = following.type == "Scale" and list(following.bottom) == tops
                norm = Norm(layer, blobs[layer.name][0], blobs[following.name] if scaled else ())
                self.add_module(following.name if scaled else layer.name, norm)
                self._steps.append((norm, bottoms[:1] if plain else bottoms, tops))
            elif layer.type == "Scale" and self._steps and isinstance(self._steps[-1][0], Norm):
                self._steps[-1] = (*self._steps[-1][:2], tops)
            else:
                self._steps.append((self._step(layer, blobs.get(layer.name, ())), bottoms, tops))
            if "Loss" in kind(layer):
                self.loss_weights[tops[0]] = layer.loss_weight[0] if layer.loss_weight else 1.0
        self._last = {name: i for i, (_, bottoms, _) in enumerate(self._steps) for name in bottoms}

    def forward(self, inputs: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return the blobs that no layer reads."""
        values = dict(inputs)
        for i, (step, bottoms, tops) in enumerate(self._steps):
            made = step(*(values[name] for name in bottoms))
            for name in bottoms:
                if self._last[name] == i:
                    del values[name]
            values.update(zip(tops, [made] if isinstance(made, Tensor) else made, strict=True))
        return values

    def loss(self, outputs: Mapping[str, Tensor]) -> Tensor:
        """Return the weighted sum of the losses among ``outputs``."""
        return sum(weight * outputs[name] for name, weight in self.loss_weights.items())

    def _step(self, layer: LayerParameter, blobs: Sequence[Array]) -> Step:
        make = _STEPS.get(kind(layer))
        if make is None:
            raise ValueError(f"layer {layer.name}: {kind(layer)}, expected one of {', '.join(_STEPS)}")
        rates = [param.lr_mult for param in layer.param] or [1.0] * len(blobs)
        parameters = [
            torch.nn.Parameter(torch.tensor(blob), requires_grad=rate != 0)
            for blob, rate in zip(blobs, rates, strict=True)
        ]
        if parameters:
            self.add_module(layer.name, torch.nn.ParameterList(parameters))
        return make(layer, parameters)


def _one(values: Sequence[int], default: int) -> int:
    return values[0] if values else default


def _convolution(layer: LayerParameter, parameters: Sequence[Tensor]) -> Step:
    form = layer.convolution_param
    weight, bias = parameters[0], parameters[1] if form.bias_term else None
    stride, pad, dilation = _one(form.stride, 1), _one(form.pad, 0), _one(form.dilation, 1)
    if not form.pad_end:
        return lambda x: functional.conv2d(x, weight, bias, stride, pad, dilation, form.group)
    bottom, right = form.pad_end[0], form.pad_end[-1]
    return lambda x: functional.conv2d(
        functional.pad(x, (pad, right, pad, bottom)), weight, bias, stride, 0, dilation, form.group
    )


def _pooling(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    form = layer.pooling_param
    if form.global_pooling:
        return (lambda x: x.mean((2, 3), keepdim=True)) if form.pool == form.AVE else (lambda x: x.amax((2, 3), True))
    if form.pool != PoolingParameter.MAX:
        raise ValueError(f"layer {layer.name}: average pooling, expected maxima or a global one")
    ceil = form.round_mode != PoolingParameter.FLOOR
    return lambda x: functional.max_pool2d(x, form.kernel_size, form.stride, form.pad, ceil_mode=ceil)


def _relu(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    in_place = list(layer.bottom) == list(layer.top)
    return lambda x: functional.relu(x, inplace=in_place)


def _clip(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    form, in_place = layer.clip_param, list(layer.bottom) == list(layer.top)
    return lambda x: functional.hardtanh(x, form.min, form.max, inplace=in_place)


def _inner_product(layer: LayerParameter, parameters: Sequence[Tensor]) -> Step:
    weight, bias = parameters[0], parameters[1] if layer.inner_product_param.bias_term else None
    return lambda x: functional.linear(x.flatten(1), weight, bias)


def _lrn(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    form = layer.lrn_param
    return lambda x: functional.local_response_norm(x, form.local_size, form.alpha, form.beta, form.k)


def _slice(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    form = layer.slice_param
    points = [0, *form.slice_point]

    def parts(x: Tensor) -> Sequence[Tensor]:
        sizes = [end - start for start, end in zip(points, [*points[1:], x.shape[form.axis]], strict=True)]
        return x.split(sizes, form.axis)

    return parts


def _eltwise(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    if layer.eltwise_param.operation != EltwiseParameter.SUM or layer.eltwise_param.coeff:
        raise ValueError(f"layer {layer.name}: expected a sum without coefficients")
    return torch.add


def _assignment(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    values = assignment_parameters(layer.python_param.param_str)
    first, domains = values["first"], values["num_domains"]
    return lambda logits: functional.pad(logits.softmax(1), (first, domains - first - logits.shape[1]))


def _entropy(logits: Tensor) -> Tensor:
    return -(logits.softmax(1) * logits.log_softmax(1)).sum(1).mean()


def _dummy(layer: LayerParameter, _: Sequence[Tensor]) -> Step:
    form = layer.dummy_data_param
    values = torch.full(tuple(form.shape[0].dim), form.data_filler[0].value)
    return lambda: values


_STEPS: dict[str, Callable[[LayerParameter, Sequence[Tensor]], Step]] = {
    "Accuracy": lambda *_: lambda scores, label: (scores.argmax(1) == label).float().mean(),
    "Clip": _clip,
    "Concat": lambda layer, _: lambda *parts: torch.cat(parts, layer.concat_param.axis),
    "Convolution": _convolution,
    "DomainAssignmentLayer": _assignment,
    "DummyData": _dummy,
    "Eltwise": _eltwise,
    "EntropyLossLayer": lambda *_: _entropy,
    "InnerProduct": _inner_product,
    "LRN": _lrn,
    "Pooling": _pooling,
    "ReLU": _relu,
    "Slice": _slice,
    "SoftmaxWithLoss": lambda *_: lambda scores, label: functional.cross_entropy(scores, label.long()),
}
