"""The real data sets where they are at hand, a tiny one in real LMDBs and runs on it; a server of bad manners."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ROOT
from latent_domains.data import lmdb_io
from latent_domains.data.join import join
from latent_domains.domains import statistics
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.server import Server, serving
from tests.training import train_here

TRAIN, TEST, STYLE_SIZE = 48, 30, 12
"""Records of each training and of each test LMDB; numbers of a record of statistics of style."""


@pytest.fixture(scope="session", autouse=True)
def _statistics_of_these_tests(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Statistics of pictures that a session of tests makes are kept for it alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "FOLDER", tmp_path_factory.getbasetemp() / "statistics")
        yield


@pytest.fixture(scope="session")
def tiny_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with the tiny digits."""
    return write_tiny_digits(tmp_path_factory.mktemp("data"))


def write_tiny_digits(folder: Path) -> Path:
    """Write digits/{mnist,mnistm,usps}_{train,test}: handwritten digits, each domain of another look.

    digits_style/{mnist,mnistm}_train are numbers as statistics of style are: class effect + domain effect + noise.
    """
    from sklearn.datasets import load_digits  # seconds, which not every test has

    digits = load_digits()
    images = np.kron(digits.images, np.ones((3, 3))).astype(np.float64) * 255 / 16
    images = np.pad(images, ((0, 0), (2, 2), (2, 2)))
    rng = np.random.default_rng(0)
    looks = {
        "mnist": lambda x: np.repeat(x[..., None], 3, axis=-1),
        "mnistm": lambda x: np.abs(rng.integers(0, 256, (1, 1, 3)) - x[..., None]),
        "usps": lambda x: 0.6 * np.repeat(x[..., None], 3, axis=-1) + 40,
    }
    for domain, look in looks.items():
        order = rng.permutation(len(images))
        for split, chosen in (("train", order[:TRAIN]), ("test", order[TRAIN:][:TEST])):
            with lmdb_io.create(folder / "digits" / f"{domain}_{split}") as (writer, _):
                for i in chosen:
                    image = look(images[i]).clip(0, 255).astype(np.uint8)
                    writer.put(f"{domain}{i}", lmdb_io.image_datum(image, int(digits.target[i])))
    of_class = rng.normal(size=(10, STYLE_SIZE))
    for domain, of_domain in (("mnist", 2), ("mnistm", -2)):
        digits_lmdb = folder / "digits" / f"{domain}_train"
        names, labels = list(lmdb_io.record_names(digits_lmdb)), lmdb_io.read_labels(digits_lmdb)
        rows = of_class[labels] + of_domain * np.eye(1, STYLE_SIZE) + 0.3 * rng.normal(size=(len(labels), STYLE_SIZE))
        with lmdb_io.create(folder / "digits_style" / digits_lmdb.name) as (writer, _):
            for name, row, label in zip(names, rows.astype(np.float32), labels, strict=True):
                writer.put(name, lmdb_io.feature_datum(row, int(label)))
    return folder


def tiny_table(rows: str) -> str:
    """The text of a table of these rows (YAML) on the tiny digits."""
    return f"""
title: "Tiny"
source: Table 1
dataset: digits
seeds: [0]
columns:
  - {{name: M-Mm to U, sources: [mnist, mnistm], targets: [usps]}}
rows:
{rows}"""


@pytest.fixture
def mixed(tiny_data: Path, tmp_path: Path) -> Path:
    """A data folder of a test's own: the tiny digits, both sources in one LMDB, and a mixture of 48 and 12 images."""
    data = shutil.copytree(tiny_data, tmp_path / "data")
    inputs = [data / "digits" / f"{source}_train" for source in ("mnist", "mnistm")]
    join(inputs, data / "digits" / "mnist+mnistm_train")
    join(inputs, data / "digits" / "mnist80+mnistm20_train", shares=(80, 20))
    return data


@pytest.fixture(scope="session")
def trained(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """mDA, k = 3, after four iterations on the tiny digits, with a snapshot in between.

    Its branch has no BN, so that it can be asked before it was trained.
    """
    experiment = make_experiment("digits", "mda", k=3, seed=5, branch_norm="none", batch_size=8, iterations=4)
    run = write_run(experiment, tmp_path_factory.mktemp("mda") / "run", data=tiny_data)
    run.solver.write_text(run.solver.read_text().replace("snapshot: 500", "snapshot: 2"))
    train_here(run)
    return run


@pytest.fixture
def server() -> Iterator[Server]:
    """What answers downloads in tests, as their path says."""
    with serving() as server:
        yield server


@pytest.fixture(scope="session")
def mirror() -> Path:
    """A mirror folder with the real MNIST, USPS and BSDS500; skips the test where there is none."""
    folder = Path(os.environ.get("DATA_MIRROR") or ROOT.parent / "shared" / "data")
    if not (folder / "mnist").is_dir():
        pytest.skip(f"needs the real data sets: no mnist in {folder} (DATA_MIRROR may name another folder)")
    return folder
