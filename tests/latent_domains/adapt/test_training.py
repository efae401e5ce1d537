"""The training of an adaptation: its weights, its run folder, and how long it takes, in numbers and in words."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from caffe.proto import caffe_pb2

from latent_domains.adapt import training
from latent_domains.adapt.folder import Paths
from latent_domains.adapt.training import (
    check_begun,
    duration_text,
    estimate_seconds,
    measure_iteration,
    open_run,
    starting_weights,
    train,
)
from latent_domains.common.files import sha256
from latent_domains.common.program import ProgramError
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch import conversion
from latent_domains.experiment.datasets import DATASETS, from_json
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.experiment.networks import BACKBONES, NETWORKS, PRETRAINED, whose
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.latent_domains.adapt.adaptations import adaptation, begin


def experiment(network: str, method: str = "mda") -> Experiment:
    """Three sources and a target."""
    name = {"resnet18": "pacs", "alexnet": "office_caltech", "mnist": "digits"}[network]
    return make_experiment(DATASETS[name], method, k=3 if method == "mda" else None)


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """An empty folder in place of data/weights, and no place to fetch anything from."""
    monkeypatch.setattr(training, "FOLDER", tmp_path / "weights")
    for name, found in PRETRAINED.items():
        if found.file.urls:
            unreachable = replace(found.file, urls=("http://127.0.0.1:9/x",))
            monkeypatch.setitem(PRETRAINED, name, replace(found, file=unreachable))
    monkeypatch.setattr("latent_domains.data.published_file.time.sleep", lambda seconds: None)
    for name in ("DATA_MIRROR", "WEIGHTS_MIRROR"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "weights"


def test_starting_weights_at_random_and_of_a_caffemodel(tmp_path):
    assert starting_weights("none", experiment("resnet18"), tmp_path) is None
    assert starting_weights(None, experiment("mnist"), tmp_path) is None
    mine = tmp_path / "my.caffemodel"
    mine.write_bytes(caffe_pb2.NetParameter(name="training looks whether it fits").SerializeToString())
    assert starting_weights(str(mine), experiment("alexnet"), tmp_path) == mine
    (tmp_path / "there.pth").touch()
    (tmp_path / "bad.caffemodel").write_bytes(b"bad")
    for name, message in (
        ("none.caffemodel", "none.caffemodel: no such file, expected weights to begin with, or none"),
        ("there.pth", "there.pth: expected a caffemodel for alexnet"),
        ("bad.caffemodel", "bad.caffemodel: 3 bytes that are not a caffemodel, or a truncated one"),
    ):
        with pytest.raises(ProgramError, match=message):
            starting_weights(str(tmp_path / name), experiment("alexnet"), tmp_path)


def test_starting_weights_of_a_head_on_features_are_random_and_its_backbone_is_looked_at(tmp_path, monkeypatch):
    lite0 = make_experiment("pacs_lite0", "mda")
    assert starting_weights(None, lite0, tmp_path) is None
    with pytest.raises(ProgramError, match="--weights none: the features of lite0 are those of its own weights"):
        starting_weights("none", lite0, tmp_path)
    monkeypatch.setitem(BACKBONES, "lite0", replace(LITE0.weights[0].file, hashes={"sha256": "0" * 64}))
    with pytest.raises(ProgramError, match=rf"^.*/{LITE0.weights[0].file.name}: .*sha256.*{'0' * 64}"):
        starting_weights(None, lite0, tmp_path)


@pytest.mark.parametrize(
    ("method", "file"),
    [
        ("mda", "resnet18_mda4.caffemodel"),
        ("dial", "resnet18_mda2.caffemodel"),
        ("source_only", "resnet18.caffemodel"),
        ("mda", "resnet18_cntk_mda4.caffemodel"),
    ],
)
def test_starting_weights_that_are_converted_are_those_for_the_number_of_domains(folder, tmp_path, method, file):
    folder.mkdir()
    (folder / file).write_bytes(b"converted")
    assert starting_weights(None, experiment("resnet18", method), tmp_path) == folder / file, "no note says other"
    note = folder / f"{whose(file).name}.converted.json"
    entry = {"sha256": sha256(folder / file), "checkpoint": whose(file).file.hashes["sha256"]}
    note.write_text(json.dumps({file: entry}))
    assert starting_weights(None, experiment("resnet18", method), tmp_path) == folder / file
    (folder / file).write_bytes(b"other")
    with pytest.raises(ProgramError, match=rf"{file}: sha256 \w+, expected {entry['sha256']} as when it was converted"):
        starting_weights(None, experiment("resnet18", method), tmp_path)
    note.write_text(json.dumps({file: {"sha256": sha256(folder / file), "checkpoint": "0"}}))
    with pytest.raises(ProgramError, match="--weights FILE"):  # it would be made of ImageNet's
        starting_weights(None, experiment("resnet18", method), tmp_path)


@pytest.mark.parametrize(("network", "file"), [("resnet18", "resnet18-f37072fd.pth"), ("alexnet", "bvlc_alexnet")])
def test_starting_weights_without_a_network_say_what_can_be_done(folder, tmp_path, network, file):
    with pytest.raises(ProgramError) as error:
        starting_weights(None, experiment(network), tmp_path)
    said = str(error.value)
    assert f"{folder}/{file}" in said and "--weights FILE" in said and "--weights none" in said


def test_starting_weights_convert_a_checkpoint_once(tmp_path, monkeypatch):
    calls = []

    def convert(checkpoint: Path, out: Path, options: ConverterOptions, **more: object) -> None:
        calls.append((checkpoint, out, options, more))
        out.parent.mkdir()
        for name in ("resnet18.caffemodel", "resnet18_mda4.caffemodel"):
            out.with_name(name).write_bytes(b"converted")

    monkeypatch.setattr(conversion, "convert", convert)
    checkpoint = tmp_path / "mine.pth"
    checkpoint.touch()
    for _ in range(2):
        found = starting_weights(str(checkpoint), experiment("resnet18"), tmp_path)
        assert found == tmp_path / "e3b0c442" / "resnet18_mda4.caffemodel"
    more = {"head": False, "num_domains": [4], "network": NETWORKS["resnet18"]}
    assert calls == [(checkpoint, found.with_name("resnet18"), ConverterOptions(force=True), more)]
    note = found.with_name("resnet18.converted.json")
    assert json.loads(note.read_text())[found.name] == {"sha256": sha256(found), "checkpoint": sha256(checkpoint)}
    found.write_bytes(b"other")
    with pytest.raises(ProgramError, match=r"resnet18_mda4\.caffemodel: sha256 \w+, expected \w+ as when it was"):
        starting_weights(str(checkpoint), experiment("resnet18"), tmp_path)
    note.write_text("{")
    with pytest.raises(ProgramError, match=r"resnet18\.converted\.json: not valid JSON"):
        starting_weights(str(checkpoint), experiment("resnet18"), tmp_path)


@pytest.mark.parametrize("named", [True, False])
def test_check_begun_compares_with_the_file_that_training_began_from(folder, tmp_path, capsys, named):
    """Other weights that are at hand by now do not count, nothing is fetched, and what is gone is not needed."""
    file = (tmp_path if named else folder) / "resnet18_cntk_mda4.caffemodel"
    folder.mkdir()
    (folder / "resnet18_mda4.caffemodel").write_bytes(b"torchvision's")
    file.write_bytes(caffe_pb2.NetParameter(name="first").SerializeToString())
    run = RunFolder(tmp_path / "run", experiment("resnet18"), tmp_path)
    run.path.mkdir()
    run.training.write_text(json.dumps({"seconds": 1.0, "weights": {"file": file.name, "sha256": sha256(file)}}))
    option = str(file) if named else None
    check_begun(option, run, tmp_path)
    assert capsys.readouterr().out == ""
    file.write_bytes(caffe_pb2.NetParameter(name="other").SerializeToString())
    with pytest.raises(
        ProgramError, match=rf"run began from {file.name} \(sha256 .*, expected {file} \(sha256 .* --force "
    ):
        check_begun(option, run, tmp_path)
    file.unlink()
    check_begun(option, run, tmp_path)
    said = f"note: {file} was removed, so it cannot be compared with the weights that the training started from\n"
    assert capsys.readouterr().out == said


def test_open_run_describes_the_dataset_of_the_run(tiny_data, tmp_path):
    """Not that of a call with other options, which ended before there was a run."""
    paths = Paths(tmp_path)
    paths.dataset.mkdir(parents=True)
    with pytest.raises(ProgramError, match=r"dataset\.json: a folder is there, expected to write a file"):
        open_run(adaptation(tmp_path), make_experiment("digits", "dial"))
    assert not paths.run.exists()
    ours = Paths(tmp_path / "ours")
    ours.dataset.parent.mkdir(parents=True)
    ours.dataset.write_text("of other options")
    (ours.data / "digits").symlink_to(tiny_data / "digits")
    experiment = make_experiment("digits", "source_only", iterations=1)
    folder = open_run(adaptation(ours.root), experiment)
    assert from_json(json.loads(ours.dataset.read_text())) == experiment.data
    assert open_run(adaptation(ours.root), experiment) == folder
    with pytest.raises(ProgramError, match=r"another experiment: method is 'source_only' there, 'dial' here.*--force"):
        open_run(adaptation(ours.root), make_experiment("digits", "dial"))


@pytest.mark.program
def test_train_tells_what_is_wrong_with_a_run_before_an_iteration_is_measured(tiny_data, tmp_path):
    folder = begin(tmp_path / "task", tiny_data)
    (folder.data_folder / "digits").unlink()
    with pytest.raises(ProgramError, match="no LMDB there; build it with"):
        train(adaptation(tmp_path / "task"), folder, None)


def test_train_refuses_a_finished_run_of_other_records_with_advice_for_adapt(tiny_data, tmp_path):
    folder = begin(tmp_path / "task", tiny_data)
    name = folder.experiment.data.train_lmdb(folder.experiment.sources[0])
    folder.training.write_text(json.dumps({"seconds": 1.0, "lmdbs": {name: "of yesterday"}}))
    folder.record_file.touch()
    with pytest.raises(ProgramError, match=r"was of yesterday, is .*; choose another --out, or pass --force"):
        train(adaptation(tmp_path / "task"), folder, None)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0.4, "0 s"), (99, "99 s"), (100, "2 min"), (5940, "99 min"), (10080, "2 h 48 min"), (360000, "100 h 0 min")],
)
def test_duration_text(seconds, words):
    assert duration_text(seconds) == words


@pytest.mark.program
def test_estimate_seconds_counts_iterations_tests_and_the_evaluation(tiny_data, tmp_path):
    experiment = make_experiment("digits", "mda", batch_size=10, iter_size=2, known_share=0.5)
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    assert folder.batch_rows() == {"mnist": 10, "mnistm": 10, "usps": 10}, "domain labels are no images"
    # 250 iterations of 2 seconds for 60 images; 3 tests and the evaluation of 30 images at a third of that
    assert estimate_seconds(folder, 250, 2.0) == pytest.approx(500 + 4 * 30 * 2 / 60 / 3)
    threads, seconds = measure_iteration(folder, 1)
    assert threads == 1 and 0.001 < seconds < 60
