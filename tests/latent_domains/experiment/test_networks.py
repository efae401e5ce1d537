"""The registry of networks: every entry can be used by all that reads it."""

import re

import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.experiment.datasets import DATASETS, from_json, of_network
from latent_domains.experiment.experiment import make_experiment, methods_of
from latent_domains.experiment.methods import CONTROLS
from latent_domains.experiment.networks import NETWORKS, expect_caffemodel, whose
from latent_domains.nets.training_files import make_nets_and_solver
from latent_domains.networks.network import GEOMETRIES
from tests.latent_domains.nets.graphs import parse

ENTRIES = pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)


@ENTRIES
def test_networks_what_an_entry_names_is_there(network):
    assert {network.images, network.recipe or network.images} <= set(DATASETS)
    assert set(network.geometries) <= set(GEOMETRIES) and (network.caffe_only is None or network.geometries[1:])
    assert network.folder is None or (ROOT / "prototxt" / network.folder).is_dir()
    assert network.megabytes > 1000


@ENTRIES
def test_methods_of_every_method_and_geometry_has_its_nets(network):
    data = of_network(network.name)
    assert from_json(data.to_json()) == data and data.network == network.name
    assert ("plain" in methods_of(data)) == network.plain
    for method in methods_of(data):
        for geometry in network.geometries:
            experiment = make_experiment(data, method, geometry=geometry)
            labels = {part: f"labels/{part}" for part in experiment.task.source_inputs if method in CONTROLS}
            nets, _ = make_nets_and_solver(experiment, "data", "{}.prototxt".format, "run", domain_label_lmdbs=labels)
            deploy = parse(nets["deploy"])
            assert list(deploy.layer[0].input_param.shape[0].dim) == [1, *data.shape]
            assert deploy.layer[-1].top == ["prob"] and deploy.name.startswith(data.name)


@ENTRIES
def test_whose_names_of_weights(network):
    for weights in network.weights:
        names = {weights.caffemodel(number) for number in (0, 2, 4)}
        assert all(whose(name) == weights for name in names) and weights.network == network.name
        made = {f"{weights.name}{mda}.caffemodel" for mda in ("", "_mda2", "_mda4")}
        assert names == (made if weights.converted else {weights.file.name})
    assert [weights.name for weights in network.weights][:1] in ([], [network.name])


@pytest.mark.parametrize("name", ["resnet18_mda.caffemodel", "resnet18_mdax.caffemodel", "my_resnet18.caffemodel", "x"])
def test_whose_weights_of_unknown_origin(name):
    assert whose(name) is None


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("lite0_mda2.caffemodel", " (from: python -m tools.get_weights lite0 --num-domains 2)"),
        ("resnet18.caffemodel", " (from: python -m tools.get_weights resnet18)"),
        ("bvlc_alexnet.caffemodel", " (from: python -m tools.get_weights alexnet)"),
        ("mine.caffemodel", ""),
    ],
)
def test_expect_caffemodel_missing_weights_are_named_with_the_command_that_gets_them(name, hint, tmp_path):
    message = f"{tmp_path / name}: no such file, expected a caffemodel{hint}"
    with pytest.raises(ProgramError, match=f"^{re.escape(message)}$"):
        expect_caffemodel(tmp_path / name)
