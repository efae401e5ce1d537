"""The references of the fork's layers are their formulas, written out as loops."""

import json
import math
from pathlib import Path

import caffe
import numpy as np
import pytest

SHAPE = (5, 3, 2, 2)
EPS, FRACTION = 1e-3, 0.9


def layer_net(folder: Path, phase: int, layer: str, shapes: dict[str, tuple[int, ...]], param: str) -> caffe.Net:
    """A net of one reference layer whose inputs have these shapes."""
    text = ""
    for name, shape in shapes.items():
        dims = " ".join(f"dim: {dim}" for dim in shape)
        text += f'layer {{ name: "{name}" type: "Input" top: "{name}" input_param {{ shape {{ {dims} }} }} }}\n'
    bottoms = " ".join(f'bottom: "{name}"' for name in shapes)
    text += (
        f'layer {{ name: "y" type: "Python" {bottoms} top: "y" python_param {{ '
        'module: "latent_domains.convert.fork.reference" '
        f"layer: \"{layer}\" param_str: '{param}' }} }}\n"
    )
    (folder / "net.prototxt").write_text(text)
    return caffe.Net(str(folder / "net.prototxt"), phase)


@pytest.mark.parametrize(("phase", "given"), [(caffe.TRAIN, None), (caffe.TEST, None), (caffe.TRAIN, True)])
def test_forward_normalisation(phase: int, given: bool | None, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    param = {"eps": EPS, "moving_average_fraction": FRACTION, **({"use_global_stats": given} if given else {})}
    net = layer_net(tmp_path, phase, "MultiModalBatchNorm", {"x": SHAPE, "w": (5, 1)}, json.dumps(param))
    x, w = rng.normal(2, 3, SHAPE), rng.uniform(0, 1, 5)
    net.blobs["x"].data[...], net.blobs["w"].data[...] = x, w[:, None]
    kept = [rng.normal(0, 1, 3), rng.uniform(1, 2, 3), np.array([4.0])]
    for blob, values in zip(net.params["y"], kept, strict=True):
        blob.data[...] = values
    net.forward()
    n, channels, height, width = SHAPE
    places = [(i, h, v) for i in range(n) for h in range(height) for v in range(width)]
    running = phase == caffe.TEST or given
    for c in range(channels):
        mean, variance = kept[0][c] / 4, kept[1][c] / 4
        if not running:
            mass = sum(w[i] for i, _, _ in places)
            mean = sum(w[i] * x[i, c, h, v] for i, h, v in places) / mass
            variance = sum(w[i] * (x[i, c, h, v] - mean) ** 2 for i, h, v in places) / mass
            m = len(places)
            found = [net.params["y"][i].data[c] for i in (0, 1)]
            assert found[0] == pytest.approx(kept[0][c] * FRACTION + mean, rel=1e-5)
            assert found[1] == pytest.approx(kept[1][c] * FRACTION + variance * m / (m - 1), rel=1e-5)
        for i, h, v in places:
            expected = w[i] * (x[i, c, h, v] - mean) / math.sqrt(variance + EPS)
            assert net.blobs["y"].data[i, c, h, v] == pytest.approx(expected, rel=1e-4, abs=1e-5)
    assert net.params["y"][2].data[0] == pytest.approx(4 if running else 4 * FRACTION + 1)


def test_forward_a_domain_without_mass_is_zero(tmp_path: Path) -> None:
    param = json.dumps({"eps": EPS, "moving_average_fraction": FRACTION})
    net = layer_net(tmp_path, caffe.TRAIN, "MultiModalBatchNorm", {"x": SHAPE, "w": (5, 1)}, param)
    net.blobs["x"].data[...] = 7
    net.forward()
    assert not net.blobs["y"].data.any()


def test_forward_entropy(tmp_path: Path) -> None:
    net = layer_net(tmp_path, caffe.TRAIN, "EntropyLoss", {"z": (4, 3)}, "")
    z = np.random.default_rng(0).normal(0, 2, (4, 3))
    z[3] = (200, 0, 0)
    net.blobs["z"].data[...] = z
    net.forward()
    total = 0.0
    for row in z:
        e = [math.exp(value - max(row)) for value in row]
        p = [value / sum(e) for value in e]
        total -= sum(value * math.log(value) for value in p if value > 1e-30)
    assert float(net.blobs["y"].data) == pytest.approx(total / 4, rel=1e-5)
