"""Computes the per-channel maps y = a x + b of normalisations in a net for tests."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from caffe_layers import mda
from latent_domains.common.program import ProgramError
from latent_domains.models.graph import Blob, Graph, Node


def uses_running_statistics(node: Node) -> bool:
    """Whether a BatchNorm or MDALayer normalises by what it learned: only then its map does not depend on the batch."""
    if node.type == "BatchNorm":
        given = node.layer.batch_norm_param
        chosen = given.use_global_stats if given.HasField("use_global_stats") else None
    else:
        chosen = mda.parameters(node.layer.python_param.param_str)["use_global_stats"]
    return not node.trains if chosen is None else chosen


def batch_norm_map(graph: Graph, node: Node) -> tuple[Blob, Blob]:
    """A BatchNorm as y = a x + b: a and b, one value for each channel."""
    mean, variance, divisor = node.blobs
    a, b = _maps(graph, node, (mean[None], variance[None], divisor), node.layer.batch_norm_param.eps, range(1))
    return a[0], b[0]


def mda_maps(graph: Graph, node: Node, used: Sequence[int] | None = None) -> tuple[Blob, Blob]:
    """An MDALayer as y = a_d x + b_d for rows of domain d: a and b, D×C.

    ``used`` are the domains that rows may belong to, by default all: the others' statistics may be missing.
    """
    given = mda.parameters(node.layer.python_param.param_str)
    return _maps(graph, node, node.blobs, given["eps"], range(given["num_domains"]) if used is None else used)


def target(node: Node) -> int:
    """The domain that every row of an MDALayer without w belongs to."""
    given = mda.parameters(node.layer.python_param.param_str)
    return given["num_domains"] - 1 if given["domain"] is None else given["domain"]


def in_64_bits(blobs: Sequence[Blob]) -> list[NDArray[np.float64]]:
    """Parameters to compute with."""
    return [blob.astype(np.float64) for blob in blobs]


def _maps(graph: Graph, node: Node, blobs: Sequence[Blob], eps: float, used: Sequence[int]) -> tuple[Blob, Blob]:
    """a and b (D×C) from Σ mean, Σ variance (D×C) and their divisor (D), with mean and variance 0 where it is 0."""
    means, variances, divisor = in_64_bits(blobs)
    factor = np.divide(1, divisor, out=np.zeros_like(divisor), where=divisor != 0)[:, None]
    if empty := [d for d in used if divisor[d] == 0]:
        whose = "" if len(divisor) == 1 else f" of domain {', '.join(map(str, empty))}"
        graph.notes.append(
            f"{node.name}: no running statistics{whose} (divisor 0), taken as mean 0 and variance 0 as the layer does: "
            "was the model trained?"
        )
    total = factor * variances + eps
    if (total[list(used)] <= 0).any():
        raise ProgramError(
            f"layer {node.name}: its smallest variance is {(total - eps)[list(used)].min():g}, expected at least 0: "
            "these are no running statistics"
        )
    a = 1 / np.sqrt(np.maximum(total, np.finfo(float).tiny))
    return a, -a * factor * means
