"""Layers that every network is made of. Each helper adds layers to a NetSpec and returns the last top."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # nothing of it is imported when a program runs: all of it lies above
    from caffe.net_spec import NetSpec, Top

    from latent_domains.convert.torch.reference import TorchGraph
    from latent_domains.experiment.experiment import Experiment
else:
    NetSpec = Top = TorchGraph = Experiment = Any


class _Layers:
    """Caffe's layers by type. Caffe is loaded with the first one, so that the facts about networks load quickly."""

    def __getattr__(self, kind: str) -> Any:
        from caffe import layers

        return getattr(layers, kind)


L = _Layers()

STATISTIC = {"lr_mult": 0, "decay_mult": 0}  # the solver leaves it alone: the layer updates it in forward
XAVIER = {"type": "xavier"}
MSRA = {"type": "msra"}
GAUSSIAN = {"type": "gaussian", "std": 0.01}
NARROW = {"type": "gaussian", "std": 0.005}


def learning(lr_mult: float, *, bias: bool) -> list[dict[str, float]]:
    """Return ``param`` of weights, and of a bias: twice the learning rate and no weight decay, as in Caffe's models.

    ``lr_mult`` 0 freezes both.
    """
    weight = {"lr_mult": lr_mult, "decay_mult": 1 if lr_mult else 0}
    return [weight, {"lr_mult": 2 * lr_mult, "decay_mult": 0}] if bias else [weight]


def python_layer(layer: str, *bottoms: Top, params: dict[str, Any] | None = None, **fields: Any) -> Top:
    """Return a Python layer of this project."""
    return L.Python(*bottoms, python_param=python_param(layer, params), **fields)


def python_param(layer: str, params: Mapping[str, Any] | None = None) -> dict[str, str]:
    """Return the ``python_param`` of one of this project's layers: ``params`` become its ``param_str`` (JSON)."""
    param_str = {"param_str": json.dumps(params)} if params else {}
    return {"module": "caffe_layers", "layer": layer, **param_str}


def convolution(
    n: NetSpec,
    name: str,
    x: Top,
    num_output: int,
    kernel_size: int,
    *,
    bias: bool,
    filler: dict[str, Any] = XAVIER,
    lr_mult: float = 1,
    **geometry: int,
) -> Top:
    """Add a convolution. ``geometry`` is stride, pad, pad_end, group if they are not Caffe's default."""
    n[name] = L.Convolution(
        x,
        num_output=num_output,
        bias_term=bias,
        kernel_size=kernel_size,
        weight_filler=filler,
        param=learning(lr_mult, bias=bias),
        **geometry,
    )
    return n[name]


def inner_product(
    n: NetSpec,
    name: str,
    x: Top,
    num_output: int,
    *,
    bias: bool,
    filler: dict[str, Any] = XAVIER,
    lr_mult: float = 1,
) -> Top:
    n[name] = L.InnerProduct(
        x, num_output=num_output, bias_term=bias, weight_filler=filler, param=learning(lr_mult, bias=bias)
    )
    return n[name]


def max_pool(
    n: NetSpec, name: str, x: Top, kernel_size: int, stride: int, *, floor: bool = False, **options: int
) -> Top:
    """Add a max pooling. ``floor``: sizes are rounded down, as by Torch, not up."""
    from caffe import params as P

    rounding = {"round_mode": P.Pooling.FLOOR} if floor else {}
    n[name] = L.Pooling(x, pool=P.Pooling.MAX, kernel_size=kernel_size, stride=stride, **options, **rounding)
    return n[name]


def global_average(n: NetSpec, name: str, x: Top) -> Top:
    from caffe import params as P

    n[name] = L.Pooling(x, pool=P.Pooling.AVE, global_pooling=True)
    return n[name]


def relu(n: NetSpec, name: str, x: Top, *, in_place: bool = True) -> Top:
    """Add a ReLU. ``in_place`` is False if other layers still read ``x``."""
    n[name] = L.ReLU(x, in_place=in_place)
    return n[name]


def batch_norm(n: NetSpec, name: str, x: Top, moving_average_fraction: float, **eps: float) -> Top:
    """Add Caffe's BatchNorm, without affine. ``eps`` is given if it is not Caffe's default."""
    n[name] = L.BatchNorm(x, moving_average_fraction=moving_average_fraction, **eps, param=[STATISTIC] * 3)
    return n[name]


@dataclass(frozen=True)
class Normalisation:
    """The normalisation after a layer with parameters: mDA or plain BN, then a Scale that all domains share; or none.

    Without ``scale`` there is no Scale: a linear layer that follows replaces it.

    ``layer`` is "mda", "bn" or "none". ``w`` are the assignment rows (N×D) that mDA reads in training, and in tests if
    several target domains are latent; without them every row is the target's (the last domain). ``w_gradient`` False
    stops the gradient to the layers that predict w. ``eps`` is added to variances (None: the layers' own 1e-5).
    ``in_place``: the Scale overwrites its input, which saves a blob in training.
    """

    layer: str
    num_domains: int
    moving_average_fraction: float
    w: Top | None = None
    w_gradient: bool = True
    eps: float | None = None
    in_place: bool = False
    scale: bool = True

    def __call__(self, n: NetSpec, name: str, x: Top, *, pattern: str = "{name}_{layer}") -> Top:
        """Add the layers after ``x``; ``pattern`` makes their names out of ``name`` and mda, bn or scale."""
        if self.layer == "none":
            return x
        eps = {} if self.eps is None else {"eps": self.eps}
        norm, scale = pattern.format(name=name, layer=self.layer), pattern.format(name=name, layer="scale")
        if self.layer == "mda":
            n[norm] = python_layer(
                "MDALayer",
                *((x,) if self.w is None else (x, self.w)),
                params={
                    "num_domains": self.num_domains,
                    "moving_average_fraction": self.moving_average_fraction,
                    **eps,
                },
                param=[STATISTIC] * 3,
                **({} if self.w is None or self.w_gradient else {"propagate_down": [True, False]}),
            )
        else:
            batch_norm(n, norm, x, self.moving_average_fraction, **eps)
        if not self.scale:
            return n[norm]
        n[scale] = L.Scale(n[norm], bias_term=True, param=[{"lr_mult": 1, "decay_mult": 0}] * 2, in_place=self.in_place)
        return n[scale]

    @property
    def leaves_bias(self) -> bool:
        """Whether a bias before this normalisation has an effect: mDA and BN subtract it again."""
        return self.layer == "none"


def concat(n: NetSpec, name: str, tops: list[Top]) -> Top:
    """Join tops along the batch axis; return a single one as it is."""
    if len(tops) == 1:
        return tops[0]
    n[name] = L.Concat(*tops, axis=0)
    return n[name]


@dataclass(frozen=True)
class DomainClassifier:
    """The last layer of a network's branches, named PREFIX_NAME."""

    name: str = "fc"
    filler: dict[str, Any] = field(default_factory=lambda: GAUSSIAN)
    lr_mult: float = 10

    def logits(self, n: NetSpec, features: Top, experiment: Experiment, k: int, prefix: str) -> Top:
        """Return domain logits (N×k) of a group's features (N×C×…), for w and h_D."""
        moving_average_fraction = experiment.recipe.moving_average_fraction
        centred = experiment.method.branch_norm == "centred"
        if centred:
            features = batch_norm(n, f"{prefix}_centred", features, moving_average_fraction)
        x = inner_product(
            n, f"{prefix}_{self.name}", features, k, bias=not centred, filler=self.filler, lr_mult=self.lr_mult
        )
        if experiment.method.branch_norm == "logits":
            x = batch_norm(n, f"{prefix}_logits_bn", x, moving_average_fraction)
        if experiment.method.domain_gain != 1:
            n[f"{prefix}_logits_gain"] = x = L.Power(x, scale=experiment.method.domain_gain)
        return x


def normalisation(experiment: Experiment, *branch_norms: str) -> Normalisation:
    """Return BN and Scale for a branch's layers if ``branch_norm`` is one of these."""
    layer = "bn" if experiment.method.branch_norm in branch_norms else "none"
    return Normalisation(layer, 0, experiment.recipe.moving_average_fraction)
