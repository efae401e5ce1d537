import json

import pytest
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets import make_nets
from latent_domains.training.ablations import VARIANTS, ablate
from tests.programs import program
from tools import ablate_domains


@pytest.mark.program
@pytest.mark.parametrize("variant", VARIANTS, ids=[variant.name for variant in VARIANTS])
def test_every_variant_trains(variant, tiny_data):
    experiment = make_experiment("digits", "mda", batch_size=8, iterations=2, **variant.options)
    result = ablate(variant, experiment, tiny_data)
    assert list(result["usage_of_batches"]) == [0, 2]
    assert result["usage_of_batches"][0]["images"] == 16
    assert 0 <= result["accuracy"] <= 1
    json.dumps(result)


def test_each_variant_changes_something():
    texts = set()
    for variant in VARIANTS:
        labels = {"mnist": "a", "mnistm": "b"} if "known_share" in variant.options else None
        experiment = make_experiment("digits", "mda", **variant.options)
        sizes = batch_sizes(experiment, published_counts(experiment))
        text = make_nets(experiment, "data", sizes=sizes, test_batch_sizes={"usps": 1}, domain_label_lmdbs=labels)[
            "train"
        ]
        net = text_format.Parse(text, caffe_pb2.NetParameter())
        for edit in variant.edits:
            edit(net)
        texts.add(text_format.MessageToString(net))
    assert len(texts) == len(VARIANTS)


def test_a_wrong_option_shows_before_anything_is_trained(monkeypatch):
    def ablate(*_):
        raise AssertionError("trained")

    monkeypatch.setattr(ablate_domains, "ablate", ablate)
    done = program("ablate_domains", "--k", 1)
    assert (done.returncode, done.stderr) == (
        1,
        "error: lambda_b: got 0.5 for mda with k=1; it balances the domains of mda, k >= 2\n",
    )


@pytest.mark.program
def test_missing_data_is_named(tmp_path):
    with pytest.raises(ProgramError, match="mnist_train: no LMDB there; build it with: "):
        ablate(VARIANTS[0], make_experiment("digits", "mda"), tmp_path / "data")
