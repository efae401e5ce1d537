"""Runs the fork's net, with reference layers, and ours on the same inputs and compares them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from tqdm import tqdm

from latent_domains.convert.fork.deploy import ImageInput
from latent_domains.convert.fork.rows import batch_size, is_data
from latent_domains.models.compare import Difference, difference, keep_worst
from latent_domains.models.graph import Graph, Node, Value, last_of_blobs
from latent_domains.models.inputs import noise
from latent_domains.models.model import Array, forward, open_net


@dataclass(frozen=True)
class Side:
    """A graph, the names of its blobs where they are not their values', and the parameters of its layers."""

    graph: Graph
    blobs: Mapping[Value, str]
    parameters: Mapping[str, Sequence[Array]]

    def net(self, phase: int) -> caffe.Net:
        """The net with its weights."""
        net = open_net(self.graph.definition(self.blobs)[0], phase)
        for name, targets in net.params.items():
            for target, values in zip(targets, self.parameters[name] if len(targets) else (), strict=True):
                target.data[...] = values
        return net


def with_inputs(graph: Graph, shape: Sequence[int]) -> Graph:
    """The graph with an Input layer in place of each data layer: images (n×C×H×W, ``shape`` without n), labels (n)."""
    nodes = []
    for node in graph.nodes:
        if is_data(node):
            rows = batch_size(node.layer)
            shapes = [{"dim": [rows, *(shape if i == 0 else ())]} for i in range(len(node.tops))]
            layer = LayerParameter(name=node.name, type="Input", input_param={"shape": shapes})
            node = Node(layer, [], node.tops)
        nodes.append(node)
    return Graph(graph.name, nodes)


def random_inputs(graph: Graph, images: ImageInput, classes: int, seed: int) -> dict[Value, Array]:
    """Random images and labels for the Input layers of a graph. Images repeat in large batches."""
    rng = np.random.default_rng(seed)
    found: dict[Value, Array] = {}
    for node in graph.nodes:
        if is_data(node):
            rows = batch_size(node.layer)
            pixels = noise(images.shape, int(rng.integers(1 << 31)), images.mean, images.scale)
            found[node.tops[0]] = pixels[rng.integers(0, len(pixels), rows) if rows > len(pixels) else slice(rows)]
            found.update({top: rng.integers(0, classes, rows).astype(np.float32) for top in node.tops[1:]})
    return found


def compare(
    theirs: Side, ours: Side, phase: int, batches: Iterable[Mapping[Value, Array]], seed: int
) -> list[Difference]:
    """Run both sides on batches of inputs; the largest difference of each value that both have, by our blobs' names.

    Raises ProgramError if two have different shapes.
    """
    sides = [(side.net(phase), side.graph.definition(side.blobs)[1]) for side in (theirs, ours)]
    furthest: dict[str, Difference] = {}
    for inputs in tqdm(batches, desc="verifying", leave=False):
        results = []
        for net, blobs in sides:
            caffe.set_random_seed(seed)  # Dropout
            values = forward(net, {blobs[value]: rows for value, rows in inputs.items()})
            results.append({value: values[name] for value, name in last_of_blobs(blobs).items()})
        expected, found = results
        rows = [
            difference(blobs[value], _measured(expected[value]), _measured(found[value]))
            for value in found
            if value in expected and value not in inputs
        ]
        keep_worst(furthest, rows)
    return list(furthest.values())


def _measured(values: Array) -> Array:
    """What a difference of ``values`` is measured by: themselves, but a loss beside 1.

    The entropy of predictions that are all sure is next to nothing, and so relative to nothing.
    """
    return values if values.ndim else np.array([1, values])
