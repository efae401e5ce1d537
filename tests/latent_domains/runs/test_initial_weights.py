"""What runs of one seed begin from: the same weights wherever layers have name and shape in common."""

import caffe
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import NetParameter
from google.protobuf import text_format

from latent_domains.common.caffe_process import curves
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.weights import read_layers
from latent_domains.nets.training_files import COMMITTED, default_experiments, make_nets_and_solver
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.run_folders import small
from tests.training import train_here

TRUNK = {"conv1", "conv2", "fc3", "fc4", "fc5"}


def weights(run: RunFolder) -> dict[str, np.ndarray]:
    """Weights of the solver's training net before the first iteration, of layers whose fillers draw them."""
    solver = caffe.get_solver(str(run.solver))
    kinds = dict(zip(solver.net._layer_names, solver.net.layers, strict=True))
    drawn = ("Convolution", "InnerProduct")
    return {name: blobs[0].data.copy() for name, blobs in solver.net.params.items() if kinds[name].type in drawn}


def test_write_run_runs_of_a_seed_share_what_they_have_in_common(tiny_data, tmp_path):
    methods = {
        "plain": small("plain"),
        "source_only": small("source_only"),
        "dial": small("dial"),
        "mda2": small("mda", k=2),
        "mda5": small("mda", k=5),
        "targets": small("mda", k=2, k_target=2),
        "known": small("mda", known_share=0.5),
        "multi_source": small("multi_source"),
    }
    found = {name: weights(write_run(one, tmp_path / name, data=tiny_data)) for name, one in methods.items()}
    assert all(set(layers) >= TRUNK for layers in found.values())
    first, branch = found["mda2"], set(found["mda2"]) - TRUNK
    assert set(found["targets"]) - TRUNK == branch | {f"target_{layer}" for layer in branch}
    for name, layers in found.items():
        for layer, values in layers.items():
            if layer in first and values.shape == first[layer].shape:
                assert np.array_equal(values, first[layer]), (name, layer)
    assert found["mda5"]["domain_fc4"].shape != first["domain_fc4"].shape
    other = weights(write_run(small("mda", k=2, seed=1), tmp_path / "other", data=tiny_data))
    for layer, values in first.items():
        assert np.corrcoef(values.ravel(), other[layer].ravel())[0, 1] < 0.2, layer
    two = found["targets"]  # layers of one shape and two names
    assert not np.array_equal(two["domain_fc4"], two["target_domain_fc4"])


@pytest.mark.slow
def test_write_run_runs_of_a_seed_crop_and_mirror_alike(pictures, tmp_path):
    def batch(method: str, seed: int) -> np.ndarray:
        one = make_experiment("pacs", method, batch_split="per_domain", batch_size=2, iterations=1, seed=seed)
        solver = caffe.get_solver(str(write_run(one, tmp_path / f"{method}{seed}", data=pictures).solver))
        solver.net.forward(end="data")
        return solver.net.blobs["data"].data.copy()

    first = batch("mda", 0)
    assert np.array_equal(batch("dial", 0), first) and np.array_equal(batch("multi_source", 0), first)
    assert np.array_equal(batch("source_only", 0), first[:6])
    assert not np.array_equal(batch("mda", 1), first)


def test_write_run_layers_begin_as_caffes_fillers_make_them(tiny_data, tmp_path):
    run = write_run(small("mda", k=3), tmp_path / "run", data=tiny_data)
    for name, blobs in read_layers(run.initial):
        values = np.array(blobs[0].data)
        fan_in = np.prod(blobs[0].shape.dim[1:])
        assert np.abs(values).max() <= np.sqrt(3 / fan_in), name  # xavier
        assert values.std() == pytest.approx(np.sqrt(1 / fan_in), rel=0.1), name
        assert not any(np.any(blob.data) for blob in blobs[1:]), name


@pytest.mark.parametrize("dataset", COMMITTED)
def test_initial_every_filler_of_a_training_net_is_one_of_deploy_or_domain_net(dataset):
    """Only of these are weights drawn: they need no LMDB."""

    def fillers(text: str) -> dict[str, str]:
        layers = text_format.Parse(text, NetParameter()).layer
        params = {layer.name: (layer.convolution_param, layer.inner_product_param) for layer in layers}
        return {name: str(both) for name, both in params.items() if any(one.HasField("weight_filler") for one in both)}

    for experiment in default_experiments(dataset):
        nets, _ = make_nets_and_solver(experiment, "data", "{}".format, "snapshots")
        assert fillers(nets["train"]) == {**fillers(nets["deploy"]), **fillers(nets.get("domains", ""))}


@pytest.mark.program
def test_write_run_training_begins_from_them(tiny_data, tmp_path):
    run = write_run(small(seed=3), tmp_path / "run", data=tiny_data)
    train_here(run)
    net = run.load_net("train", caffe.TRAIN, run.initial)
    net.forward()
    first = sum(net.blob_loss_weights[name] * float(net.blobs[name].data) for name in net.outputs)
    assert curves(run.log_text().splitlines())["train", "loss"][0] == pytest.approx(first, rel=1e-4)
