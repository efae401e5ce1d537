import json
from dataclasses import replace

import pytest
from caffe.proto.caffe_pb2 import NetParameter

from latent_domains.ablations.domains import VARIANTS, ablate, branch_from_normalised, gaussian_classifier
from latent_domains.common.program import ProgramError
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.write import write_run
from tests.programs import program
from tests.run_folders import small


@pytest.mark.program
def test_every_variant_is_trained_and_judged_by_itself(tiny_data, tmp_path):
    options = ("--batch-size", 8, "--iterations", 2, "--data", tiny_data, "--out", tmp_path / "found.json")
    done = program("ablate_domains", *options)
    assert done.returncode == 0, done.stderr
    records = json.loads((tmp_path / "found.json").read_text())
    assert list(records) == list(VARIANTS)
    assert len({str(record["domain_usage"]["mean_probability"]) for record in records.values()}) == len(VARIANTS)
    assert [line.split(" | ")[0].strip("| ") for line in done.stdout.splitlines()[-3:]] == list(VARIANTS)


@pytest.mark.parametrize("name", ["train", "domains"])
def test_each_variant_changes_the_branch_alone(name, tiny_data, tmp_path):
    run = write_run(small(), tmp_path / "run", data=tiny_data)
    before = {layer.name: layer for layer in run.read_net(name).layer}

    def changed(edit) -> dict[str, NetParameter]:
        net = run.read_net(name)
        edit(net, run.experiment)
        return {layer.name: layer for layer in net.layer if before.get(layer.name) != layer}

    classifier = changed(gaussian_classifier)
    assert list(classifier) == ["domain_fc4"]
    assert [param.lr_mult for param in classifier["domain_fc4"].param] == [10, 20]
    behind = changed(branch_from_normalised)
    assert list(behind) == ["domain_bn1", {"train": "stem_source", "domains": "domain_pool1"}[name]]
    assert [list(layer.bottom) for layer in behind.values()] == [["conv1"], ["domain_bn1"]]
    fraction = run.experiment.data.recipe.moving_average_fraction
    assert behind["domain_bn1"].batch_norm_param.moving_average_fraction == pytest.approx(fraction)


def test_what_has_no_such_branch_is_refused(tmp_path):
    with pytest.raises(ProgramError, match="dial on mnist, expected mda on mnist"):
        ablate("as it is", make_experiment("digits", "dial"), tmp_path)
    unlabelled = replace(DATASETS["digits"], name="mine", unlabelled=("usps",))
    with pytest.raises(ProgramError, match="mine: the images of usps have no labels, expected a target that can be"):
        ablate("as it is", make_experiment(unlabelled, "mda"), tmp_path)
