"""Nets and weights as the authors' fork writes them become ours: same outputs, our names, and nothing half-done."""

import json
import re
from pathlib import Path

import caffe
import cv2
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.common.caffe_process import curves, start
from latent_domains.convert.fork import converter
from latent_domains.convert.fork.weights import converted
from latent_domains.models.compare import TOLERANCE
from latent_domains.models.model import read_model
from latent_domains.models.weights import check_weights
from tests.latent_domains.convert.fork.fork_nets import ForkNet, digits, residual, save, settings
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import kind, parse
from tests.programs import names, program

WRITTEN = re.compile(r"largest difference (\S+) \((.+)\)")


def differences(said: str) -> list[float]:
    """The largest difference of each comparison."""
    return [float(found) for found, _ in WRITTEN.findall(said)]


def scores(net: Path, weights: Path, x: np.ndarray) -> np.ndarray:
    """Class scores by Caffe: what goes into the softmax."""
    loaded = caffe.Net(str(net), caffe.TEST)
    loaded.copy_from(str(weights))
    loaded.blobs["data"].reshape(*x.shape)
    loaded.blobs["data"].data[...] = x
    loaded.forward()
    return loaded.blobs[list(loaded.blobs)[-2]].data.copy()


@pytest.fixture(scope="module")
def fork(tmp_path_factory: pytest.TempPathFactory) -> tuple[ForkNet, list[Path]]:
    """A net of two latent sources and a target with weights: net.prototxt, net.caffemodel."""
    net = digits(2)
    return net, save(net, net.weights(0), tmp_path_factory.mktemp("fork"))


@pytest.fixture(scope="module")
def done(fork: tuple[ForkNet, list[Path]]) -> tuple[Path, str]:
    """What the net is converted to, and what the program said."""
    net, files = fork
    out = files[0].parent / "converted" / "digits"
    ended = program("convert_fork", *files, out, *settings(net.values))
    assert ended.returncode == 0, ended.stderr
    return out, ended.stdout


@pytest.mark.program
def test_convert_fork_outputs_are_the_forks(done) -> None:
    out, said = done
    assert names(out.parent) == ["digits.caffemodel", "digits.prototxt", "digits_train.prototxt"]
    found = differences(said)
    assert len(found) == 3 and max(found) < TOLERANCE
    about = Path(f"{out}.prototxt").read_text().splitlines()[1]
    assert about == "# Input: N×3×28×28, pixels (B, G, R) minus 104, 117, 123." and "note:" not in said


@pytest.mark.program
def test_convert_fork_a_mean_that_is_a_file_is_named(tmp_path: Path) -> None:
    net = digits(2)
    means = "mean_value: 104 mean_value: 117 mean_value: 123"
    text = net.text.replace(means, 'mean_file: "lists/mean.binaryproto" scale: 0.5')
    files = save(net, net.weights(0), tmp_path, text=text)
    done = program("convert_fork", *files, tmp_path / "out", "--no-verify", *settings(net.deployed))
    assert done.returncode == 0, done.stderr
    needs = "Input: N×3×28×28, pixels (B, G, R) minus mean.binaryproto, times 0.5."
    assert (tmp_path / "out.prototxt").read_text().splitlines()[1] == f"# {needs}"
    assert f"note: the images' mean is a file, which is not converted: {needs}\n" in done.stdout


@pytest.mark.program
def test_convert_fork_several_latent_targets_keep_their_branch(tmp_path) -> None:
    net = digits(3, 2)
    ended = program("convert_fork", *save(net, net.weights(2), tmp_path), tmp_path / "out", *settings(net.values))
    assert ended.returncode == 0, ended.stderr
    assert len(differences(ended.stdout)) == 3
    model = read_model(tmp_path / "out.prototxt", tmp_path / "out.caffemodel")
    assert {"target_domain_conv2", "target_domain_fc3", "target_domain_fc4"} < set(model.blobs)
    assignment = next(layer for layer in model.net.layer if layer.name == "w_target")
    assert json.loads(assignment.python_param.param_str) == {"num_domains": 5, "first": 3}


@pytest.mark.program
def test_convert_fork_the_training_net_is_ours(done) -> None:
    out, _ = done
    net = parse(Path(f"{out}_train.prototxt").read_text())
    by_name = {layer.name: layer for layer in net.layer}
    assert not any(kind(layer) in ("MultiModalBatchNorm", "EntropyLoss", "BatchNorm", "Eltwise") for layer in net.layer)
    for name in ("conv1_mda", "conv2_mda", "fc3_mda", "fc4_mda", "fc5_mda"):
        assert kind(by_name[name]) == "MDALayer" and list(by_name[name].bottom)[1:] == ["w"]
        assert json.loads(by_name[name].python_param.param_str) == {"num_domains": 3, "moving_average_fraction": 0.95}
        assert [param.lr_mult for param in by_name[name].param] == [0, 0, 0]
    assert list(by_name["w"].bottom) == ["w_source", "w_target"]
    assert list(by_name["w_target_logits"].dummy_data_param.shape[0].dim) == [6, 1]
    assert {name: list(by_name[name].loss_weight) for name in ("entropy_class", "entropy_domain")} == {
        "entropy_class": [pytest.approx(0.2)],
        "entropy_domain": [pytest.approx(0.1)],
    }
    assert by_name["d1"].image_data_param.source == "list 1.txt"
    # The branch reads its own rows of the stem; nobody else reads the target's.
    assert list(by_name["part stem"].top) == ["stem s", "stem t"]
    # What one forward pass leaves for Caffe to print is losses.
    read = {bottom for layer in net.layer for bottom in layer.bottom}
    left = {top for layer in net.layer for top in layer.top} - read
    assert left == {"loss_class", "entropy_class", "entropy_domain"}


@pytest.mark.program
def test_convert_fork_weights_load_by_name_into_our_nets(done) -> None:
    """Into the generator's nets of the digits experiment, whose scores are then the same."""
    out, _ = done
    nets = nets_of("digits", k=2, branch_norm="none")[1]
    folder = out.parent.parent
    used: set[str] = set()
    for name in ("deploy", "domains"):
        (folder / f"{name}.prototxt").write_text(nets[name])
        net = caffe.Net(str(folder / f"{name}.prototxt"), caffe.TEST)
        fit = check_weights(Path(f"{out}.caffemodel"), [net])
        assert not fit.missing
        used.update(fit.loaded)
    assert used == {layer.name for layer in weights_of(out).layer}
    x = np.random.default_rng(3).normal(0, 60, (4, 3, 28, 28)).astype(np.float32)
    ours, theirs = (
        scores(file, Path(f"{out}.caffemodel"), x) for file in (folder / "deploy.prototxt", Path(f"{out}.prototxt"))
    )
    np.testing.assert_array_equal(ours, theirs)


@pytest.mark.program
def test_convert_fork_caffe_trains_the_training_net(fork, tmp_path) -> None:
    """On real images, from the converted weights."""
    net, files = fork
    values = dict(net.values)
    for i in range(3):
        lines = []
        for j in range(6):
            image = np.random.default_rng(10 * i + j).integers(0, 256, (40, 40, 3)).astype(np.uint8)
            cv2.imwrite(str(tmp_path / f"{i}{j}.png"), image)
            lines.append(f"{tmp_path / f'{i}{j}.png'} {j}\n")
        values[f"LIST{i}"] = str(tmp_path / f"{i}.txt")
        Path(values[f"LIST{i}"]).write_text("".join(lines))
    ended = program("convert_fork", *files, tmp_path / "out", "--no-verify", *settings(values))
    assert ended.returncode == 0, ended.stderr
    solver = tmp_path / "solver.prototxt"
    solver.write_text(
        f'train_net: "{tmp_path / "out_train.prototxt"}" base_lr: 0.001 lr_policy: "fixed" max_iter: 3 display: 1 '
        f'momentum: 0.9 solver_mode: CPU snapshot_prefix: "{tmp_path / "snapshot"}"'
    )
    with start(["train", "-solver", str(solver), "-weights", str(tmp_path / "out.caffemodel")], 1) as run:
        log = run.stdout.read()
    assert run.returncode == 0, log[-2000:]
    found = curves(log.splitlines())
    for name in ("loss_class", "entropy_class", "entropy_domain"):
        assert len(found["train", name]) == 3 and np.isfinite(list(found["train", name].values())).all()
    after = {layer.name: layer for layer in parse_weights(tmp_path / "snapshot_iter_3.caffemodel").layer}
    before = {layer.name: layer for layer in weights_of(tmp_path / "out").layer}
    old, new = (model["fc3_mda"].blobs[2].data[-1] for model in (before, after))  # the target's
    assert new == pytest.approx(0.95**3 * old + 0.95**2 + 0.95 + 1, rel=1e-5)
    assert after["domain_fc4"].blobs[0].data != before["domain_fc4"].blobs[0].data


def weights_of(out: Path) -> NetParameter:
    return parse_weights(Path(f"{out}.caffemodel"))


def parse_weights(file: Path) -> NetParameter:
    return NetParameter.FromString(file.read_bytes())


@pytest.mark.program
def test_convert_fork_residual_net_is_our_resnet18_of_caffes_geometry(tmp_path) -> None:
    """Images are small here, which changes no parameter."""
    net = residual(3, 48)
    files = save(net, net.weights(4), tmp_path)
    ended = program("convert_fork", *files, tmp_path / "out", *settings(net.deployed))
    assert ended.returncode == 0, ended.stderr
    assert names(tmp_path) == ["net.caffemodel", "net.prototxt", "out.caffemodel", "out.prototxt"]
    ours = nets_of("pacs", geometry="caffe")[1]
    used: set[str] = set()
    for name in ("deploy", "domains"):
        text = ours[name].replace("dim: 224", "dim: 48").replace("num_output: 7\n", "num_output: 10\n")
        text = text.replace("num_output: 7 ", "num_output: 10 ")
        (tmp_path / f"{name}.prototxt").write_text(text)
        fit = check_weights(tmp_path / "out.caffemodel", [caffe.Net(str(tmp_path / f"{name}.prototxt"), caffe.TEST)])
        assert not fit.missing
        used.update(fit.loaded)
    assert used == {layer.name for layer in weights_of(tmp_path / "out").layer}
    x = np.random.default_rng(5).normal(0, 60, (2, 3, 48, 48)).astype(np.float32)
    found = [scores(tmp_path / f"{name}.prototxt", tmp_path / "out.caffemodel", x) for name in ("deploy", "out")]
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("point", [15, 8])
def test_convert_fork_wrong_batches_are_refused(point: int, fork, tmp_path) -> None:
    net, files = fork
    ended = program("convert_fork", *files, tmp_path / "out", *settings({**net.values, "POINT": str(point)}))
    said = f"layer part stem (Slice) has slice_point {point} for 2 parts of 15 rows, expected 1 of 5, 9, where batches"
    assert ended.returncode == 1 and said in ended.stderr
    assert names(tmp_path) == []


@pytest.mark.program
def test_convert_fork_a_wrong_conversion_is_never_written(fork, tmp_path, monkeypatch) -> None:
    net, files = fork
    (tmp_path / "out.prototxt").write_text("mine")

    def swapped(*arguments):
        blobs = converted(*arguments)
        blobs["fc3_mda"][0] = blobs["fc3_mda"][0][[1, 0, 2]]  # two latent sources, which only the last step shows
        return blobs

    monkeypatch.setattr(converter, "converted", swapped)
    ended = program("convert_fork", *files, tmp_path / "out", "--force", *settings(net.values))
    assert ended.returncode == 1
    assert len(differences(ended.stdout)) == 2
    assert re.search(
        r"differ by .* of the largest value in \w+, expected at most 0.0001; nothing is written", ended.stderr
    )
    assert names(tmp_path) == ["out.prototxt"] and (tmp_path / "out.prototxt").read_text() == "mine"
