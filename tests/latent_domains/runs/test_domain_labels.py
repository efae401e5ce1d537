"""Domain labels of run folders."""

import numpy as np
import pytest

from latent_domains.data import lmdb_io
from latent_domains.experiment.experiment import CONTROLS
from latent_domains.runs.domain_labels import assigned_domains
from latent_domains.runs.domain_usage import domain_usage
from latent_domains.runs.preflight import preflight
from latent_domains.runs.write import write_run
from tests.run_folders import small


@pytest.mark.program
@pytest.mark.parametrize("method", CONTROLS)
def test_a_control_labels_every_source_image(method, tiny_data, tmp_path):
    folders = [write_run(small(method, k=3, seed=seed), tmp_path / str(seed), data=tiny_data) for seed in (0, 1)]
    preflight(folders[0])
    assert folders[0].path.joinpath("domains.prototxt").exists() is False
    found = [{source: lmdb_io.read_labels(lmdb) for source, lmdb in f.domain_labels.items()} for f in folders]
    for labels in found:
        assert list(labels) == ["mnist", "mnistm"]
        assert {len(values) for values in labels.values()} == {48}
        assert set(np.concatenate(list(labels.values()))) == {0, 1, 2}
    if method == "random_w":
        assert all(np.bincount(values).tolist() == [16] * 3 for values in found[0].values())
        assert not np.array_equal(found[0]["mnist"], found[1]["mnist"])
    rows = assigned_domains(folders[0])
    assert {source: values.argmax(axis=1).tolist() for source, values in rows.items()} == {
        source: values.tolist() for source, values in found[0].items()
    }
    usage = domain_usage(rows)
    assert (
        usage.images == 96
        and np.sum(usage.counts) == 96
        and usage.mean_probability == (np.array(usage.counts) / 48).round(6).tolist()
    )


@pytest.mark.program
def test_other_methods_have_no_assigned_domains(tiny_data, tmp_path):
    for method, options in (("mda", {"known_share": 0.5}), ("multi_source", {})):
        assert assigned_domains(write_run(small(method, **options), tmp_path / method, data=tiny_data)) == {}
