"""EfficientNet-Lite0 from its package to Caffe and ONNX, by the programs."""

import re
from pathlib import Path
from types import ModuleType

import onnx
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch.conversion import convert_checkpoint
from latent_domains.data.published_file import in_package
from latent_domains.experiment.networks import LITE0, NETWORKS
from latent_domains.models import inputs
from latent_domains.models.compare import TOLERANCE
from latent_domains.nets import lite0 as nets_lite0
from tests.programs import names, program

ABOUT = """\
# Input: B, G, R from 0 to 255 less 127, 127, 127, times 0.0078125.
# EfficientNet-Lite0 of efficientnet-lite0-57934424.pth, by python -m tools.convert_torch.
"""


@pytest.fixture(autouse=True)
def few_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "NOISE", 1)


@pytest.mark.program
def test_from_the_package_to_onnx(tmp_path: Path) -> None:
    checkpoint, out = in_package(LITE0), tmp_path / "lite0"
    done = program("convert_torch", checkpoint, out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{checkpoint}: EfficientNet-Lite0, 1000 classes\n")
    found = re.search(
        r"on 1 random inputs: of 19 blobs from conv1_bn to fc1000 \w+ differs most, by (\S+) ", done.stdout
    )
    assert 0 < float(found[1]) <= TOLERANCE and "the best class is the same for 1 of 1" in done.stdout
    assert "lite0_mda4.caffemodel: " in done.stdout
    assert names(tmp_path) == ["lite0.caffemodel", "lite0.prototxt", "lite0_mda4.caffemodel"]
    assert out.with_suffix(".prototxt").read_text().startswith(ABOUT)

    pixels = ("--mean", 127, "--scale", 1 / 128)
    done = program("export_onnx", f"{out}.prototxt", f"{out}.caffemodel", f"{out}.onnx", *pixels)
    assert done.returncode == 0, done.stderr
    assert "data N×3×224×224 → prob N×1000" in done.stdout and "agrees with Caffe: of " in done.stdout
    made = onnx.load(f"{out}.onnx")
    assert made.doc_string.startswith("Input: B, G, R from 0 to 255 less 127, 127, 127, times 0.0078125.")
    pads = {tuple(a.ints) for node in made.graph.node for a in node.attribute if a.name == "pads"}
    assert pads == {(0, 0, 0, 0), (0, 0, 1, 1), (1, 1, 1, 1), (1, 1, 2, 2), (2, 2, 2, 2)}

    done = program("export", "--net", f"{out}.prototxt", "--weights", f"{out}.caffemodel", tmp_path / "stock", *pixels)
    assert done.returncode == 0, done.stderr
    assert "pad_end" not in (tmp_path / "stock.prototxt").read_text() and "OpenCV" in done.stdout


@pytest.mark.parametrize(
    ("module", "piece", "wrong"),
    [
        (nets_lite0, "EPS", 1e-5),
        (nets_lite0, "pads", lambda kernel_size, _: {"pad": kernel_size // 2}),  # as PyTorch does
    ],
)
def test_a_wrong_conversion_is_not_written(
    module: ModuleType, piece: str, wrong: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, piece, wrong)
    done = program("convert_torch", in_package(LITE0), tmp_path / "out")
    assert done.returncode == 1
    assert re.search(r"/out\.caffemodel: the two sides differ by \S+ of .*; nothing is written\n", done.stderr)
    assert names(tmp_path) == []


def test_what_is_no_lite0(tmp_path: Path) -> None:
    whole = in_package(LITE0).read_bytes()
    (tmp_path / "cut.pth").write_bytes(whole[: len(whole) // 2])
    done = program("convert_torch", tmp_path / "cut.pth", tmp_path / "out")
    assert done.returncode == 1 and re.fullmatch(r"error: .*/cut\.pth: truncated: 9413016 bytes, .*\n", done.stderr)
    done = program("convert_torch", in_package(LITE0), tmp_path / "out", "--std", 1, 1, 1)
    assert done.returncode == 1 and ": EfficientNet-Lite0, which has a mean and deviation of its own" in done.stderr
    with pytest.raises(ProgramError, match="the weights of EfficientNet-Lite0, expected those of ResNet18"):
        convert_checkpoint(NETWORKS["resnet18"], in_package(LITE0), tmp_path, [])
    assert names(tmp_path) == ["cut.pth"]
