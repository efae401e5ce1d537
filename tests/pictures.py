"""A few real pictures in LMDBs, and short trainings on them.

The pictures are the sample of PACS under DATA_MIRROR, or drawn ones where there is none.
"""

import json
import math
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest

from latent_domains.common.caffe_process import curves, start
from latent_domains.data import lmdb_io
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import Entry, read_class_tree
from latent_domains.data.image_lmdb import build
from latent_domains.data.preprocessing import stored_side
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.programs import program
from tests.run_folders import edit, initial_weights
from tests.training import train_here

EACH = 2
"""Pictures of each class and domain in a data folder."""

DRAWN = 5
"""Pictures of each class and domain where there is no sample."""

DOMAINS = {
    "pacs": PACS.domains,
    "office31": ("amazon", "dslr", "webcam"),
    "office_caltech": ("amazon", "caltech", "dslr", "webcam"),
}
"""The Office sets get pictures of PACS too, and its 7 classes."""

QUICK = {"iterations": 2, "batch_size": 8}


def draw(folder: Path, each: int = DRAWN) -> Path:
    """``each`` pictures a folder, in folders as PACS has them: colours for domains, sizes of a disc for classes."""
    rng = np.random.default_rng(0)
    for number, domain in enumerate(PACS.domains):
        for label, name in enumerate(PACS.classes):
            (folder / domain / name).mkdir(parents=True)
            for picture in range(each):
                image = rng.integers(0, 60 + 40 * number, (227, 227, 3)).astype(np.uint8)
                cv2.circle(image, (110, 110), 20 + 12 * label, (255, 80 * number % 256, 30 * label), -1)
                cv2.imwrite(str(folder / domain / name / f"{domain}_{picture:03d}.jpg"), image)
    return folder


def sample(drawn: Path) -> Path:
    """The sample of PACS by domain and class; where it is not at hand, pictures drawn in the folder ``drawn``."""
    folder = Path(os.environ.get("DATA_MIRROR", "missing")) / "pacs_sample"
    return folder if folder.is_dir() else draw(drawn)


def few(pictures: Iterable[Entry], each: int) -> list[Entry]:
    """The first ``each`` of the pictures of every class, in a random order."""
    by_class: dict[int, list[Entry]] = {}
    for entry in pictures:
        by_class.setdefault(entry.label, []).append(entry)
    chosen = [entry for entries in by_class.values() for entry in entries[:each]]
    return [chosen[i] for i in np.random.default_rng(0).permutation(len(chosen))]


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a few pictures of each class in every domain of PACS, Office-31 and Office-Caltech."""
    data = tmp_path_factory.mktemp("pictures")
    images = sample(tmp_path_factory.mktemp("drawn"))
    for dataset, domains in DOMAINS.items():
        for domain, of_pacs in zip(domains, PACS.domains, strict=False):
            chosen = few(read_class_tree(images / of_pacs).entries(PACS.classes), EACH)
            build(chosen, data / dataset / domain, Format((256, 256), encoded="jpg"))
    return data


@pytest.fixture(scope="session")
def small_pictures(pictures: Path) -> Path:
    """The pictures' data folder with those of PACS for nets that see squares of 64."""
    side = stored_side(64)
    for domain in PACS.domains:
        with lmdb_io.create(pictures / "pacs_64" / domain) as (writer, _):
            for key, datum in lmdb_io.read(pictures / "pacs" / domain):
                image = cv2.resize(cv2.imdecode(np.frombuffer(datum.data, np.uint8), cv2.IMREAD_COLOR), (side, side))
                writer.put(lmdb_io.record_name(key), lmdb_io.image_datum(image, datum.label))
    return pictures


@pytest.fixture(scope="session")
def features(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures' data folder with the fc7 features of both Office sets, of an AlexNet that was never trained."""
    run = tmp_path_factory.mktemp("alexnet") / "run"
    folder = write_run(make_experiment("office31", "plain", iterations=1, batch_size=4), run, data=pictures)
    weights = initial_weights(folder)
    for dataset in ("office31", "office_caltech"):
        done = program("extract_features", dataset, "--weights", weights, "--data", pictures)
        assert done.returncode == 0, done.stderr
    weights.unlink()  # a quarter of a gigabyte
    return pictures


@pytest.fixture(scope="session")
def lite0_features(pictures: Path) -> Path:
    """The pictures' data folder with EfficientNet-Lite0's features of PACS."""
    done = program("extract_features", "pacs", "--backbone", "lite0", "--data", pictures)
    assert done.returncode == 0, done.stderr
    return pictures


@pytest.fixture(scope="session")
def styles(lite0_features: Path) -> Path:
    """The same with statistics of style of PACS's pictures, and a mixture of its sources."""
    done = program("extract_features", "pacs", "--style", "--data", lite0_features)
    assert done.returncode == 0, done.stderr
    data = DATASETS["pacs_lite0"]
    lmdbs = [lite0_features / data.train_lmdb(part) for part in (*data.sources, "+".join(data.sources))]
    done = program("join_lmdbs", *lmdbs)
    assert done.returncode == 0, done.stderr
    return lite0_features


def train(experiment: Experiment, folder: Path, data: Path, *, caffe_test: bool = False) -> dict[str, Any]:
    """Train, check that all numbers are finite and that the record counts every test image; return the record.

    With ``caffe_test``, check too that ``caffe test`` finds the record's accuracy.
    """
    run = write_run(experiment, folder, data=data)
    edit(run.solver, "display: 10", "display: 1")
    train_here(run)
    accuracies = caffe_test_accuracy(run) if caffe_test else {}
    shutil.rmtree(run.snapshots)  # AlexNet's are half a gigabyte
    record = json.loads(run.record_file.read_text())
    log = curves(run.log.read_text().splitlines())
    assert len(log["train", "loss_class"]) == experiment.recipe.iterations
    assert all(math.isfinite(value) for values in log.values() for value in values.values())
    assert record["iteration"] == experiment.recipe.iterations and record["test_images"] == 14 * len(experiment.targets)
    for target in experiment.targets:
        if caffe_test:
            assert accuracies[target] == pytest.approx(record["targets"][target]["accuracy"], abs=1e-5)
    correct = sum(values["accuracy"] * values["test_images"] for values in record["targets"].values())
    assert record["accuracy"] == pytest.approx(correct / record["test_images"])
    return record


def caffe_test_accuracy(run: RunFolder) -> dict[str, float]:
    """Accuracy on each target by ``caffe test``."""
    found = {}
    for target, (_, batches) in run.test_batches().items():
        arguments = ["test", "-model", str(run.test_nets[target]), "-weights", str(run.latest_snapshot().model)]
        with start([*arguments, "-iterations", str(batches)], 1) as child:
            log = child.stdout.read()
        name = run.experiment.task.accuracy_name(target)
        found[target] = float(re.search(rf"caffe.cpp:\d+\] {name} = (\S+)", log)[1])
    return found
