"""Run the fork's net, with reference layers, and ours on the same inputs and compare them.

Also make the deploy net: the part of a test net that computes class scores from an image.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import LayerParameter
from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.structure import batch_size, is_data, joins_rows, splits_rows
from latent_domains.data.image_list import printable
from latent_domains.data.preprocessing import Transform
from latent_domains.models.compare import NOISE, Difference, difference, in_words, keep_worst, noise
from latent_domains.models.graph import Graph, Node, Value, blobs_after_forward, copy
from latent_domains.models.model import Array, forward, open_net


@dataclass(frozen=True)
class ImageInput:
    """The input of a net: shape (C×H×W) and the transformation of pixels."""

    shape: tuple[int, ...]
    transform: Transform
    mean_file: str = ""
    """The file of a mean for every pixel, instead of a mean. It is not read."""

    def in_words(self) -> str:
        """Describe the input, for a prototxt."""
        return in_words(self.shape, self.transform, printable(Path(Path(self.mean_file).name)))


def deploy_graph(test: Graph, file: Path) -> tuple[Graph, ImageInput]:
    """Return the graph from an Input layer of the images to the class probabilities, blob "prob"; and its input.

    Refuses a test net whose scores, or their inputs, cannot be found.
    """
    scores = _find_scores(test, file)
    used = test.ancestors([scores])
    Graph(test.name, used).check_made(f"{file}: in the TEST phase")
    images, sources = _find_images(used, scores, file)
    found = _images_of(sources, file)
    data = LayerParameter(name="data", type="Input", input_param={"shape": [{"dim": [1, *found.shape]}]})
    nodes = [Node(data, [], [pixels := Value(images.name)])]
    for node in used:
        if not is_data(node) and images not in node.tops:
            bottoms = [pixels if bottom is images else bottom for bottom in node.bottoms]
            nodes.append(Node(node.layer, bottoms, node.tops))
    nodes.append(Node(LayerParameter(name="prob", type="Softmax"), [scores], [probabilities := Value("prob")]))
    return Graph(test.name, Graph(test.name, nodes).ancestors([probabilities])), found


def _find_scores(graph: Graph, file: Path) -> Value:
    """Return the blob that is compared with labels: of all rows, before a softmax."""
    found = set()
    for value in [node.bottoms[0] for node in graph.nodes if node.kind in ("Accuracy", "SoftmaxWithLoss")]:
        while (node := graph.maker(value)) is not None and (splits_rows(node) or node.kind == "Softmax"):
            value = node.bottoms[0]
        found.add(value)
    if len(found) != 1:
        names = ", ".join(sorted(value.name for value in found)) or "none"
        raise ProgramError(
            f"{file}: in the TEST phase, found {names} as class scores, expected one blob that Accuracy layers read"
        )
    return found.pop()


def _find_images(nodes: Sequence[Node], scores: Value, file: Path) -> tuple[Value, tuple[Node, ...]]:
    """Return the images of all data layers together, which the scores are computed from; and those layers."""
    images: dict[Value, tuple[Node, ...]] = {}
    for node in nodes:
        if is_data(node):
            images[node.tops[0]] = (node,)
        elif joins_rows(node) and all(bottom in images for bottom in node.bottoms):
            images[node.tops[0]] = sum((images[bottom] for bottom in node.bottoms), ())
    whole = {bottom for node in nodes if node.tops[0] not in images for bottom in node.bottoms if bottom in images}
    sources = [node.title for node in nodes if not node.bottoms and not is_data(node)]
    if len(whole) != 1 or sources:
        found = sources or sorted(value.name for value in whole) or ["nothing"]
        raise ProgramError(
            f"{file}: in the TEST phase, {scores.name} is computed from {', '.join(found)}, expected the images of "
            "data layers, joined by Concat along axis 0"
        )
    (value,) = whole
    return value, images[value]


def _images_of(nodes: Sequence[Node], file: Path) -> ImageInput:
    """Return shape and transformation of the images from data layers."""
    found = {_shape(node.layer) for node in nodes}
    if len(found) != 1 or not all(shape := found.pop()):
        raise ProgramError(
            f"{file}: data layers {', '.join(node.title for node in nodes)} do not tell one size of images, "
            "expected crop_size and a mean_value for each channel"
        )
    transform = nodes[0].layer.transform_param
    return ImageInput(shape, Transform(tuple(transform.mean_value), transform.scale), transform.mean_file)


def _shape(layer: LayerParameter) -> tuple[int, ...]:
    """Return C×H×W of a data layer's images; 0 for a missing number."""
    transform = layer.transform_param
    channels = len(transform.mean_value) if len(transform.mean_value) > 1 else 0
    size = (transform.crop_size, transform.crop_size)
    if layer.type == "ImageData":
        param = layer.image_data_param
        channels = 3 if param.is_color else 1
        size = size if transform.crop_size else (param.new_height, param.new_width)
    return channels, *size


def with_inputs(graph: Graph, shape: Sequence[int], rows: Mapping[Value, tuple[Node, ...]] | None = None) -> Graph:
    """Return the graph with an Input layer for each data layer: images (n×C×H×W, ``shape`` without n), labels (n).

    With the ``rows`` of each value, an Input layer has at most NOISE rows, and slice points change accordingly.
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
    """Return random images and labels for the Input layers of a graph. Images repeat in large batches."""
    rng = np.random.default_rng(0)
    found: dict[Value, Array] = {}
    for node in graph.nodes:
        if is_data(node):
            rows = batch_size(node.layer)
            pixels = noise(images.shape, int(rng.integers(1 << 31)), images.transform)
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
    """Run both nets on batches of inputs; return the largest difference of each common value, by our blobs' names.

    ``parameters`` are the blobs of their layers and of ours.
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
    """Return the values that a difference is divided by: the expected values, for a loss at least 1.

    The entropy of certain predictions is nearly 0, and would make every difference look large.
    """
    return values if values.ndim else np.array([1, values])
