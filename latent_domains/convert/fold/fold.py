"""A net for tests in stock layers: layers take up the normalisation after them, and unused branches are removed."""

from collections.abc import Mapping
from dataclasses import dataclass

from caffe.proto.caffe_pb2 import LayerParameter

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.affine import fold_maps, uses_running_statistics
from latent_domains.convert.fold.assignment import fold_assigned, fold_assignments
from latent_domains.convert.fold.geometry import crop_floor_pools, even_pads, spell_out
from latent_domains.models.compare import makers
from latent_domains.models.graph import Graph, Node, comparable_blobs, of_model, to_model
from latent_domains.models.model import Model, load


@dataclass(frozen=True)
class Folded:
    """A folded net, and which of its blobs and outputs correspond to those of the original net."""

    model: Model
    pairs: Mapping[str, str]
    """Blobs that hold the same once both nets have run: of the original net, and of this one."""
    heads: Mapping[str, str]
    """Output blobs of the original net, or the scores before an output Softmax; and the layer here that makes each, by
    OpenCV's name. OpenCV gives a layer's first top alone: others are left out."""
    makers: Mapping[str, LayerParameter]
    """The original net's :func:`~latent_domains.models.compare.makers`."""
    notes: tuple[str, ...]
    """Notes for the user."""


def fold(model: Model, *, stock: bool = True) -> Folded:
    """Fold a net for tests. ``stock`` False leaves convolutions ``pad_end``, which our Caffe alone has.

    Raises ProgramError naming the layers if stock layers cannot replace some Python ones, or if parameters hold numbers
    that cannot be right.
    """
    net = load(model)
    shapes = {name: tuple(blob.shape) for name, blob in net.blobs.items()}
    graph = of_model(model, shapes)
    before = comparable_blobs(graph, {value: value.name for value in graph.values()})
    _remove_idle(graph)
    _name_apart(graph)
    domains = fold_assignments(graph)
    fold_assigned(graph, domains)
    _untranspose(graph)
    fold_maps(graph, domains)
    _note_batch_statistics(graph)
    crop_floor_pools(graph)
    spell_out(graph)
    if stock:
        even_pads(graph)
    graph.remove_unread()
    _refuse_python(graph)
    probabilities = [node for node in graph.nodes if node.type == "Softmax" and node.tops[0] in graph.outputs]
    heads = (graph.outputs | {node.bottoms[0] for node in probabilities}) & before.keys()
    folded, blobs = to_model(graph)
    after = comparable_blobs(graph, blobs)
    if others := [blobs[top] for node in graph.nodes for top in node.tops[1:] if top in graph.outputs]:
        graph.notes.append(f"not compared with OpenCV, which gives a layer's first top alone: {', '.join(others)}")
    return Folded(
        folded,
        {before[value]: after[value] for value in before if value in after},
        {before[top]: _opencv_name(node, blobs[top]) for node in graph.nodes for top in node.tops[:1] if top in heads},
        makers(model.net),
        tuple(graph.notes),
    )


def _remove_idle(graph: Graph) -> None:
    """Remove layers that do nothing in tests: Silence, and Dropout and Split that make no output.

    What overwrote a copy of theirs gets a blob of its own.
    """
    for node in list(graph.nodes):
        if node.type == "Silence":
            graph.nodes.remove(node)
        elif node.type in ("Dropout", "Split") and not graph.outputs & set(node.tops):
            value = node.bottoms[0]
            in_place = node.tops[0].over is value
            for reader in graph.nodes:
                reader.bottoms = [value if bottom in node.tops else bottom for bottom in reader.bottoms]
                for top in reader.tops:
                    if in_place and top.over is node.tops[0]:
                        top.over = value
            graph.nodes.remove(node)


def _opencv_name(node: Node, top: str) -> str:
    """OpenCV's name of a layer that makes the blob ``top``: its importer names convolutions after their blobs."""
    return top if node.type == "Convolution" else node.name


def _name_apart(graph: Graph) -> None:
    """Give each layer a name of its own: by it OpenCV is asked for what the layer makes."""
    seen = {""}
    for node in graph.nodes:
        if node.name in seen:
            node.layer.name = graph.fresh(node.name or node.type)
        seen.add(node.name)


def _untranspose(graph: Graph) -> None:
    """Give inner products a row of weights for each of their outputs: OpenCV takes all for such."""
    for node in graph.nodes:
        if node.type == "InnerProduct" and node.layer.inner_product_param.transpose:
            node.layer.inner_product_param.ClearField("transpose")
            node.blobs[0] = node.blobs[0].T


def _note_batch_statistics(graph: Graph) -> None:
    left = [node.name for node in graph.nodes if node.type == "BatchNorm" and not uses_running_statistics(node)]
    if left:
        graph.notes.append(
            f"{', '.join(left)}: not folded, use_global_stats: false takes the statistics of each batch: an image's "
            "result depends on the others in it"
        )


def _refuse_python(graph: Graph) -> None:
    left = [node for node in graph.nodes if node.type == "Python"]
    if left:
        which = "; ".join(f"{node.name} ({node.kind}{_why(node)})" for node in left)
        raise ProgramError(f"Python layers that stock layers cannot do the work of: {which}")


def _why(node: Node) -> str:
    if node.kind == "MDALayer":
        return ": it normalises by the batch's statistics, expected use_global_stats null or true"
    if node.kind == "DomainAssignmentLayer":
        return ": it reads domain labels"
    return ""
