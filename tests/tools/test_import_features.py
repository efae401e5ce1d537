"""Features that others computed: .mat and .npz to LMDBs, and all that can be wrong with each."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.io import savemat
from scipy.sparse import csc_matrix

from latent_domains.data import lmdb_io, lmdb_plans
from latent_domains.data.input_batches import batches
from latent_domains.experiment.datasets import from_json
from tests.programs import Done, program

LABELS = np.array([1, 2, 3, 1, 2, 3])


def rows(seed: int, size: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 3, (6, size)).round(3)


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """The same six labels in both kinds of file, with features of each file's own."""
    found = {name: tmp_path / f"{name}.{kind}" for name, kind in (("one", "mat"), ("two", "npz"), ("three", "npz"))}
    savemat(found["one"], {"fts": rows(0), "labels": LABELS[:, np.newaxis].astype(np.uint8)})
    np.savez(found["two"], X=rows(1).astype(np.float32), y=LABELS.astype(np.int32))
    np.savez(found["three"], features=rows(2), label=LABELS)
    return found


def import_features(files: dict[str, Path], *options: object) -> Done:
    domains = [part for name, file in files.items() for part in ("--domain", f"{name}={file}")]
    return program("import_features", *domains, *options)


def read(out: Path, domain: str) -> tuple[np.ndarray, np.ndarray]:
    """Features and labels of an LMDB in the order of the file that they come from."""
    data = from_json(json.loads((out / "dataset.json").read_text()))
    inputs, labels = zip(*batches(out / domain, data.preprocessing, 100), strict=True)
    order = np.argsort(list(lmdb_io.record_names(out / domain)))
    return np.concatenate(inputs).reshape(len(order), -1)[order], np.concatenate(labels)[order]


def test_import_features_every_kind_of_file_becomes_the_same_dataset(files, tmp_path):
    out = tmp_path / "data" / "mine"
    done = import_features(files, "--out", out)
    assert done.returncode == 0, done.stderr
    assert "one: 6 × 4 features, 3 classes" in done.stdout and f"with --data {tmp_path / 'data'}" in done.stdout
    data = from_json(json.loads((out / "dataset.json").read_text()))
    assert (data.name, data.sources, data.targets, data.classes) == ("mine", ("one", "two"), ("three",), 3)
    for seed, domain in enumerate(files):
        features, labels = read(out, domain)
        np.testing.assert_array_equal(features, rows(seed).astype(np.float32))
        np.testing.assert_array_equal(labels, LABELS - 1)
        (files[domain]).unlink()
    described = ("--dataset", out / "dataset.json", "--data", tmp_path / "data")
    done = program("baselines", "logistic", *described, tmp_path / "record.json")
    assert done.returncode == 0, done.stderr
    done = program("write_run", *described, "--method", "mda", "--batch-size", "12", tmp_path / "run")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("how", ["l2", "z", "l1+z"])
def test_import_features_normalisations_are_those_by_hand(files, tmp_path, how):
    assert import_features(files, "--out", tmp_path / "mine", "--normalise", how).returncode == 0
    expected = [rows(seed) for seed in range(3)]
    if how[0] == "l":
        expected = [[row / sum(abs(row) ** int(how[1])) ** (1 / int(how[1])) for row in x] for x in expected]
    if how[-1] == "z":
        every = np.concatenate(expected)
        expected = [(x - every.mean(axis=0)) / every.std(axis=0) for x in expected]
    for domain, x in zip(files, expected, strict=True):
        np.testing.assert_allclose(read(tmp_path / "mine", domain)[0], x, rtol=1e-6, atol=1e-6)


def test_import_features_rows_of_zeros_and_constant_features_stay_finite(files, tmp_path):
    x = np.concatenate([rows(0)[:5], np.zeros((1, 4))])
    np.savez(files["two"], X=np.column_stack([x[:, :3], np.zeros(6)]), y=LABELS)
    savemat(files["one"], {"fts": csc_matrix(np.column_stack([x[:, :3], np.zeros(6)])), "labels": LABELS})
    del files["three"]
    assert import_features(files, "--out", tmp_path / "mine", "--normalise", "l1+z").returncode == 0
    features, _ = read(tmp_path / "mine", "one")
    assert np.isfinite(features).all() and (features[:, 3] == 0).all()


def test_import_features_a_feature_that_is_the_same_everywhere_is_zero_once_standardised(files, tmp_path):
    """Also where the mean of equal numbers is not quite that number, which made it 1."""
    for seed, domain in enumerate(("two", "three")):
        np.savez(files[domain], X=np.column_stack([rows(seed)[:, :3], np.full(6, 0.1)]), y=LABELS)
    del files["one"]
    assert import_features(files, "--out", tmp_path / "mine", "--normalise", "z").returncode == 0
    features = np.concatenate([read(tmp_path / "mine", domain)[0] for domain in files])
    np.testing.assert_allclose(features.std(axis=0), [1, 1, 1, 0], atol=1e-6)
    np.testing.assert_allclose(features.mean(axis=0), 0, atol=1e-6)


def test_import_features_labels_are_counted_from_zero_or_one_for_all_domains_alike(files, tmp_path):
    np.savez(files["two"], X=rows(1), y=np.array([0, 1, 1, 0, 2, 3.0]))
    done = import_features(files, "--out", tmp_path / "mine")
    assert done.returncode == 0, done.stderr
    assert "note: one: no row of class 0, which other domains have" in done.stdout and "4 classes" in done.stdout
    np.testing.assert_array_equal(read(tmp_path / "mine", "one")[1], LABELS)
    np.testing.assert_array_equal(read(tmp_path / "mine", "two")[1], [0, 1, 1, 0, 2, 3])


@pytest.mark.parametrize(
    ("features", "labels"),
    [("feas", "label"), ("FTS", "LABELS"), ("data", "gnd")],
)
def test_import_features_names_that_people_use_are_known_in_any_case(files, tmp_path, features, labels):
    for seed, file in enumerate(files.values()):
        arrays = {features: rows(seed), labels: LABELS, "note": "others are left alone"}
        savemat(file, arrays) if file.suffix == ".mat" else np.savez(file, **arrays)
    assert import_features(files, "--out", tmp_path / "mine").returncode == 0
    for seed, domain in enumerate(files):
        features, found = read(tmp_path / "mine", domain)
        np.testing.assert_array_equal(features, rows(seed).astype(np.float32))
        np.testing.assert_array_equal(found, LABELS - 1)


def test_import_features_a_name_that_is_chosen_means_that_array_alone(files, tmp_path):
    for name in files:
        np.savez(tmp_path / f"{name}.npz", X=rows(3), x=rows(0), y=LABELS)
    (tmp_path / "classes.txt").write_text("mug\nbike\nmouse\n")
    files = {name: tmp_path / f"{name}.npz" for name in files}
    chosen = ("--features", "x", "--labels", "y", "--classes", tmp_path / "classes.txt")
    assert import_features(files, "--out", tmp_path / "mine", *chosen).returncode == 0
    np.testing.assert_array_equal(read(tmp_path / "mine", "two")[0], rows(0).astype(np.float32))
    assert lmdb_plans.classes_of(tmp_path / "mine" / "one") == ("mug", "bike", "mouse")
    done = import_features(files, "--out", tmp_path / "other", "--features", "fts")
    assert done.returncode == 1 and "features: found X, x, y, expected fts\n" in done.stderr


def test_import_features_what_stands_is_kept_and_what_is_in_the_way_is_not_replaced(files, tmp_path):
    out = tmp_path / "mine"
    assert import_features(files, "--out", out).returncode == 0
    done = import_features(files, "--out", out)
    assert done.returncode == 0 and done.stdout.count(": built before\n") == 3
    done = import_features(files, "--out", out, "--normalise", "z")
    assert done.returncode == 1 and "one: made with other images, normalise 'none' instead of 'z'; pass" in done.stderr
    files["four"] = tmp_path / "four.mat"
    shutil.copy(files["one"], files["four"])
    done = import_features(files, "--out", out)
    assert done.returncode == 1 and "dataset.json: describes another dataset; pass --force" in done.stderr
    assert import_features(files, "--out", out, "--normalise", "z", "--force").returncode == 0
    done = import_features(files, "--out", tmp_path / "pacs")
    assert done.returncode == 1 and "--out: 'pacs' is a dataset of ours, expected another" in done.stderr
