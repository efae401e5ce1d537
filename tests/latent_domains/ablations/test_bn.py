"""Statistics of parts, on features of which it is known what they should bring."""

import numpy as np
import pytest

from latent_domains.ablations import bn
from latent_domains.ablations.bn import Pictures, measure, table_of
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.nets.lite0 import HEAD
from latent_domains.runs.run_folder import RunFolder

LITE0 = DATASETS["pacs_lite0"]
EACH = 40


class Shifted:
    """Two classes that lie apart by less than the domains do; "recomputed" statistics take the part's mean away."""

    def __init__(self) -> None:
        self.parts: list[list[int]] = []

    def rows(self, domain: str) -> np.ndarray:
        return np.column_stack([np.full(EACH, LITE0.domains.index(domain)), np.arange(EACH)])

    def labels(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, 1] % 2

    def features(self, rows: np.ndarray) -> np.ndarray:
        noise = np.random.default_rng(0).normal(size=(len(LITE0.domains), EACH, HEAD))
        found = 0.3 * noise[tuple(rows.T)]
        found += rows[:, 1:] % 2 + 20.0 * rows[:, :1]
        return found

    def recomputed(self, rows: np.ndarray) -> np.ndarray:
        self.parts.append(np.bincount(rows[:, 0], minlength=len(LITE0.domains)).tolist())
        found = self.features(rows)
        return found - found.mean(axis=0)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> RunFolder:
    """A run that says of every picture which of two latent domains it is in: art apart from cartoons and photos."""
    experiment = make_experiment("pacs_lite0", "mda", k=2, seed=3)
    said = {
        source: np.tile([1.0, 0.0] if source == "art_painting" else [0.0, 1.0], (EACH, 1))
        for source in experiment.sources
    }
    monkeypatch.setattr(bn, "source_probabilities", lambda *_, **__: said)
    monkeypatch.setattr(RunFolder, "final_snapshot", lambda _: None)
    return RunFolder(tmp_path, experiment, tmp_path)


def test_each_part_has_its_own_statistics(folder):
    pictures = Shifted()
    found = measure(folder, pictures, 10, 24)
    assert found["images"] == {"art_painting": 10, "cartoon": 10, "photo": 10, "sketch": 24}
    assert 0 < found["latent_nmi"] < 1
    one, true, latent = pictures.parts[0], pictures.parts[2:5], pictures.parts[6:8]
    assert one == [10, 10, 10, 0] and pictures.parts[1] == [0, 0, 0, 24]
    assert sorted(true) == [[0, 0, 10, 0], [0, 10, 0, 0], [10, 0, 0, 0]]
    assert sorted(latent) == [[0, 10, 10, 0], [10, 0, 0, 0]]
    assert [sum(part) for part in pictures.parts[9:11]] == [15, 15]
    accuracy = found["accuracy"]
    assert accuracy["every BN, true domains"] == accuracy["final features, true domains"] == 1.0
    assert accuracy["ImageNet's statistics"] < 0.8, "the target lies beyond all sources"
    assert measure(folder, Shifted(), 10, 24) == found


def test_a_run_without_a_branch_is_refused(tmp_path):
    folder = RunFolder(tmp_path, make_experiment("pacs_lite0", "dial"), tmp_path)
    with pytest.raises(ProgramError, match="dial has no branch that predicts domains: expected mda"):
        measure(folder, Shifted(), 10, 24)


def test_the_table_compares_with_one_part_seed_by_seed(folder):
    def result(seed: int, target: str, one: float, true: float) -> dict:
        accuracy = {"ImageNet's statistics": 0.5, "every BN, one part": one, "every BN, true domains": true}
        return {"experiment": {"seed": seed, "targets": [target]}, "accuracy": accuracy}

    text = table_of(
        [result(seed, target, 0.5 + seed / 10, 0.6 + seed / 10) for seed in (0, 1) for target in ("photo", "sketch")]
    )
    lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines()]
    assert lines[0] == ["statistics", "photo", "sketch", "mean", "less one part, 95 % interval"]
    assert lines[3] == ["every BN, one part", *["55.0 ± 7.1"] * 3, "0.00 (0.00 to 0.00)"]
    assert lines[4] == ["every BN, true domains", *["65.0 ± 7.1"] * 3, "+10.00 (+10.00 to +10.00)"]


def test_runs_of_one_target_and_seed_are_refused(tmp_path):
    runs = [
        RunFolder(tmp_path / name, make_experiment("pacs_lite0", "mda", k=k, seed=seed), tmp_path)
        for name, k, seed in (("a", 2, 0), ("b", 2, 1), ("c", 3, 0))
    ]
    bn.check_apart(runs[:2])
    with pytest.raises(ProgramError, match=r"/c: target sketch and seed 0, as .*/a, expected each pair once"):
        bn.check_apart(runs)


def test_features_and_pictures_must_belong_together(tmp_path):
    with pytest.raises(ProgramError, match="dataset office31_fc7: expected features of EfficientNet-Lite0"):
        Pictures(DATASETS["office31_fc7"], tmp_path)
    with pytest.raises(ProgramError, match="photo"):
        Pictures(LITE0, tmp_path).rows("photo")
    with lmdb_io.create(tmp_path / "pacs" / "photo") as (writer, _):
        writer.put("a", lmdb_io.image_datum(np.zeros((256, 256, 3), np.uint8), 1))
    with lmdb_io.create(tmp_path / "pacs_lite0" / "photo") as (writer, _):
        writer.put("a", lmdb_io.Datum(channels=1360, height=1, width=1, float_data=np.ones(1360), label=2))
    with pytest.raises(ProgramError, match=r"pacs_lite0/photo: labels that are not those of .*pacs/photo"):
        Pictures(LITE0, tmp_path).rows("photo")
