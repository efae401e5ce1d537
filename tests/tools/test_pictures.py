"""AlexNet, its fc7 features and ResNet18 trained by the real caffe on real pictures, if only for ten iterations.

The pictures are the sample of PACS under DATA_MIRROR, or drawn ones where there is none.
"""

import json
import math
import os
import re
import shlex
import shutil
from pathlib import Path
from typing import Any

import caffe
import cv2
import numpy as np
import pytest
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.caffe_log import curves
from latent_domains.common.caffe_process import Threads, start
from latent_domains.common.program import ROOT
from latent_domains.data import lmdb_io
from latent_domains.data.build import build
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import Entry, read_tree
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.experiment import METHODS, Experiment, make_experiment
from latent_domains.nets.committed import default_experiments
from latent_domains.runs.preflight import preflight
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.train import loaded_from, train_all
from tests.programs import program
from tests.test_documented_commands import PROGRAMS
from tools import overfit

EACH = 2
"""Pictures of each class and domain."""

DOMAINS = {
    "pacs": PACS.domains,
    "office31": ("amazon", "dslr", "webcam"),
    "office_caltech": ("amazon", "caltech", "dslr", "webcam"),
}
"""The Office sets get pictures of PACS too, and its 7 classes."""

QUICK = {"iterations": 10, "batch_size": 8}


def draw(folder: Path) -> Path:
    """Pictures in folders as PACS has them: colours for domains, sizes of a disc for classes."""
    rng = np.random.default_rng(0)
    for number, domain in enumerate(PACS.domains):
        for label, name in enumerate(PACS.classes):
            (folder / domain / name).mkdir(parents=True)
            for picture in range(EACH):
                image = rng.integers(0, 60 + 40 * number, (227, 227, 3)).astype(np.uint8)
                cv2.circle(image, (110, 110), 20 + 12 * label, (255, 80 * number % 256, 30 * label), -1)
                cv2.imwrite(str(folder / domain / name / f"pic_{picture:03d}.jpg"), image)
    return folder


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a few pictures of each class in every domain of PACS, Office-31 and Office-Caltech."""
    data = tmp_path_factory.mktemp("pictures")
    sample = Path(os.environ.get("DATA_MIRROR", "missing")) / "pacs_sample"
    images = sample if sample.is_dir() else draw(tmp_path_factory.mktemp("drawn"))
    for dataset, domains in DOMAINS.items():
        for domain, of_pacs in zip(domains, PACS.domains, strict=False):
            by_class: dict[int, list[Entry]] = {}
            for entry in read_tree(images / of_pacs)[0]:
                by_class.setdefault(entry.label, []).append(entry)
            few = [entry for entries in by_class.values() for entry in entries[:EACH]]
            order = np.random.default_rng(0).permutation(len(few))
            build([few[i] for i in order], data / dataset / domain, Format((256, 256), encoded="jpg"))
    return data


@pytest.fixture(scope="session")
def features(pictures: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pictures' data folder with the fc7 features of both Office sets, of an AlexNet that was never trained."""
    run = tmp_path_factory.mktemp("alexnet") / "run"
    folder = write_run(make_experiment("office31", "plain", iterations=1, batch_size=2), run, data=pictures)
    train_all([folder], threads=Threads(2, 2))
    for dataset in ("office31", "office_caltech"):
        done = program("extract_features", dataset, "--weights", folder.latest_snapshot().model, "--data", pictures)
        assert done.returncode == 0, done.stderr
    shutil.rmtree(run)
    return pictures


def train(experiment: Experiment, folder: Path, data: Path, *, caffe_test: bool = False) -> dict[str, Any]:
    """Train, check that all numbers are finite and that the record counts every test image; return the record.

    With ``caffe_test``, check too that ``caffe test`` finds the record's accuracy.
    """
    run = write_run(experiment, folder, data=data)
    train_all([run], threads=Threads(2, 2))
    accuracies = caffe_test_accuracy(run) if caffe_test else {}
    shutil.rmtree(run.snapshots)  # AlexNet's are half a gigabyte
    record = json.loads(run.record.read_text())
    log = curves(run.log.read_text().splitlines())
    assert ("train", "loss_class") in log
    assert all(math.isfinite(value) for values in log.values() for value in values.values())
    assert record["iteration"] == 10 and record["test_images"] == 14 * len(experiment.targets)
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
        with start([*arguments, "-iterations", str(batches)], Threads(2, 2)) as child:
            log = child.stdout.read()
        name = run.experiment.accuracy_name(target)
        found[target] = float(re.search(rf"caffe.cpp:\d+\] {name} = (\S+)", log)[1])
    return found


@pytest.mark.parametrize("method", METHODS)
def test_alexnet_trains(method, pictures, tmp_path):
    record = train(make_experiment("office31", method, **QUICK), tmp_path / "run", pictures)
    assert (record["domain_usage"] is not None) == (method == "mda")
    assert record["target_domain_usage"] is None


def test_alexnet_trains_with_known_domain_labels(pictures, tmp_path):
    record = train(make_experiment("office31", "mda", known_share=0.5, **QUICK), tmp_path / "run", pictures)
    assert "loss_domain" in record["last_values"]


def test_alexnet_trains_with_latent_targets(pictures, tmp_path):
    record = train(make_experiment("office_caltech", "mda", **QUICK), tmp_path / "run", pictures, caffe_test=True)
    assert record["domain_usage"]["sources"] == ["amazon", "caltech"]
    assert record["target_domain_usage"]["sources"] == ["webcam", "dslr"]
    assert len(record["target_domain_usage"]["share"]) == 2


@pytest.mark.parametrize("method", METHODS)
def test_fc7_features_train(method, features, tmp_path):
    train(make_experiment("office31_fc7", method, **QUICK), tmp_path / "run", features)


@pytest.mark.parametrize("share", [0.05, 1.0])
def test_fc7_features_train_with_known_domain_labels(share, features, tmp_path):
    train(make_experiment("office31_fc7", "mda", known_share=share, **QUICK), tmp_path / "run", features)


@pytest.mark.parametrize("method", METHODS)
def test_every_method_trains_with_several_targets(method, features, tmp_path):
    train(make_experiment("office_caltech_fc7", method, **QUICK), tmp_path / "run", features)


@pytest.mark.parametrize("targets", [("amazon", "caltech"), ("amazon",)])
def test_fc7_features_train_in_every_setting_of_office_caltech(targets, features, tmp_path):
    train(make_experiment("office_caltech_fc7", "mda", targets=targets, **QUICK), tmp_path / "run", features)


@pytest.mark.parametrize("method", [experiment.method for experiment in default_experiments("pacs")])
def test_resnet18_trains(method, pictures, tmp_path):
    train(make_experiment("pacs", method, **QUICK), tmp_path / "run", pictures, caffe_test=method == "mda")


@pytest.mark.parametrize(
    "options",
    [{"geometry": "caffe", "iter_size": 2, "test_mirror": True}, {"known_share": 0.5}, {"k": 1}],
    ids=lambda options: next(iter(options)),
)
def test_resnet18_trains_by_other_options(options, pictures, tmp_path):
    record = train(make_experiment("pacs", "mda", **QUICK, **options), tmp_path / "run", pictures)
    if "known_share" in options:
        assert "loss_domain" in record["last_values"]


def test_resnet18_trains_on_an_undivided_source(pictures, tmp_path):
    mixture = pictures / "pacs" / "art_painting+cartoon+photo"
    inputs = [pictures / "pacs" / domain for domain in ("art_painting", "cartoon", "photo")]
    assert program("join_lmdbs", *inputs, mixture).returncode == 0
    assert lmdb_io.count(mixture) == 3 * 14
    record = train(make_experiment("pacs", "mda", undivided=True, **QUICK), tmp_path / "run", pictures)
    # The divided LMDBs lie beside it, so it can be told how the branch divided the mixture.
    assert record["domain_usage"]["sources"] == ["art_painting", "cartoon", "photo"]


def test_bvlcs_alexnet_loads_by_name_but_for_its_classifier(pictures, tmp_path):
    """With Caffe's own prototxt of the model, and random weights in the shapes of the real ones."""
    prefix = Path(caffe.__file__).parents[2]
    bvlc = caffe.Net(str(prefix / "models" / "bvlc_alexnet" / "deploy.prototxt"), caffe.TEST)
    weights = tmp_path / "bvlc_alexnet.caffemodel"
    bvlc.save(str(weights))
    run = write_run(make_experiment("office31", "mda", **QUICK), tmp_path / "run", data=pictures)
    loaded, anew, unused = loaded_from(run, weights).split("; ")
    assert loaded == "bvlc_alexnet.caffemodel: loaded: conv1, conv2, conv3, conv4, conv5, fc6, fc7"
    assert "classifier, classifier_mda, classifier_scale" in anew and unused == "not used: fc8"
    net = caffe.Net(str(run.net("train")), caffe.TRAIN, weights=str(weights))
    for name in ("conv1", "conv5", "fc6", "fc7"):
        for ours, theirs in zip(net.params[name], bvlc.params[name], strict=True):
            assert np.array_equal(ours.data, theirs.data), name
    weights.unlink()  # a quarter of a gigabyte


def test_weights_of_the_other_geometry_are_refused(pictures, tmp_path):
    other = make_experiment("pacs", "source_only", iterations=1, batch_size=3, geometry="caffe")
    first = write_run(other, tmp_path / "caffe", data=pictures)
    train_all([first], threads=Threads(2, 2))
    weights = first.latest_snapshot().model
    run = write_run(make_experiment("pacs", "mda", iterations=1, batch_size=4), tmp_path / "run", data=pictures)
    done = program("train", "--threads", "2,2", "--weights", weights, run.path)
    assert done.returncode == 1
    assert "has a res2a_branch1, so its geometry is caffe; that of the run is torch: write the run again" in done.stderr
    fitting = make_experiment("pacs", "mda", iterations=1, batch_size=4, geometry="caffe")
    said = loaded_from(write_run(fitting, tmp_path / "fitting", data=pictures), weights)
    loaded, anew, unused = said.split("; ")
    assert "res2a_branch1, " in loaded and "scale5b_branch2b, classifier" in loaded
    assert "mda2a_branch1" in anew and "domain_fc" in anew and "domain_bn2a_branch1" in anew
    assert "bn2a_branch1" in unused


def test_overfit_takes_what_it_is_given_and_no_less(tmp_path):
    images = draw(tmp_path / "images")
    done = program("overfit", "resnet18", "--images", images, "--runs", tmp_path / "runs")
    assert done.returncode == 1
    assert re.search(r"error: .*images: 2 images of art_painting/dog, expected at least 4", done.stderr)
    done = program("overfit", "resnet18", "--images", images, "--iterations", 9)
    assert done.returncode == 1 and "iterations: got 9, expected at least 10" in done.stderr


@pytest.mark.parametrize(("accuracy", "code"), [(0.9, 1), (0.92, 0)])
def test_overfit_fails_unless_the_pictures_are_known(accuracy, code, tmp_path, monkeypatch):
    """The log is a made one: that the nets do learn the pictures is shown by the command in the README."""

    def train_all(runs, **_):
        (run,) = runs
        assert run.read_solver().display == 1
        half = [accuracy - 0.08, accuracy + 0.08]  # of the two halves of the pictures, in turns
        lines = []
        for i in range(30):
            value = half[i % 2] if i >= 20 else 0.1
            lines += [
                f"I x.cpp:1] Iteration {i} (1 iter/s, 1s/1 iters), loss = 1",
                f"I x.cpp:1]     Train net output #0: source_accuracy = {value}",
            ]
        run.log.write_text("\n".join(lines))

    monkeypatch.setattr(overfit, "train_all", train_all)
    monkeypatch.setattr(overfit, "EACH", EACH)
    monkeypatch.setattr("latent_domains.training.overfit.EACH", EACH)
    done = program("overfit", "resnet18", "--images", draw(tmp_path / "images"), "--runs", tmp_path / "runs")
    assert done.returncode == code, done.stderr
    assert f"{100 * accuracy:.1f} % of the training pictures" in done.stdout


def test_a_run_on_the_whole_set_has_the_committed_solver(tmp_path):
    """Where no LMDB is there yet, the published numbers count, as for the committed files."""
    run = write_run(make_experiment("office31", "mda"), tmp_path / "run", data=tmp_path / "data", solver_mode="GPU")
    committed = text_format.Parse((ROOT / "solvers/office31.prototxt").read_text(), caffe_pb2.SolverParameter())
    solver = run.read_solver()
    for field in ("train_net", "test_net", "snapshot_prefix"):
        solver.ClearField(field)
        committed.ClearField(field)
    assert solver == committed


def test_official_splits_train_on_their_train_and_test_on_their_test_lists(pictures, tmp_path):
    for domain in PACS.domains:
        for split in ("train", "test"):
            shutil.copytree(pictures / "pacs" / domain, tmp_path / "data" / "pacs_splits" / f"{domain}_{split}")
    run = write_run(make_experiment("pacs_splits", "mda"), tmp_path / "run", data=tmp_path / "data")
    preflight(run)
    assert {path.name for path in run.train_lmdbs.values()} == {f"{domain}_train" for domain in PACS.domains}
    assert [path.name for path in run.test_lmdbs.values()] == ["sketch_test"]


def documented(page: str) -> list[str]:
    """The arguments of the commands on a page of docs/ that write a run."""
    here = [command for name, command in PROGRAMS if name == page]
    return [command.removeprefix("tools.write_run ") for command in here if command.startswith("tools.write_run ")]


@pytest.mark.parametrize("command", [*documented("experiments.md"), *documented("several_gpus.md")])
def test_documented_commands_write_runs(command, pictures, tmp_path):
    """On data that is there, and on data that is not there yet."""
    arguments = [word for word in shlex.split(command) if not word.startswith("runs/")]
    done = program("write_run", tmp_path / "run", *arguments, "--data", pictures)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run" / "solver.prototxt").is_file()


def test_documented_commands_were_found():
    assert len(documented("experiments.md")) >= 6 and documented("several_gpus.md")
