import argparse
import json
from dataclasses import replace
from typing import Any

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import SETTINGS, differences, from_json, make_experiment
from latent_domains.experiment.methods import METHODS
from latent_domains.experiment.options import add_experiment_options, experiment_from_options


@pytest.mark.parametrize(
    ("method", "num_domains", "branch"),
    [("plain", 0, False), ("source_only", 0, False), ("dial", 2, False), ("mda", 6, True), ("multi_source", 3, False)],
)
def test_make_experiment_domains_of_each_method(method, num_domains, branch):
    experiment = make_experiment("digits", method, k=5 if method == "mda" else None)
    assert (experiment.num_domains, experiment.method.has_branch) == (num_domains, branch)


def test_make_experiment_another_target_takes_the_other_domains_as_sources():
    assert make_experiment("digits", "dial", targets=("mnist",)).sources == ("mnistm", "usps")


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("dataset", {"dataset": "mnist"}),
        ("method", {"method": "mDA"}),
        ("method", {"dataset": "pacs", "method": "plain"}),
        ("targets", {"targets": ("svhn",)}),
        ("targets", {"dataset": "pacs", "targets": ("sketch", "sketch")}),
        ("sources", {"sources": ()}),
        ("sources", {"sources": ("mnist", "usps")}),
        ("sources", {"sources": ("mnist", "mnist")}),
        ("k", {"k": 0}),
        ("k", {"method": "dial", "k": 2}),
        ("k", {"method": "multi_source", "k": 3}),
        ("k", {"method": "source_only", "k": 1}),
        ("k", {"method": "random_w", "k": 1}),
        ("k", {"method": "random_w", "sources": ("mnist",)}),
        ("k", {"known_share": 0.5, "k": 3}),
        ("k_target", {"method": "dial", "k_target": 2}),
        ("k_target", {"method": "source_only", "k_target": 1}),
        ("k_target", {"k_target": 0}),
        ("known_share", {"known_share": 0.5, "method": "dial"}),
        ("known_share", {"known_share": 0.1, "undivided": True}),
        ("style_share", {"style_share": 0.5, "method": "style_w"}),
        ("style_share", {"style_share": 0.5, "known_share": 0.1}),
        ("style_share", {"style_share": 0.5, "k": 1}),
        ("shares", {"dataset": "pacs", "shares": (80, 20)}),
        ("shares", {"shares": (80, 19)}),
        ("branch_norm", {"branch_norm": "logits", "method": "dial"}),
        ("branch_input", {"branch_input": "early"}),
        ("domain_gain", {"domain_gain": 2.0}),
        ("no_w_gradient", {"no_w_gradient": True, "method": "multi_source"}),
        ("permuted_w", {"permuted_w": True, "method": "dial"}),
        ("permuted_w", {"permuted_w": True, "undivided": True}),
        ("conv1_bias", {"conv1_bias": True, "dataset": "pacs"}),
        ("lambda_b", {"lambda_b": 0.1, "k": 1}),
        ("lambda_c", {"lambda_c": 3.0, "method": "source_only"}),
        ("lambda_d", {"lambda_d": 3.0, "method": "dial"}),
        ("lambda_t", {"lambda_t": 3.0}),
        ("base_lr", {"base_lr": float("nan")}),
        ("geometry", {"dataset": "pacs", "geometry": "tf"}),
        ("geometry", {"dataset": "office31", "geometry": "torch"}),
        ("network", {"network": "lite1"}),
        ("network", {"network": "lite0"}),
        ("image_size", {"dataset": "pacs", "image_size": 150}),
        ("image_size", {"dataset": "pacs", "image_size": 32}),
        ("image_size", {"dataset": "pacs", "network": "alexnet", "image_size": 160}),
        ("seed", {"seed": -1}),
    ],
)
def test_make_experiment_bad_descriptions_are_refused_by_name(name, options):
    with pytest.raises(ProgramError, match=rf"^{name}: (got|found) .* expected "):
        make_experiment(**{"dataset": "digits", "method": "mda", **options})


@pytest.mark.parametrize(
    ("part", "change", "message"),
    [
        ("method", {"k": {}}, r"^k: found \{\}, expected "),
        ("method", {"K": 2}, "Mda: found the key 'K', expected some of k_target, branch_norm"),
        ("method", {"name": "mDA"}, "method: found 'mDA', expected one of plain, "),
        ("method", {"name": ["mda"]}, r"method: found \['mda'\], expected one of plain, "),
        ("method", {"name": "dial"}, "Dial: found the key 'k_target', expected none$"),
        ("recipe", {"k": 2}, "Recipe: found the key 'k'"),
        ("task", {"dataset": None}, "dataset: found None"),
        ("task", {"shares": [20, 80]}, "shares: got 20:80, expected none"),
        ("net", {"network": "resnet18"}, "network: got 'resnet18', expected one for "),
    ],
)
def test_from_json_json_of_no_experiment_is_refused(part, change, message):
    values = make_experiment("digits", "mda").to_json()
    with pytest.raises(ProgramError, match=message):
        from_json({**values, part: {**values[part], **change}})


def test_from_json_json_without_a_part_or_of_another_schema_is_refused():
    values = make_experiment("digits", "mda").to_json()
    for part in ("task", "method", "recipe", "net"):
        with pytest.raises(ProgramError, match=f"{part}: found None, expected an object"):
            from_json({key: value for key, value in values.items() if key != part})
    with pytest.raises(ProgramError, match="schema: found 3, expected 2"):
        from_json({**values, "schema": 3})


def test_from_json_a_setting_that_json_does_not_have_has_its_default():
    """So a new setting leaves old records as they are."""
    values = make_experiment("digits", "mda").to_json()
    del values["method"]["style_share"], values["recipe"]["equal_classes"], values["net"]["conv1_bias"]
    assert from_json(values) == make_experiment("digits", "mda")


def test_make_experiment_how_often_is_tested_and_where_it_runs_make_no_other_experiment():
    data = DATASETS["pacs"]
    other = replace(data, recipe=replace(data.recipe, test_interval=7, snapshot_interval=7, solver_mode="CPU"))
    assert make_experiment(other, "mda") == make_experiment(data, "mda")
    assert make_experiment(other, "mda").recipe.test_interval == 7


def test_from_json_a_description_that_differs_in_these_alone_is_kept():
    data = DATASETS["pacs"]
    other = replace(data, recipe=replace(data.recipe, test_interval=7))
    assert from_json(json.loads(json.dumps(make_experiment(other, "mda").to_json()))).recipe.test_interval == 7


def test_differences_what_was_described_for_its_network_is_no_other_experiment():
    """Before the parts a dataset of one's own was written as its network takes it."""
    mine = replace(DATASETS["pacs"], name="mine")
    now = make_experiment(mine, "dial", network="lite0")
    before = make_experiment(now.data, "dial")
    assert differences(before, now) == []
    assert differences(make_experiment(mine, "mda", k=2), make_experiment("pacs", "mda"))[:2] == [
        ("dataset", "mine", "pacs"),
        ("k", 2, 3),
    ]


def test_differences_what_differs_in_a_description_of_the_same_name_is_named():
    data = DATASETS["pacs"]
    other = replace(data, counts={**data.counts, "sketch": 1}, mirror=not data.mirror)
    found = differences(make_experiment(other, "mda"), make_experiment(data, "mda"))
    assert found == [("dataset", "pacs with other counts, mirror", "pacs")]


def test_from_json_a_mixture_with_shares_is_named_by_them():
    first, second = (("photo", "cartoon"), (80, 20)), (("cartoon", "photo"), (20, 80))
    for sources, shares in (first, second):
        made = make_experiment("pacs", "mda", sources=sources, shares=shares)
        assert made.task.undivided and made.task.source_inputs == ("cartoon20+photo80",)
        assert made.title == f"mDA, k=2, undivided source {':'.join(map(str, shares))}"
        assert from_json(made.to_json()) == made


def test_methods_differ_in_the_targets_domains_where_their_definition_does_alone():
    """So that rows of a table, or runs of --method, are like with like."""
    found = {method: make_experiment("office_caltech_fc7", method).k_target for method in METHODS if method != "plain"}
    assert (found.pop("source_only"), found.pop("dial")) == (0, 1) and "mda" in found
    assert set(found.values()) == {2}


def test_make_experiment_a_network_of_another_size_has_images_of_its_own():
    """Stored as much smaller, so that a crop shows as much of a picture; the pixels enter as the network takes them."""
    usual, small = (make_experiment("pacs", "mda", network="lite0", image_size=size).data for size in (None, 160))
    assert usual.preprocessing == Preprocessing((3, 256, 256), 224, (127.0,) * 3, 1 / 128)
    assert small.preprocessing == Preprocessing((3, 183, 183), 160, (127.0,) * 3, 1 / 128)
    assert (usual.train_lmdb("photo"), small.train_lmdb("photo")) == ("pacs/photo", "pacs_160/photo")
    assert small.test_lmdb("photo") == "pacs_160/photo" and small.made_by.endswith(
        " pacs --images DIR --image-size 160"
    )
    assert (usual.recipe, usual.mirror, usual.counts) == (DATASETS["pacs"].recipe, True, DATASETS["pacs"].counts)
    resnet = make_experiment("pacs", "mda", network="resnet50", image_size=160)
    assert resnet.data.lmdbs == small.lmdbs and resnet.data.mean == DATASETS["pacs"].mean
    assert resnet.name == "mda_k3_resnet50_size160_seed0" and resnet.to_json()["task"]["dataset"] == "pacs"


OTHERS = {
    "sources": ("photo",),
    "targets": ("photo",),
    "method": "multi_source",
    "undivided": True,
    "shares": (40, 30, 30),
    "batch_split": "by_size",
    "data_order": "stored",
    "branch_norm": "logits",
    "branch_input": "early",
    "no_w_gradient": True,
    "permuted_w": True,
    "equal_classes": True,
    "conv1_bias": True,
    "geometry": "caffe",
    "network": "lite0",
    "image_size": 160,
    "test_mirror": True,
    "head": "paper",
}
"""A value that is not the default, for each setting that cannot be any other number."""

WITH = {"domain_gain": {"branch_norm": "logits"}, "lambda_t": {"known_share": 0.1}}
"""What else must be chosen."""

OF_DATASET = {"branch_input": "pacs_lite0", "conv1_bias": "digits", "head": "pacs_lite0"}
"""Where pacs does not have the setting."""


def other(name: str, default: Any) -> Any:
    if name in OTHERS:
        return OTHERS[name]
    return default + 1 if isinstance(default, int) else default / 2 + 0.2  # within 0 to 1 if the default is


@pytest.mark.parametrize("name", [name for name in SETTINGS if name != "domains"])
def test_from_json_a_setting_of_the_table_is_everywhere(name):
    """In Python, in JSON, in a folder's name and on command lines; test_definition.py has the keys of YAML.

    That of a file has another value than its option (test_from_file.py).
    """
    dataset = OF_DATASET.get(name, "pacs")
    default = make_experiment(dataset, "mda")
    value, others = other(name, default.settings[name]), WITH.get(name, {})
    made = make_experiment(dataset, **{"method": "mda", name: value, **others})
    assert made.settings[name] == value and made.name != default.name
    assert from_json(json.loads(json.dumps(made.to_json()))) == made

    parser = argparse.ArgumentParser()
    add_experiment_options(parser)
    option = f"--{name.replace('_', '-')}"
    joined = ":" if name == "shares" else "+"
    words = [] if value is True else [joined.join(map(str, value)) if isinstance(value, tuple) else str(value)]
    words += [word for other, chosen in others.items() for word in (f"--{other.replace('_', '-')}", str(chosen))]
    assert experiment_from_options(parser.parse_args(["--dataset", dataset, option, *words])) == made
    assert experiment_from_options(parser.parse_args(["--dataset", dataset])) == default
