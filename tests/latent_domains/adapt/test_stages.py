"""What is asked for and what is left to the network, and a folder that is in the way."""

import json
from pathlib import Path
from statistics import mean

import pytest

from latent_domains.adapt import stages
from latent_domains.adapt.stages import (
    FINE_TUNED,
    ON_FEATURES,
    about_batch,
    default_network,
    make_task,
    open_run,
    with_defaults,
)
from latent_domains.adapt.task import Paths
from latent_domains.adapt.trees import Domain, TaskImages
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data.image_list import Found
from latent_domains.experiment.datasets import from_json
from latent_domains.experiment.experiment import make_experiment


def test_a_folder_where_the_datasets_description_goes(tmp_path):
    paths = Paths(tmp_path / "task")
    paths.dataset.mkdir(parents=True)
    with pytest.raises(ProgramError, match=r"dataset\.json: a folder is there, expected to write a file"):
        open_run(paths, make_experiment("digits", "dial"), "CPU")
    assert not paths.run.exists()


def test_the_description_is_that_of_the_run(tiny_data, tmp_path):
    """Not that of a call with other options, which ended before there was a run."""
    paths = Paths(tmp_path / "task")
    paths.dataset.parent.mkdir(parents=True)
    paths.dataset.write_text("of other options")
    experiment = make_experiment("digits", "source_only", iterations=1)
    (paths.data / "digits").symlink_to(tiny_data / "digits")
    open_run(paths, experiment, "CPU")
    assert from_json(json.loads(paths.dataset.read_text())) == experiment.data


def test_the_network_is_one_that_this_machine_trains_in_minutes(monkeypatch):
    monkeypatch.delenv("SOLVER_MODE", raising=False)
    for reason, expected in (("the driver shows no GPU", "lite0"), (None, "resnet18")):
        monkeypatch.setattr(stages, "why_no_gpu", lambda reason=reason: reason)
        assert default_network(None) == expected
    assert default_network("CPU") == "lite0" and default_network("GPU") == "resnet18"


def test_what_is_chosen_stays_and_the_rest_is_the_networks():
    nothing = {"method": "mda", **dict.fromkeys(ON_FEATURES), "k": None}
    assert with_defaults("lite0", nothing) == {"method": "mda", **ON_FEATURES, "k": None}
    chosen = {**nothing, "no_w_gradient": False, "branch_norm": "layers"}
    assert with_defaults("lite0", chosen) == {**chosen, "branch_input": "early", "lambda_d": 0.1}
    assert with_defaults("resnet18", nothing) == {**nothing, "branch_norm": "logits"}
    targets = {**nothing, "k_target": None}
    assert with_defaults("lite0", targets) == {**ON_FEATURES, "method": "mda", "k": None, "k_target": 1}
    latent = with_defaults("lite0", {**nothing, "k_target": 2})
    assert (latent["branch_input"], latent["lambda_d"]) == ("final", 0.1)
    dial = {**nothing, "method": "dial"}
    assert with_defaults("lite0", dial) == dial


def nmi_of_branches(records, options):
    """Mean NMI with the true source domains of mDA without domain labels, by its settings named in ``options``."""
    found: dict[tuple[object, ...], list[float]] = {}
    for record in map(json.loads, map(Path.read_text, records)):
        settings = record["experiment"]
        if settings["known_share"] == 0:
            found.setdefault(tuple(settings[name] for name in options), []).append(record["domain_usage"]["nmi"])
    return {row: mean(values) for row, values in found.items()}


def test_the_defaults_are_the_branch_that_finds_the_domains_best():
    """By the NMI with the true source domains, as the records have it: no accuracy is looked at."""
    found = nmi_of_branches((ROOT / "results" / "pacs_features").glob("mda_*.json"), ON_FEATURES)
    assert len(found) == 10 and max(found, key=found.get) == tuple(ON_FEATURES.values())
    mixtures = (ROOT / "results" / "digits_mixtures").glob("mda_*_seed[012].json")
    found = nmi_of_branches(mixtures, ("branch_norm", "no_w_gradient"))
    assert len(found) == 3 and max(found, key=found.get) == (FINE_TUNED["branch_norm"], False)


@pytest.mark.parametrize(("images", "interval"), [(4_000, 200), (20_000, 417), (172_500, 1200)])
def test_a_large_target_is_tested_less_often(images, interval, tmp_path):
    """A test of as many images as 417 batches of 48 comes after so many; 1,200 batches are all of the training."""
    one, other, target = (Domain(name, Path(name), (), Found()) for name in ("one", "other", "target"))
    task = TaskImages((one, other), (target,), ("cat", "dog"), ())
    counts = {"one": 5_000, "other": 400_000, "target": images}
    chosen = {"method": "mda", "iterations": None, "k": None}
    recipe = make_task(Paths(tmp_path), task, "resnet18", chosen, counts, "adapt").data.recipe
    assert (recipe.iterations, recipe.batch_size, recipe.test_interval) == (1200, 48, interval)


def test_a_branch_that_no_model_could_have_is_refused(tmp_path):
    night, dusk, dawn = (Domain(name, Path(name), (), Found()) for name in ("night", "dusk", "dawn"))
    task = TaskImages((night,), (dusk, dawn), ("cat", "dog"), ())
    chosen = {"method": "mda", "iterations": None, "k": None, "k_target": 2, "branch_input": "early"}
    with pytest.raises(
        ProgramError, match=r"branch_input: got 'early' with k_target 2, expected final: .* latent targets"
    ):
        make_task(Paths(tmp_path), task, "lite0", chosen, {"night": 20, "dusk": 20, "dawn": 20}, "adapt")


def test_a_small_domain_makes_smaller_batches_and_that_is_said(tmp_path):
    def told(smallest: int, method: str = "mda", **chosen: int) -> list[str]:
        entries = {"one": smallest, "other": 500, "target": 500}
        *sources, target = (Domain(name, Path(name), (None,) * size, Found()) for name, size in entries.items())
        task = TaskImages(tuple(sources), (target,), ("cat", "dog"), ())
        chosen = {"method": method, "iterations": None, "k": None, **chosen}
        return list(about_batch(task, make_task(Paths(tmp_path), task, "mnist", chosen, entries, "adapt")))

    assert told(128) == [] and told(3, batch_size=32) == []
    for method in ("mda", "source_only"):
        (note,) = told(3, method)
        assert note.startswith("one has 3 images: so the batches are of 8 images a domain, not of 128 as the network's")
