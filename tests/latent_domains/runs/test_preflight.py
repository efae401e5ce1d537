"""A record says when the data was not all there."""

from dataclasses import replace

from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.preflight import incompleteness
from latent_domains.runs.run_folder import RunFolder
from tests.fixtures import TEST, TRAIN


def test_what_differs_from_the_published_numbers(tiny_data, tmp_path):
    folder = RunFolder(tmp_path, make_experiment("digits", "mda", sources=("mnist",)), tiny_data)
    assert incompleteness(folder) == (
        f"mnist_train has {TRAIN} images, published 60000; usps_train has {TRAIN} images, published 7291; "
        f"usps_test has {TEST} images, published 2007"
    )
    source_only = make_experiment("digits", "source_only", sources=("mnist",))
    assert "usps_train" not in incompleteness(RunFolder(tmp_path, source_only, tiny_data))


def test_nothing_differs(tiny_data, tmp_path):
    counts = dict.fromkeys(("mnist", "mnistm", "usps"), TRAIN)
    tests = dict.fromkeys(counts, TEST)
    data = replace(DATASETS["digits"], counts=counts, test_counts=tests)
    assert incompleteness(RunFolder(tmp_path, make_experiment(data, "mda"), tiny_data)) is None
