"""Descriptions of datasets that are none of the paper's."""

import json
from dataclasses import replace

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.experiment import experiment as experiments
from latent_domains.experiment.datasets import DATASETS, Dataset, find_dataset, from_json
from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets.training_files import make_nets_and_solver


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
def test_from_json_a_description_comes_back_from_json(data):
    assert from_json(json.loads(json.dumps(data.to_json()))) == data


def test_from_json_an_experiment_carries_the_description_of_its_own_dataset():
    experiment = make_experiment(own(), "mda")
    written = json.loads(json.dumps(experiment.to_json()))
    assert written["task"]["dataset"]["name"] == experiment.dataset == "mine"
    assert experiments.from_json(written) == experiment
    assert hash(experiment) == hash(experiments.from_json(written))
    assert make_experiment("pacs", "mda").to_json()["task"]["dataset"] == "pacs"


def test_make_experiment_a_dataset_that_only_bears_a_papers_name_is_described_in_full():
    assert make_experiment(own(name="pacs"), "mda").to_json()["task"]["dataset"]["classes"] == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"network": "vgg"}, "dataset: network: got 'vgg', expected one of mnist, "),
        ({"domains": ("indoor", "outdoor", "phone", "phone")}, "dataset: domains: got"),
        ({"sources": ()}, r"dataset: sources: got \(\), expected some of the domains"),
        ({"targets": ("tablet",)}, "dataset: targets: got"),
        ({"unlabelled": ("tablet",)}, "dataset: unlabelled: got"),
        ({"classes": 1}, "dataset: classes: found 1"),
        ({"name": "../mine"}, "dataset: name: got '../mine', expected a folder's name"),
        ({"domains": ("indoor", "outdoor", "")}, "dataset: domains: got .*, expected folders' names"),
        ({"domains": ("indoor", "out\x1b[2J")}, "dataset: domains: got .*, expected folders' names"),
        ({"counts": {"indoor": 3}}, "dataset: counts: got"),
        ({"mean": (1.0, 2.0)}, "dataset: mean: got"),
        ({"crop": 300}, "crop 300: expected what gives the"),
        ({"crop": None}, r"crop None: expected what gives the \(3, 224, 224\) of resnet18"),
    ],
)
def test_from_json_what_contradicts_itself_is_refused(changes, message):
    with pytest.raises(ProgramError, match=message):
        from_json(json.loads(json.dumps(own(**changes).to_json())))


def test_find_dataset_a_recipe_in_a_file_is_held_to_what_the_options_are(tmp_path):
    file = tmp_path / "own.json"
    file.write_text(json.dumps(own(recipe=replace(DATASETS["pacs"].recipe, iterations=-5)).to_json()))
    with pytest.raises(ProgramError, match=f"^{file}: dataset: recipe: iterations: found -5"):
        find_dataset(str(file))


def test_from_json_missing_and_unknown_keys_are_named():
    values = own().to_json()
    with pytest.raises(ProgramError, match="dataset: found no mean"):
        from_json({name: value for name, value in values.items() if name != "mean"})
    with pytest.raises(ProgramError, match="dataset: found the key 'Crop', expected some of name, domains, sources"):
        from_json({**values, "Crop": 224})


def test_make_experiment_unlabelled_images_are_never_a_source():
    with pytest.raises(ProgramError, match="sources: the images of 'phone' have no labels"):
        make_experiment(own(), "mda", sources=("phone",), targets=("indoor",))


@pytest.mark.parametrize("unlabelled", [(), ("phone",)])
def test_make_experiment_what_has_no_labels_is_not_tested(unlabelled):
    experiment = make_experiment(own(unlabelled=unlabelled), "mda")
    nets, solver = make_nets_and_solver(experiment, "data", "{}.prototxt".format, "snapshots/model")
    assert experiment.task.tests == ({} if unlabelled else {"test": "phone"})
    assert ("test" in nets, "test_net" in solver, "test_iter" in solver) == (not unlabelled,) * 3
    assert nets["train"].count("label_phone") == 0


def test_make_experiment_of_several_targets_the_labelled_ones_are_tested():
    data = own(targets=("outdoor", "phone"), sources=("indoor",))
    assert make_experiment(data, "mda").task.tests == {"test_outdoor": "outdoor"}


@pytest.mark.parametrize(
    ("count", "batch_size", "batches"),
    [
        (3929, 51, 77),  # PACS's sketches, a prime: 3,927
        (2344, 33, 71),  # cartoons: all but one
        (1670, 49, 34),  # photographs: all but four
        (2048, 64, 32),
        (157, 52, 3),
        (17, 17, 1),
        (15, 15, 1),
        (1, 1, 1),
    ],
)
def test_test_batches_a_test_pass_leaves_out_the_fewest_images(count, batch_size, batches):
    assert own().test_batches(count) == (batch_size, batches)


def test_test_batches_batches_that_divide_the_number_stay_as_they_were():
    digits = DATASETS["digits"]
    assert digits.test_batches(2007) == (223, 9) and digits.test_batches(10_000) == (500, 20)
    for count in range(1, 3000):
        size, batches = own().test_batches(count)
        divisors = [d for d in range(16, 65) if count % d == 0]
        assert 0 <= count - size * batches < size <= 64 and (not divisors or size == divisors[-1])
