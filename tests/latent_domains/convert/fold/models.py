"""Models with random parameters, as if they had been trained, and what folding makes of them."""

import tempfile
from dataclasses import dataclass

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter
from numpy.typing import NDArray

from latent_domains.convert.fold.fold import Folded, fold
from latent_domains.models.compare import differences, worst
from latent_domains.models.model import Model, forward, load
from latent_domains.models.prototxt import net_text
from tests.latent_domains.nets.graphs import parse

DATA = 'layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 4 dim: 7 dim: 6 } } }\n'
"""An input of 4×7×6."""


def mda(name: str, bottom: str, top: str, domains: int = 3, more: str = "") -> str:
    """An MDALayer; ``bottom`` may be two names with a blank between."""
    bottoms = " ".join(f'bottom: "{word}"' for word in bottom.split())
    return (
        f'layer {{ name: "{name}" type: "Python" {bottoms} top: "{top}" python_param {{ module: "caffe_layers" '
        f"""layer: "MDALayer" param_str: '{{"num_domains": {domains}{more}}}' }} }}\n"""
    )


def layer(name: str, kind: str, bottom: str, top: str, more: str = "") -> str:
    """Any other layer; ``bottom`` and ``top`` may be several names with blanks between."""
    bottoms = " ".join(f'bottom: "{word}"' for word in bottom.split())
    tops = " ".join(f'top: "{word}"' for word in top.split())
    return f'layer {{ name: "{name}" type: "{kind}" {bottoms} {tops} {more} }}\n'


def trained(net: str | NetParameter, seed: int = 0, divisor: float = 20.0) -> Model:
    """A model of ``net`` with random parameters of a trained one's size: running statistics too, over ``divisor``."""
    definition = parse(net) if isinstance(net, str) else net
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(net_text("", definition))
        file.flush()
        loaded = caffe.Net(file.name, caffe.TEST)
    rng = np.random.default_rng(seed)
    blobs = {}
    for name, kind, parameters in zip(
        loaded._layer_names, (one.type for one in loaded.layers), loaded.layers, strict=True
    ):
        shapes = [blob.data.shape for blob in parameters.blobs]
        if shapes:
            blobs[name] = [values.astype(np.float32) for values in _random(kind, shapes, rng, divisor)]
    return Model(definition, blobs)


def _random(
    kind: str, shapes: list[tuple[int, ...]], rng: np.random.Generator, divisor: float
) -> list[NDArray[np.float64]]:
    if kind in ("BatchNorm", "Python"):
        means, variances, last = shapes
        return [divisor * rng.normal(size=means), divisor * rng.uniform(0.5, 2, variances), np.full(last, divisor)]
    if kind == "Scale":
        return [rng.uniform(0.5, 1.5, shape) * rng.choice([-1, 1], shape) for shape in shapes]
    spread = np.sqrt(2 / max(1, np.prod(shapes[0][1:])))
    return [rng.normal(size=shape) * spread for shape in shapes]


@dataclass(frozen=True)
class Tried:
    """A folded net, the blobs of both nets on the same input, and what its layers are."""

    folded: Folded
    before: dict[str, NDArray[np.float32]]
    after: dict[str, NDArray[np.float32]]

    @property
    def layers(self) -> str:
        """Names and types, as in ``conv:Convolution relu:ReLU``; without the input's."""
        return " ".join(f"{one.name}:{one.type}" for one in self.folded.model.net.layer if one.type != "Input")


def tried(model: Model, rows: int = 3, scale: float = 1.0) -> Tried:
    """Fold a model; both nets must give the same blobs for random inputs, and the same outputs by the same names."""
    folded = fold(model)
    original, made = load(model), load(folded.model)
    shape = original.blobs[original.inputs[0]].data.shape[1:]
    x = np.random.default_rng(1).normal(size=(rows, *shape)).astype(np.float32) * scale
    before, after = forward(original, x), forward(made, x)
    assert made.inputs == original.inputs
    assert set(made.outputs) == set(original.outputs)
    assert set(original.outputs) <= set(folded.pairs)
    found = differences(
        {name: before[name] for name in folded.pairs}, {name: after[other] for name, other in folded.pairs.items()}
    )
    assert worst(found).relative < 2e-5, found
    assert "Python" not in {one.type for one in folded.model.net.layer}
    return Tried(folded, before, after)
