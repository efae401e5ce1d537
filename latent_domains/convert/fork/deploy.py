"""Finds the part of a test net that computes class scores from an image, and makes a deploy net of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from caffe.proto.caffe_pb2 import LayerParameter, TransformationParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fork.rows import is_data, joins_rows, splits_rows
from latent_domains.data.image_list import printable
from latent_domains.models import inputs
from latent_domains.models.graph import Graph, Node, Value

_JUDGES = ("Accuracy", "SoftmaxWithLoss")


@dataclass(frozen=True)
class ImageInput:
    """What a net takes: shape (C×H×W) and the transformation of pixels."""

    shape: tuple[int, ...]
    mean: tuple[float, ...]
    scale: float
    mean_file: str = ""
    """In place of ``mean``: the file of a mean for every pixel. It is not read."""

    def in_words(self) -> str:
        """What the input must be."""
        return inputs.in_words(self.shape, self.mean, self.scale, printable(Path(Path(self.mean_file).name)))


def find_scores(graph: Graph, file: Path) -> Value:
    """The class scores of a test net: what it compares with labels, or else what its only output is computed from.

    Raises ProgramError if there is nothing of the kind, or more than one.
    """
    judged = [node.bottoms[0] for node in graph.nodes if node.kind in _JUDGES]
    if not judged:
        judged = [
            value for value in graph.outputs if not is_data(maker := graph.maker(value)) and not joins_rows(maker)
        ]
    found = {_behind(graph, value) for value in judged}
    if len(found) != 1:
        names = ", ".join(sorted(value.name for value in found)) or "none"
        raise ProgramError(
            f"{file}: in the TEST phase, found {names} as class scores, expected one blob that Accuracy layers read, "
            "or one output"
        )
    return found.pop()


def _behind(graph: Graph, value: Value) -> Value:
    """The value of all rows, before a softmax, that ``value`` is a part of."""
    while (node := graph.maker(value)) is not None and (splits_rows(node) or node.kind == "Softmax"):
        value = node.bottoms[0]
    return value


def find_images(graph: Graph, scores: Value, file: Path) -> tuple[Value, tuple[Node, ...]]:
    """The images of all data layers together, which the scores are computed from; and those layers.

    Raises ProgramError if the scores are computed from anything else.
    """
    nodes = graph.ancestors([scores])
    images: dict[Value, tuple[Node, ...]] = {}
    for node in nodes:
        if is_data(node):
            images[node.tops[0]] = (node,)
        elif joins_rows(node) and all(bottom in images for bottom in node.bottoms):
            images[node.tops[0]] = sum((images[bottom] for bottom in node.bottoms), ())
    whole = [bottom for node in nodes if node.tops[0] not in images for bottom in node.bottoms if bottom in images]
    sources = [node.said for node in nodes if not node.bottoms and not is_data(node)]
    if len(set(whole)) != 1 or sources:
        found = sources or sorted({value.name for value in whole}) or ["nothing"]
        raise ProgramError(
            f"{file}: in the TEST phase, {scores.name} is computed from {', '.join(found)}, expected the images of "
            "data layers, joined by Concat along axis 0"
        )
    return whole[0], images[whole[0]]


def images_of(nodes: Sequence[Node], file: Path) -> ImageInput:
    """Shape and transformation of the images that data layers give. Raises ProgramError if the layers do not tell."""
    transform = nodes[0].layer.transform_param
    found = {_shape(node.layer, node.layer.transform_param) for node in nodes}
    if len(found) != 1 or None in found:
        names = ", ".join(node.said for node in nodes)
        raise ProgramError(
            f"{file}: data layers {names} do not tell one size of images, "
            "expected crop_size and a mean_value for each channel"
        )
    return ImageInput(found.pop(), tuple(transform.mean_value), transform.scale, transform.mean_file)


def _shape(layer: LayerParameter, transform: TransformationParameter) -> tuple[int, ...] | None:
    """C×H×W of a data layer's images, if it says so."""
    if layer.type == "Input":
        return tuple(layer.input_param.shape[0].dim[1:]) if layer.input_param.shape else None
    channels = len(transform.mean_value) if len(transform.mean_value) > 1 else None
    size = (transform.crop_size, transform.crop_size)
    if layer.type == "ImageData":
        param = layer.image_data_param
        channels = 3 if param.is_color else 1
        if not transform.crop_size:
            size = (param.new_height, param.new_width)
    return (channels, *size) if channels and all(size) else None


def deploy_graph(graph: Graph, scores: Value, images: Value, shape: Sequence[int]) -> Graph:
    """The graph from an Input layer of the images to the probabilities of the classes, blob "prob"."""
    data = LayerParameter(name="data", type="Input", input_param={"shape": [{"dim": [1, *shape]}]})
    nodes: list[Node] = [Node(data, [], [Value(images.name)])]
    new = {images: nodes[0].tops[0]}
    for node in graph.ancestors([scores]):
        if not is_data(node) and images not in node.tops:
            nodes.append(Node(node.layer, [new.get(bottom, bottom) for bottom in node.bottoms], node.tops))
    nodes.append(Node(LayerParameter(name="prob", type="Softmax"), [scores], [Value("prob")]))
    wanted = Graph(graph.name, nodes)
    return wanted.part([nodes[-1].tops[0]])
