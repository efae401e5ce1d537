"""Layers that every architecture is made of. Each helper adds layers to a NetSpec and returns the last top."""

import json
from dataclasses import dataclass
from typing import Any

from caffe import layers as L
from caffe import params as P
from caffe.net_spec import NetSpec, Top

WEIGHT = {"lr_mult": 1, "decay_mult": 1}
BIAS = {"lr_mult": 2, "decay_mult": 0}
STATISTIC = {"lr_mult": 0, "decay_mult": 0}  # not the solver's to touch: the layer updates it in forward


def python_layer(layer: str, *bottoms: Top, params: dict[str, Any] | None = None, **fields: Any) -> Top:
    """A Python layer of this project: ``params`` become its ``param_str`` (JSON)."""
    python_param = {"module": "caffe_layers", "layer": layer}
    if params:
        python_param["param_str"] = json.dumps(params)
    return L.Python(*bottoms, python_param=python_param, **fields)


def convolution(n: NetSpec, name: str, x: Top, num_output: int, kernel_size: int, *, bias: bool) -> Top:
    n[name] = L.Convolution(
        x,
        num_output=num_output,
        kernel_size=kernel_size,
        bias_term=bias,
        weight_filler={"type": "xavier"},
        param=[WEIGHT, BIAS] if bias else [WEIGHT],
    )
    return n[name]


def inner_product(n: NetSpec, name: str, x: Top, num_output: int, *, bias: bool) -> Top:
    n[name] = L.InnerProduct(
        x,
        num_output=num_output,
        bias_term=bias,
        weight_filler={"type": "xavier"},
        param=[WEIGHT, BIAS] if bias else [WEIGHT],
    )
    return n[name]


def max_pool(n: NetSpec, name: str, x: Top, kernel_size: int, stride: int) -> Top:
    n[name] = L.Pooling(x, pool=P.Pooling.MAX, kernel_size=kernel_size, stride=stride)
    return n[name]


def relu(n: NetSpec, name: str, x: Top) -> Top:
    n[name] = L.ReLU(x, in_place=True)
    return n[name]


@dataclass(frozen=True)
class Normalisation:
    """The normalisation after a layer with parameters: mDA or plain BN, then a Scale that all domains share.

    ``num_domains`` 0 means plain BN. ``w`` are the assignment rows (N×D) in training; without them every row is
    the target's (the layer's last domain), which is what test and deploy nets want.
    """

    num_domains: int
    moving_average_fraction: float
    w: Top | None = None

    def __call__(self, n: NetSpec, name: str, x: Top) -> Top:
        if self.num_domains:
            norm = f"{name}_mda"
            n[norm] = python_layer(
                "MDALayer",
                *((x,) if self.w is None else (x, self.w)),
                params={
                    "num_domains": self.num_domains,
                    "moving_average_fraction": self.moving_average_fraction,
                },
                param=[STATISTIC] * 3,
            )
        else:
            norm = f"{name}_bn"
            n[norm] = L.BatchNorm(
                x, moving_average_fraction=self.moving_average_fraction, param=[STATISTIC] * 3
            )
        scale = f"{name}_scale"
        n[scale] = L.Scale(n[norm], bias_term=True, param=[{"lr_mult": 1, "decay_mult": 0}] * 2)
        return n[scale]
