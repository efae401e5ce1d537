"""Descriptions of datasets that are none of the paper's."""

import json
from dataclasses import replace

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment import experiment as experiments
from latent_domains.experiment.datasets import DATASETS, Dataset, from_json
from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets import make_nets_and_solver


def own(**changes) -> Dataset:
    """Two labelled domains and an unlabelled one."""
    values = {
        "name": "mine",
        "domains": ("indoor", "outdoor", "phone"),
        "sources": ("indoor", "outdoor"),
        "targets": ("phone",),
        "unlabelled": ("phone",),
        "classes": 3,
        "counts": {"indoor": 12, "outdoor": 9, "phone": 7},
        "made_by": "python -m tools.adapt",
    }
    return replace(DATASETS["pacs"], **{**values, **changes})


@pytest.mark.parametrize("data", [*DATASETS.values(), own()], ids=lambda data: data.name)
def test_a_description_comes_back_from_json(data):
    assert from_json(json.loads(json.dumps(data.to_json()))) == data


def test_an_experiment_carries_the_description_of_its_own_dataset():
    experiment = make_experiment(own(), "mda")
    written = json.loads(json.dumps(experiment.to_json()))
    assert written["dataset"]["name"] == experiment.dataset == "mine"
    assert experiments.from_json(written) == experiment
    assert hash(experiment) == hash(experiments.from_json(written))
    assert make_experiment("pacs", "mda").to_json()["dataset"] == "pacs"


def test_a_dataset_that_only_bears_a_papers_name_is_described_in_full():
    assert make_experiment(own(name="pacs"), "mda").to_json()["dataset"]["classes"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "vgg"}, "dataset: network: got 'vgg', expected one of mnist, alexnet"),
        ({"domains": ("indoor", "outdoor", "phone", "phone")}, "dataset: domains: got"),
        ({"sources": ()}, r"dataset: sources: got \(\), expected some of the domains"),
        ({"targets": ("tablet",)}, "dataset: targets: got"),
        ({"unlabelled": ("tablet",)}, "dataset: unlabelled: got"),
        ({"classes": 1}, "dataset: classes: got 1, expected at least 2"),
        ({"classes": 2.5}, "classes: got 2.5, expected an integer"),
        ({"counts": {"indoor": 3}}, "dataset: counts: got"),
        ({"counts": {"indoor": 12, "outdoor": 9, "phone": 0}}, "expected at least 1 image of each domain"),
        ({"counts": {"indoor": "3"}}, "counts: got {'indoor': '3'}, expected an object whose values are integers"),
        ({"mean": (1.0, 2.0)}, "dataset: mean: got"),
        ({"mean": ("a",)}, r"mean: got \['a'\], expected a list of numbers"),
        ({"crop": 300}, "crop 300: expected what gives the"),
        ({"crop": None}, r"crop None: expected what gives the \(3, 224, 224\) of resnet18"),
        ({"stored_shape": (3, 256)}, r"stored_shape: got \[3, 256\], expected a list of 3 integers"),
        ({"recipe": replace(DATASETS["pacs"].recipe, lr_policy="poly")}, "recipe.lr_policy: got 'poly'"),
        ({"recipe": replace(DATASETS["pacs"].recipe, momentum="a")}, "momentum: got 'a', expected a number"),
    ],
)
def test_what_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ProgramError, match=message):
        from_json(json.loads(json.dumps(own(**changes).to_json())))


def test_missing_and_unknown_keys_are_named():
    values = own().to_json()
    del values["crop"]
    with pytest.raises(ProgramError, match=r"dataset: missing keys \['crop'\], unknown keys \['Crop'\]"):
        from_json({**values, "Crop": 224})
    with pytest.raises(ProgramError, match=r"dataset: got \[\], expected an object"):
        from_json([])


def test_unlabelled_images_are_never_a_source():
    with pytest.raises(ProgramError, match="sources: the images of 'phone' have no labels"):
        make_experiment(own(), "mda", sources=("phone",), targets=("indoor",))


@pytest.mark.parametrize("unlabelled", [(), ("phone",)])
def test_what_has_no_labels_is_not_tested(unlabelled):
    experiment = make_experiment(own(unlabelled=unlabelled), "mda")
    nets, solver = make_nets_and_solver(experiment, "data", "{}.prototxt".format, "snapshots/model")
    assert experiment.tests == ({} if unlabelled else {"test": "phone"})
    assert ("test" in nets, "test_net" in solver, "test_iter" in solver) == (not unlabelled,) * 3
    assert nets["train"].count("label_phone") == 0


def test_of_several_targets_the_labelled_ones_are_tested():
    data = own(targets=("outdoor", "phone"), sources=("indoor",))
    assert make_experiment(data, "mda").tests == {"test_outdoor": "outdoor"}
