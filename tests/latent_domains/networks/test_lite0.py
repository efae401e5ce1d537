"""EfficientNet-Lite0 read as a graph, and trained on real pictures of 64×64, if only for a few iterations."""

import json

import caffe
import numpy as np
import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.graph import kind
from latent_domains.models.model import open_net
from latent_domains.nets.family import deploy_net
from latent_domains.networks.lite0 import LAYERS
from latent_domains.runs.write import write_run
from tests.latent_domains.nets.experiments import nets_of
from tests.latent_domains.nets.graphs import layers
from tests.pictures import QUICK, draw, train
from tests.programs import program
from tests.training import train_here

LITE0 = {"network": "lite0", "image_size": 64}


def test_layers_every_bn_but_conv1s_is_mda_with_the_nets_own_epsilon():
    net = layers(nets_of("pacs", **LITE0)[1]["train"])
    parts = [
        f"{b.name}_{part}"
        for b in LAYERS.blocks()
        for part in ("expand", "depthwise", "project")
        if f"{b.name}_{part}" in net
    ]
    convolutions = {
        name for name, layer in net.items() if layer.type == "Convolution" and not name.startswith("domain_")
    }
    assert convolutions == {"conv1", *parts, "conv2"} and len(convolutions) == 49
    for name in (*parts, "conv2"):
        assert kind(net[f"{name}_mda"]) == "MDALayer" and list(net[f"{name}_mda"].bottom) == [name, "w"]
        assert json.loads(net[f"{name}_mda"].python_param.param_str)["eps"] == 1e-3
        assert list(net[f"{name}_scale"].bottom) == [f"{name}_mda"]
    norms = {name for name, layer in net.items() if layer.type == "BatchNorm" and not name.startswith("domain_")}
    assert norms == {"conv1_bn"} and net["conv1_bn"].batch_norm_param.eps == pytest.approx(1e-3)
    clips = {name: layer for name, layer in net.items() if layer.type == "Clip"}
    assert set(clips) == {f"{name}_relu6" for name in convolutions if not name.endswith("_project")}
    assert all(list(layer.bottom) == list(layer.top) for layer in clips.values())


def test_lite0_strides_of_2_pad_as_tensorflow_does():
    net = layers(nets_of("pacs", **LITE0)[1]["deploy"])
    found = {}
    for name, layer in net.items():
        p = layer.convolution_param
        if list(p.stride) == [2]:
            found[name] = (p.kernel_size[0], list(p.pad), list(p.pad_end))
    assert found == {
        "conv1": (3, [], [1]),
        "block2a_depthwise": (3, [], [1]),
        "block3a_depthwise": (5, [1], [2]),
        "block4a_depthwise": (3, [], [1]),
        "block6a_depthwise": (5, [1], [2]),
    }


def test_lite0_the_branch_is_resnets_on_conv1():
    net, of_resnet = (layers(nets_of("pacs", **options)[1]["train"]) for options in (LITE0, {}))
    branch = [name for name in net if name.startswith("domain_")]
    assert branch == [name for name in of_resnet if name.startswith("domain_")] and "domain_fc" in branch
    for name in ("domain_res2a_branch1", "domain_res2a_branch2a"):
        assert list(net[name].bottom) == ["conv1_bn"]
        assert net[name].convolution_param == of_resnet[name].convolution_param


def test_lite0_gradients_stop_where_relu6_is_flat():
    """And go on where it is not, though it works in place: of conv1's channels some are below 0, some above 6."""
    definition = deploy_net(make_experiment("pacs", "source_only", **LITE0)).to_proto()
    definition.force_backward = True
    net = open_net(definition, caffe.TEST)
    net.params["conv1_scale"][0].data[...] = 1
    net.params["conv1_scale"][1].data[...] = np.linspace(-20, 20, 32)
    net.forward()
    x = net.blobs["conv1_bn"]
    x.diff[...] = 1
    net.backward(start="conv1_relu6", end="conv1_relu6")
    flat = (x.data == 0) | (x.data == 6)
    assert 0 < flat.mean() < 1
    np.testing.assert_array_equal(x.diff, ~flat)


@pytest.mark.program
@pytest.mark.parametrize(
    ("method", "options"),
    [("source_only", {}), ("mda", {"branch_norm": "logits", "k_target": 2})],
)
def test_lite0_it_trains(method, options, small_pictures, tmp_path):
    record = train(make_experiment("pacs", method, **QUICK, **LITE0, **options), tmp_path / "run", small_pictures)
    net = record["experiment"]["net"]
    assert (net["network"], net["image_size"]) == ("lite0", 64)


@pytest.mark.program
def test_lite0_a_run_from_imagenets_weights_is_exported_and_predicts(small_pictures, tmp_path):
    """With `caffe train`, from the weights that get_weights leaves."""
    done = program("get_weights", "lite0", "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    run = write_run(make_experiment("pacs", "mda", **QUICK, **LITE0), tmp_path / "run", data=small_pictures)
    train_here(run, weights=tmp_path / "lite0_mda4.caffemodel")
    assert json.loads(run.record_file.read_text())["iteration"] == QUICK["iterations"]
    stock = tmp_path / "stock"
    done = program("export", run.path, stock)
    assert done.returncode == 0, done.stderr
    assert not {"pad_end", "Python"}.intersection(stock.with_suffix(".prototxt").read_text().replace('"', " ").split())
    pixels = ("--mean", 127, "--scale", 1 / 128)
    done = program("export_onnx", f"{stock}.prototxt", f"{stock}.caffemodel", f"{stock}.onnx", *pixels)
    assert done.returncode == 0, done.stderr
    pictures = draw(tmp_path / "pictures", 1) / "photo" / "dog"
    found = []
    for source in (run.path, stock):
        done = program("predict", source, pictures, "--out", tmp_path / "found.csv", "--force")
        assert done.returncode == 0, done.stderr
        found.append([line.split(",")[:2] for line in (tmp_path / "found.csv").read_text().splitlines()])
    assert found[0] == found[1] and len(found[0]) == 2
