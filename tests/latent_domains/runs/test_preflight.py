"""What is wrong with a run is found before it is trained."""

import json
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.caffe_process import environment
from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.join import join
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.preflight import _check_imports, check_data, check_meaning, incompleteness, preflight
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.fixtures import TEST, TRAIN
from tests.run_folders import edit, small

pytestmark = pytest.mark.program


def with_lmdb(data: Path, copy: Path, name: str, images: list[np.ndarray], labels: list[int]) -> Path:
    """A copy of a data folder with one LMDB written anew."""
    shutil.copytree(data, copy)
    with lmdb_io.create(copy / "digits" / name, force=True) as (writer, _):
        for image, label in zip(images, labels, strict=True):
            writer.put("x", lmdb_io.image_datum(image, label))
    return copy


@pytest.mark.parametrize(
    ("name", "shape", "label", "message"),
    [
        ("mnist_train", (28, 28, 1), 3, "mnist_train: images are 1×28×28, expected 3×28×28"),
        ("usps_train", (16, 16, 3), 3, "usps_train: images are 3×16×16, expected 3×28×28"),
        ("mnistm_train", (28, 28, 3), 10, "mnistm_train: labels are 10 to 10, expected 0 to 9"),
        ("usps_test", (28, 28, 3), -1, "usps_test: labels are -1 to -1, expected 0 to 9"),
    ],
)
def test_preflight_names_data_that_does_not_fit(name, shape, label, message, tiny_data, tmp_path):
    images = [np.zeros(shape, np.uint8)] * TEST
    data = with_lmdb(tiny_data, tmp_path / "data", name, images, [label] * TEST)
    folder = write_run(small(), tmp_path / "run", data=data)
    with pytest.raises(ProgramError) as error:
        preflight(folder)
    assert message in str(error.value)


def test_preflight_does_not_ask_for_target_labels_in_training(tiny_data, tmp_path):
    images = [np.zeros((28, 28, 3), np.uint8)] * TEST
    data = with_lmdb(tiny_data, tmp_path / "data", "usps_train", images, [-1] * TEST)
    preflight(write_run(small(), tmp_path / "run", data=data))


def test_preflight_sees_labels_of_other_classes(tiny_data, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(tiny_data, data)
    run = write_run(small(), tmp_path / "run", data=data)
    names = [str(label) for label in range(10)]
    (data / "digits" / "mnist_train" / "classes.txt").write_text("\n".join(names))
    (data / "digits" / "usps_train" / "classes.txt").write_text("of no use: training sees no labels of the target")
    check_data(run)
    (data / "digits" / "usps_test" / "classes.txt").write_text("\n".join(names[::-1]))
    with pytest.raises(ProgramError, match=r"usps_test/classes\.txt: other classes than in .*mnist_train/classes\.txt"):
        check_data(run)


def test_check_meaning_features_were_made_in_one_way(tmp_path):
    lmdbs = [tmp_path / name for name in ("amazon", "dslr", "webcam")]
    for lmdb, weights in zip(lmdbs, ("aa", None, "bb"), strict=True):
        lmdb.mkdir()
        recipe = {"backbone": "alexnet", "part": lmdb.name, "images": 3, "weights": weights}
        if weights:
            (lmdb / "source.json").write_text(json.dumps({"recipe": recipe, "records": 3}))
    check_meaning(lmdbs[:2], lmdbs[:2], DATASETS["office31_fc7"])
    message = f"{lmdbs[2]}: features made with weights 'bb' instead of 'aa', as those of {lmdbs[0]} are"
    with pytest.raises(ProgramError, match=re.escape(message)):
        check_meaning(lmdbs, lmdbs, DATASETS["office31_fc7"])
    message = f"{lmdbs[0]}: features of alexnet, but the run is one on those of lite0; build it with: "
    with pytest.raises(ProgramError, match=message):
        check_meaning(lmdbs[:1], [], DATASETS["pacs_lite0"])


def test_preflight_says_how_to_build_what_is_missing_and_sees_a_test_set_of_another_size(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tmp_path / "data")  # written before the data was there
    message = "mnist_train: no LMDB there; build it with: python -m tools.get_data digits"
    with pytest.raises(ProgramError, match=re.escape(message)):
        preflight(folder)
    shutil.copytree(tiny_data, tmp_path / "data")
    with pytest.raises(ProgramError, match=f"usps_test: {TEST} images, but a test pass of .*run covers 2007"):
        preflight(folder)


def test_preflight_sees_lmdbs_that_were_made_of_others_than_there_are_now(tiny_data, tmp_path):
    """A mixture and, drawn when the run was written, domain labels: of the same number of other images."""
    data = tmp_path / "data"
    shutil.copytree(tiny_data, data)
    digits = data / "digits"
    join([digits / "mnist_train", digits / "mnistm_train"], digits / "mnist+mnistm_train")
    mixed = write_run(small(undivided=True), tmp_path / "mixed", data=data)
    labelled = write_run(small(known_share=0.5), tmp_path / "labelled", data=data)
    preflight(mixed)
    preflight(labelled)
    images = [datum for _, datum in lmdb_io.read(digits / "mnistm_train")]
    with lmdb_io.create(digits / "mnistm_train", force=True) as (writer, _):
        for number, datum in enumerate(reversed(images)):
            writer.put(str(number), datum)
    said = r"mnist\+mnistm_train: it was made of other records than are now in .*mnistm_train; build it wi"
    with pytest.raises(ProgramError, match=rf"{said}th: python -m tools\.join_lmdbs .* --force$"):
        preflight(mixed)
    said = (
        r"domain_labels/mnistm: it was made of other records than are now in .*mnistm_train; write the run folder again"
    )
    with pytest.raises(ProgramError, match=said):
        preflight(labelled)


def test_preflight_sees_domain_labels_out_of_step(tiny_data, tmp_path):
    folder = write_run(small(known_share=0.5), tmp_path / "run", data=tiny_data)
    shutil.rmtree(folder.domain_labels["mnist"])
    shutil.copytree(tiny_data / "digits" / "mnist_test", folder.domain_labels["mnist"])
    with pytest.raises(ProgramError, match=f"{TEST} domain labels for 48 images of mnist"):
        preflight(folder)


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("solver", "max_iter: 6", "max_iter: 7", "max_iter is 7, expected 6 by experiment.json"),
        ("solver", "random_seed: 0", "random_seed: 1", "random_seed is 1, expected 0 by experiment.json"),
        ("solver", "base_lr: 0.01", "base_lr: 0.02", "base_lr is 0.02, expected 0.01 by experiment.json"),
        ("solver", 'type: "SGD"', 'type: "Adam"', "type is Adam, expected SGD by experiment.json"),
        ("solver", "momentum: 0.9", "", "momentum is 0, expected 0.9 by experiment.json"),
        ("solver", "max_iter", "iter_size: 2 max_iter", "iter_size is 2, expected 1 by experiment.json"),
        ("solver", "max_iter", "clip_gradients: 5 max_iter", "clip_gradients is 5, expected -1 by experiment.json"),
        ("solver", "max_iter", "snapshot_format: HDF5 max_iter", "snapshot_format is HDF5, expected BINARYPROTO by"),
        ("solver", "max_iter", "snapshot_after_train: false max_iter", "snapshot_after_train is False, expected True"),
        ("solver", "snapshots/model", "snapshots\0model", r"solver.prototxt: snapshot_prefix is '"),
        ("solver", "max_iter", "maximum", "solver.prototxt: not a prototxt of Caffe's: "),
        ("solver", "test_iter: 1\n", "", r"solver.prototxt: test_iter is [], expected 1 of at least 1"),
        ("test", "batch_size: 30", "batch_size: 0", "test.prototxt: Data layers have batch sizes [0], expected one of"),
        ("test", "digits/usps_test", "digits/mnist_test", "layer data reads "),
        ("train", "digits/usps_train", "digits/usps_test", "layer data_usps reads "),
        ("test", "layer {", "lair {", "test.prototxt: not a net's prototxt: "),
        ("train", '"num_domains": 3, "moving', '"num_domains": 4, "moving', "MDALayers have num_domains [4]"),
        ("train", "loss_weight: 0.1", "loss_weight: 0.5", "is 0.5, expected 0.1 by experiment.json: write the run"),
        ("train", "  loss_weight: 0.1\n", "", "loss_weight of entropy_class is 0, expected 0.1 by experiment.json"),
        ("train", "batch_size: 8", "batch_size: 9", "a batch has 9 images of mnist, expected 8 by experiment.json"),
    ],
)
def test_preflight_sees_nets_that_are_not_what_the_description_says(file, old, new, message, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    edit(folder.path / f"{file}.prototxt", old, new)
    with pytest.raises(ProgramError) as error:
        preflight(folder)
    assert message in str(error.value) and f"{folder.path}/{file}.prototxt" in str(error.value)


def test_preflight_misses_every_file(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    for name in ("initial.caffemodel", "domains.prototxt"):
        (folder.path / name).unlink()
        with pytest.raises(ProgramError, match=f"run/{name} is missing: write the run folder again"):
            preflight(folder)


def test_preflight_a_copied_folder_does_not_train_into_the_first(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    shutil.copytree(folder.path, tmp_path / "copy")
    preflight(folder)
    with pytest.raises(ProgramError, match=r"copy/solver.prototxt: train_net is .*run/train.*moved or copied"):
        preflight(RunFolder.load(tmp_path / "copy"))


def test_preflight_imports_every_layer_and_numba(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    _check_imports.cache_clear()
    (tmp_path / "numba.py").write_text("raise ImportError('no numba for you')")
    monkeypatch.setattr(
        "latent_domains.runs.preflight.environment",
        lambda threads: {**environment(threads), "PYTHONPATH": str(tmp_path)},
    )
    with pytest.raises(ProgramError, match="caffe_layers does not import: ImportError: no numba for you"):
        preflight(folder)


def test_incompleteness_what_differs_from_the_published_numbers(tiny_data, tmp_path):
    folder = RunFolder(tmp_path, make_experiment("digits", "mda", sources=("mnist",)), tiny_data)
    assert incompleteness(folder) == (
        f"mnist_train has {TRAIN} images, published 60000; usps_train has {TRAIN} images, published 7291; "
        f"usps_test has {TEST} images, published 2007"
    )
    source_only = make_experiment("digits", "source_only", sources=("mnist",))
    assert "usps_train" not in incompleteness(RunFolder(tmp_path, source_only, tiny_data))


def test_preflight_imports_are_checked_once_for_all_runs_and_that_is_said(tiny_data, tmp_path, monkeypatch, capsys):
    runs = [write_run(small(seed=seed), tmp_path / str(seed), data=tiny_data) for seed in range(2)]
    codes = iter((1, 0))
    monkeypatch.setattr(
        subprocess, "run", lambda command, **_: subprocess.CompletedProcess(command, next(codes), stderr="no such")
    )
    _check_imports.cache_clear()
    with pytest.raises(ProgramError, match="caffe_layers does not import: no such"):
        preflight(runs[0])
    for each in runs:
        preflight(each)
    assert capsys.readouterr().out.count("checking that caffe can import its layers") == 2
