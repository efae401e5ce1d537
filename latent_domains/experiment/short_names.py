"""How settings are called in the names of run folders."""

from typing import Any

SHORT = {
    "method": "{}",
    "k": "k{}",
    "k_target": "kt{}",
    "undivided": "undivided",
    "shares": "shares{}",
    "known_share": "known{}",
    "style_share": "style{}",
    "domains": "domains-{}",
    "branch_norm": "branch-{}",
    "branch_input": "branch-on-{}",
    "domain_gain": "gain{:g}",
    "no_w_gradient": "nowgradient",
    "permuted_w": "permutedw",
    "equal_classes": "equalclasses",
    "conv1_bias": "conv1bias",
    "lambda_b": "balance{:g}",
    "iterations": "iterations{}",
    "batch_size": "batch{}",
    "batch_split": "split-{}",
    "data_order": "order-{}",
    "iter_size": "itersize{}",
    "base_lr": "lr{}",
    "network": "{}",
    "image_size": "size{}",
    "geometry": "geometry-{}",
    "head": "head-{}",
    "weight_decay": "decay{:g}",
    "lambda_c": "lambdac{}",
    "lambda_d": "lambdad{}",
    "lambda_t": "lambdat{}",
    "lambda_m": "lambdam{}",
    "test_mirror": "testmirror",
}
"""What folders' names make of a setting, in this order; another is called by its name."""


def short(name: str, value: Any) -> str:
    """A setting's part of a folder's name."""
    if name == "shares":
        value = "-".join(map(str, value))
    elif name in ("known_share", "style_share"):
        value = f"{100 * value:g}"
    return SHORT.get(name, f"{name.replace('_', '')}{{}}").format(value)
