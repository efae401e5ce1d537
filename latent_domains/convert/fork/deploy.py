"""Makes a deploy net of the part of a test net that computes class scores from an image."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from caffe.proto.caffe_pb2 import LayerParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.structure import is_data, joins_rows, splits_rows
from latent_domains.data.image_list import printable
from latent_domains.models import inputs
from latent_domains.models.graph import Graph, Node, Value


@dataclass(frozen=True)
class ImageInput:
    """The input of a net: shape (C×H×W) and the transformation of pixels."""

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    scale: float
    mean_file: str = ""
    """In place of ``mean``: the file of a mean for every pixel. It is not read."""

    def in_words(self) -> str:
        """The input in words, for a prototxt."""
        return inputs.in_words(self.shape, self.mean, self.scale, printable(Path(Path(self.mean_file).name)))


def deploy_graph(test: Graph, file: Path) -> tuple[Graph, ImageInput]:
    """The graph from an Input layer of the images to the probabilities of the classes, blob "prob"; and its input.

    Raises ProgramError if the test net does not tell which blob holds the scores, or what they are computed from.
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
    """The blob that is compared with labels: of all rows, before a softmax."""
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
    """The images of all data layers together, which the scores are computed from; and those layers."""
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
    """Shape and transformation of the images that data layers give."""
    found = {_shape(node.layer) for node in nodes}
    if len(found) != 1 or not all(shape := found.pop()):
        raise ProgramError(
            f"{file}: data layers {', '.join(node.title for node in nodes)} do not tell one size of images, "
            "expected crop_size and a mean_value for each channel"
        )
    transform = nodes[0].layer.transform_param
    return ImageInput(shape, tuple(transform.mean_value), transform.scale, transform.mean_file)


def _shape(layer: LayerParameter) -> tuple[int, ...]:
    """C×H×W of a data layer's images; 0 for what it does not say."""
    transform = layer.transform_param
    channels = len(transform.mean_value) if len(transform.mean_value) > 1 else 0
    size = (transform.crop_size, transform.crop_size)
    if layer.type == "ImageData":
        param = layer.image_data_param
        channels = 3 if param.is_color else 1
        size = size if transform.crop_size else (param.new_height, param.new_width)
    return channels, *size
