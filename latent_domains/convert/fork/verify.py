"""Runs the fork's net, with reference layers, and ours on the same inputs and compares them."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from tqdm import tqdm

from latent_domains.convert.fork.deploy import ImageInput
from latent_domains.convert.fork.structure import batch_size, is_data, splits_rows
from latent_domains.models.compare import Difference, difference, keep_worst
from latent_domains.models.graph import Graph, Node, Value, blobs_after_forward, copy
from latent_domains.models.inputs import NOISE, noise
from latent_domains.models.model import Array, forward, open_net


def with_inputs(graph: Graph, shape: Sequence[int], rows: Mapping[Value, tuple[Node, ...]] | None = None) -> Graph:
    """The graph with an Input layer in place of each data layer: images (n×C×H×W, ``shape`` without n), labels (n).

    With the ``rows`` of each value, an Input layer has at most NOISE rows, and slice points go with them.
    """

    def few(source: Node) -> int:
        size = batch_size(source.layer)
        return min(size, NOISE) if rows else size

    nodes = []
    for node in graph.nodes:
        layer = copy(node.layer)
        if is_data(node):
            shapes = [{"dim": [few(node), *(shape if i == 0 else ())]} for i in range(len(node.tops))]
            layer = LayerParameter(name=node.name, type="Input", input_param={"shape": shapes})
        elif rows and splits_rows(node) and rows[node.bottoms[0]]:
            *points, _ = accumulate(sum(map(few, rows[top])) for top in node.tops)
            layer.slice_param.slice_point[:] = points
        nodes.append(Node(layer, node.bottoms, node.tops))
    return Graph(graph.name, nodes)


def random_inputs(graph: Graph, images: ImageInput, classes: int) -> dict[Value, Array]:
    """Random images and labels for the Input layers of a graph. Images repeat in large batches."""
    rng = np.random.default_rng(0)
    found: dict[Value, Array] = {}
    for node in graph.nodes:
        if is_data(node):
            rows = batch_size(node.layer)
            pixels = noise(images.shape, int(rng.integers(1 << 31)), images.mean, images.scale)
            found[node.tops[0]] = pixels[rng.integers(0, len(pixels), rows) if rows > len(pixels) else slice(rows)]
            found.update({top: rng.integers(0, classes, rows).astype(np.float32) for top in node.tops[1:]})
    return found


def compare(
    theirs: Graph,
    ours: Graph,
    parameters: Sequence[Mapping[str, Sequence[Array]]],
    phase: int,
    batches: Iterable[Mapping[Value, Array]],
) -> list[Difference]:
    """Run both sides on batches of inputs; the largest difference of each value that both have, by our blobs' names.

    ``parameters`` are the blobs of their layers and of ours. Raises ProgramError if two have different shapes.
    """
    sides = []
    for graph, of_layers in zip((theirs, ours), parameters, strict=True):
        definition, blobs = graph.definition()
        net = open_net(definition, phase)
        for name, targets in net.params.items():
            for target, values in zip(targets, of_layers[name] if len(targets) else (), strict=True):
                target.data[...] = values
        sides.append((net, blobs))
    furthest: dict[str, Difference] = {}
    for inputs in tqdm(batches, desc="verifying", leave=False):
        results = []
        for net, blobs in sides:
            caffe.set_random_seed(0)  # Dropout
            values = forward(net, {blobs[value]: rows for value, rows in inputs.items()})
            results.append({value: values[name] for value, name in blobs_after_forward(blobs).items()})
        expected, found = results
        rows = [
            difference(blobs[value], _measured(expected[value]), _measured(found[value]))
            for value in found
            if value in expected and value not in inputs
        ]
        keep_worst(furthest, rows)
    return list(furthest.values())


def _measured(values: Array) -> Array:
    """The values that a difference is divided by: their own, for a loss at least 1.

    The entropy of sure predictions is nearly 0, and would make every difference look large.
    """
    return values if values.ndim else np.array([1, values])
