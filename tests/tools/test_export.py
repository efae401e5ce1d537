"""The export program: a trained run to OpenCV and ONNX Runtime, other people's nets, and what it refuses."""

import json
import re
from pathlib import Path

import caffe
import cv2
import numpy as np
import onnxruntime
import pytest

from latent_domains.common.caffe_process import start
from latent_domains.convert.fold import export
from latent_domains.convert.fold.verify import Agreement
from latent_domains.data.input_batches import batches
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.compare import Difference
from latent_domains.models.model import model_files, write_model
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.fixtures import TEST
from tests.latent_domains.convert.fold.models import DATA, layer, mda, trained
from tests.programs import Done, names, program
from tests.training import train_here

TEXT = (
    DATA
    + layer("conv", "Convolution", "data", "conv", "convolution_param { num_output: 6 kernel_size: 3 }")
    + mda("mda", "conv", "mda", 3)
    + layer("scale", "Scale", "mda", "scale", "scale_param { bias_term: true }")
    + layer("relu", "ReLU", "scale", "scale")
    + layer("fc", "InnerProduct", "scale", "fc", "inner_product_param { num_output: 5 }")
    + layer("prob", "Softmax", "fc", "prob")
)


@pytest.fixture
def trusting(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nets that Caffe is known to load are not tried in a process of their own first."""
    monkeypatch.setattr("latent_domains.models.model.check_loads", lambda *_: None)


@pytest.fixture
def small(tmp_path: Path) -> tuple[Path, Path]:
    """Net and weights of a small model with mDA."""
    return write_model(trained(TEXT), tmp_path / "in" / "small", about="", force=False)


def exported(small: tuple[Path, Path], out: Path, *more: object) -> Done:
    return program("export", "--net", small[0], "--weights", small[1], out, *more)


# --- a trained run


@pytest.fixture(scope="module")
def runs(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[int, RunFolder]:
    """Runs of mDA on the tiny digits, with one target domain and with two latent ones."""
    folder = tmp_path_factory.mktemp("runs")
    found = {}
    for k_target, iterations in ((1, 60), (2, 10)):
        experiment = make_experiment("digits", "mda", batch_size=16, iterations=iterations, k_target=k_target)
        found[k_target] = write_run(experiment, folder / str(k_target), data=tiny_data)
    train_here(*found.values())
    return found


def caffe_test(run: RunFolder) -> int:
    """How many test images ``caffe test`` finds classified correctly."""
    ((target, (batch_size, number)),) = run.test_batches().items()
    arguments = ["test", "-model", str(run.test_nets[target]), "-weights", str(run.latest_snapshot().model)]
    with start([*arguments, "-iterations", str(number)], 1) as process:
        log = process.stdout.read()
    name = run.experiment.task.accuracy_name(target)
    correct = float(re.search(rf"caffe.cpp:\d+\] {name} = (\S+)", log)[1]) * batch_size * number
    assert abs(correct - round(correct)) < 1e-3
    return round(correct)


@pytest.mark.program
@pytest.mark.parametrize("k_target", [1, 2])
def test_export_opencv_and_onnx_runtime_are_right_where_caffe_is(
    k_target: int, runs: dict[int, RunFolder], tmp_path: Path
) -> None:
    run = runs[k_target]
    done = program("export", run.path, tmp_path / "digits")
    assert done.returncode == 0, done.stderr
    assert ("the branch that predicts it stays" in done.stdout) == (k_target == 2)
    net, weights = model_files(tmp_path / "digits")
    done = program("export_onnx", net, weights, tmp_path / "digits.onnx")
    assert done.returncode == 0, done.stderr

    ((inputs, labels),) = batches(run.test_lmdbs["usps"], run.experiment.data.preprocessing, TEST)
    opencv = cv2.dnn.readNetFromCaffe(str(net), str(weights))
    opencv.setInput(inputs)
    runtime = onnxruntime.InferenceSession(str(tmp_path / "digits.onnx"), providers=["CPUExecutionProvider"])
    original = caffe.Net(str(run.net("deploy")), caffe.TEST, weights=str(run.latest_snapshot().model))
    original.blobs["data"].reshape(*inputs.shape)
    original.blobs["data"].data[...] = inputs
    expected = original.forward()["prob"].argmax(axis=1)
    correct = caffe_test(run)
    assert len(labels) == TEST and (expected == labels).sum() == correct
    assert k_target == 2 or 0.3 * TEST < correct < TEST  # neither chance nor perfect: that would show less
    for probabilities in (opencv.forward(), runtime.run(["prob"], {"data": inputs})[0]):
        assert probabilities.shape == (TEST, 10)
        np.testing.assert_array_equal(probabilities.argmax(axis=1), expected)


@pytest.mark.program
def test_export_what_it_says_and_writes(runs: dict[int, RunFolder], tmp_path: Path) -> None:
    done = program("export", runs[1].path, tmp_path / "out" / "digits")
    assert done.returncode == 0, done.stderr
    layers, caffe_line, opencv_line, wrote = done.stdout.splitlines()
    net, weights = model_files(tmp_path / "out" / "digits")
    description = tmp_path / "out" / "digits.json"
    assert wrote == f"wrote {net} and {weights} and {description}"
    assert names(tmp_path / "out") == [weights.name, description.name, net.name]
    written = json.loads(description.read_text())
    assert written["classes"] == [str(digit) for digit in range(10)]
    reading = {"background": [255, 255, 255], "range": None}
    form = {"stored_shape": [3, 28, 28], "crop": None, "mean": [127.5], "scale": 1 / 128, "reading": reading}
    assert written["preprocessing"] == form
    assert layers == "layers: 23, folded 13"
    differs = r"\d\.\de-0[5-9]|0\.0e\+00"
    assert re.fullmatch(rf"largest difference in 9 blobs, on 4 random inputs: ({differs}) \(\w+\)", caffe_line)
    assert re.fullmatch(
        rf"OpenCV [\d.]+: top-1 of 4 of 4 inputs the same, largest difference in \w+ ({differs})", opencv_line
    )
    about, shape, _ = net.read_text().split("\n", 2)
    assert about.startswith("# digits, mda_k2") and "python -m tools.export" in about
    assert shape == "# Input: N×3×28×28, pixels (B, G, R) minus 127.5, times 0.0078125."
    assert "Python" not in net.read_text() and "param {" not in net.read_text().replace("_param {", "")


# --- nets and weights of other origin


@pytest.mark.usefixtures("trusting")
def test_export_images_are_tried_too(small: tuple[Path, Path], tmp_path: Path) -> None:
    text = TEXT.replace("dim: 4 dim: 7 dim: 6", "dim: 3 dim: 7 dim: 6")
    model = write_model(trained(text), tmp_path / "colour", about="", force=False)
    (tmp_path / "images").mkdir()
    for i in range(3):
        image = np.random.default_rng(i).integers(0, 256, (20, 20, 3)).astype(np.uint8)
        cv2.imwrite(str(tmp_path / "images" / f"{i}.png"), image)
    done = exported(model, tmp_path / "out", "--images", tmp_path / "images", "--mean", 104, 117, 123, "--scale", 0.1)
    assert done.returncode == 0, done.stderr
    assert "on 4 random inputs and 3 images" in done.stdout and "top-1 of 7 of 7 inputs" in done.stdout
    assert "minus 104, 117, 123, times 0.1." in (tmp_path / "out.prototxt").read_text()
    done = exported(small, tmp_path / "wrong", "--mean", 104, 117, 123)
    assert done.returncode == 1 and "--mean: got 3 values for an input of 4 channels" in done.stderr
    done = exported(small, tmp_path / "other", "--images", tmp_path / "images")
    assert done.returncode == 1 and "the net's input is 4×7×6, expected an image" in done.stderr


@pytest.mark.usefixtures("trusting")
def test_export_a_result_that_differs_is_not_written(
    small: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = export.fold

    def wrong(model: export.Model) -> export.Folded:
        folded = right(model)
        folded.model.blobs["conv"][0][0] *= 1.01
        return folded

    monkeypatch.setattr(export, "fold", wrong)
    done = exported(small, tmp_path / "out" / "m")
    assert done.returncode == 1 and re.search(r"the two sides differ by \S+ of the largest value in", done.stderr)
    assert names(tmp_path / "out") == []


@pytest.mark.usefixtures("trusting")
@pytest.mark.parametrize(("same", "relative"), [(3, 0.0), (4, 0.01)])
def test_export_a_result_that_opencv_takes_otherwise_is_not_written(
    same: int, relative: float, small: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "compare_opencv", lambda *_: Agreement(same, 4, Difference("prob", relative)))
    done = exported(small, tmp_path / "out" / "m")
    assert done.returncode == 1 and f"top-1 of {same} of 4 inputs the same" in done.stderr
    assert names(tmp_path / "out") == []


@pytest.mark.usefixtures("trusting")
def test_export_what_caffe_alone_takes_as_it_was_is_written_without_opencv(tmp_path: Path) -> None:
    within = layer("lrn", "LRN", "data", "lrn", "lrn_param { norm_region: WITHIN_CHANNEL local_size: 3 }")
    fc = layer("fc", "InnerProduct", "lrn", "fc", "inner_product_param { num_output: 5 }")
    model = write_model(trained(DATA + within + fc), tmp_path / "lrn", about="", force=False)
    done = exported(model, tmp_path / "out" / "m")
    assert done.returncode == 1 and re.search(
        r"error: OpenCV .*: Caffe runs .*, OpenCV does not; .*--no-op", done.stderr
    )
    assert names(tmp_path / "out") == []
    done = exported(model, tmp_path / "out" / "m", "--no-opencv")
    assert done.returncode == 0 and "OpenCV" not in done.stdout and "largest difference in 3 blobs" in done.stdout


@pytest.mark.usefixtures("trusting")
def test_export_what_opencv_cannot_run_is_said_and_written(tmp_path: Path) -> None:
    model = write_model(
        trained(DATA + layer("odd", "Bias", "data", "odd", "bias_param { axis: -1 }")),
        tmp_path / "odd",
        about="",
        force=False,
    )
    done = exported(model, tmp_path / "out")
    assert done.returncode == 0, done.stderr
    said = r'OpenCV \S+ cannot run \S+\.prototxt, which Caffe does: .*"odd" of type "Bias"; python -m tools.export_'
    assert re.search(said, done.stdout)
    assert (tmp_path / "out.prototxt").exists()


# --- bad input
