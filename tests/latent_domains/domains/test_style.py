"""Latent domains by style: as w, and as labels of the surest pictures."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.domains.pictures import Pictures
from latent_domains.domains.style import division
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.domain_labels import UNKNOWN, assigned_domains
from latent_domains.runs.write import write_run
from tests.fixtures import STYLE_SIZE
from tests.run_folders import small
from tests.training import train_here


def labels_of(folder) -> dict[str, np.ndarray]:
    return {part: lmdb_io.read_labels(lmdb) for part, lmdb in folder.domain_labels.items()}


def test_style_clusters_are_the_domains_whatever_lmdb_a_picture_is_in(mixed, tmp_path):
    divided = labels_of(write_run(small("style_w"), tmp_path / "divided", data=mixed))
    assert {source: len(set(labels.tolist())) for source, labels in divided.items()} == {"mnist": 1, "mnistm": 1}
    assert divided["mnist"][0] != divided["mnistm"][0]
    folder = write_run(small("style_w", undivided=True), tmp_path / "undivided", data=mixed)
    rows = assigned_domains(folder)
    assert rows["mnist"].argmax(axis=1).tolist() in ([0] * 48, [1] * 48)
    assert (rows["mnist"][0] != rows["mnistm"][0]).all() and len(rows["mnistm"]) == 48


def test_style_a_mixture_must_say_what_it_is_made_of(mixed, tmp_path):
    mixture = mixed / "digits" / "mnist+mnistm_train"
    (mixture / "domains.txt").unlink()
    message = f"^{re.escape(str(mixture))}: no domains.txt says which domain each image is from, as .*join_lmdbs"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w", undivided=True), tmp_path / "run", data=mixed)
    shutil.rmtree(mixture)
    message = f"^{re.escape(str(mixture))}: found nothing, .*build it with: python -m tools.join_lmdbs .*_train"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w", undivided=True), tmp_path / "run", data=mixed)


def test_style_a_source_that_was_joined_itself_is_one_like_others(mixed, tmp_path):
    source = mixed / "digits" / "mnist_train"
    (source / "domains.txt").write_text("".join(f"{place % 2}\n" for place in range(48)))
    assert write_run(small("style_w"), tmp_path / "run", data=mixed).path.is_dir()


def test_style_more_clusters_than_pictures(mixed, tmp_path):
    message = r"mnist_train, .*mnistm_train: k 97: 96 different images, expected at least 97"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w", k=97), tmp_path / "run", data=mixed)


def test_division_the_command_that_makes_statistics_is_one_that_does(tmp_path):
    pacs = make_experiment("pacs", "style_w", image_size=160)
    parts = [tmp_path / pacs.data.train_lmdb(source) for source in pacs.sources]
    for lmdb in parts:
        with lmdb_io.create(lmdb) as (writer, _):
            writer.put("a", lmdb_io.image_datum(np.zeros((2, 2, 3), np.uint8), 0))
    for data, images in ((pacs.data, "pacs"), (replace(pacs.data, name="mine"), "FILE.json")):
        command = f"python -m tools.extract_features {images} --style"
        with pytest.raises(ProgramError, match=f"_style/art_painting: no such LMDB, .*; make them with: {command}$"):
            division(Pictures(replace(pacs, task=replace(pacs.task, data=data)), tmp_path), 3, 0)


@pytest.mark.program
@pytest.mark.parametrize("undivided", [False, True])
def test_division_the_surest_share_of_each_cluster_is_known_to_the_branch(undivided, mixed, tmp_path):
    experiment = small("mda", style_share=0.25, undivided=undivided)
    assert experiment.title.endswith("25 % of clusters of style known") and "_style25_" in experiment.name
    folder = write_run(experiment, tmp_path / "run", data=mixed)
    labels = np.concatenate(list(labels_of(folder).values()))
    assert {domain: int((labels == domain).sum()) for domain in (0, 1, UNKNOWN)} == {0: 12, 1: 12, UNKNOWN: 72}
    found = division(Pictures(experiment, mixed), 2, experiment.seed)
    known = labels != UNKNOWN
    assert (labels[known] == found.domains[known]).all()
    for domain in (0, 1):
        rest = found.margin[(found.domains == domain) & ~known]
        assert found.margin[labels == domain].min() >= rest.max()
    train_here(folder)
    assert folder.read_record().domain_usage is not None


def test_statistics_that_are_missing_or_of_other_pictures(mixed, tmp_path):
    lmdb = mixed / "digits_style" / "mnist_train"
    rows = list(lmdb_io.read(lmdb))
    names = [lmdb_io.record_name(key) for key, _ in rows]
    short = lmdb_io.feature_datum(np.zeros(0, np.float32), 0)
    for last, datum, message in (
        (None, None, "no such LMDB, .*; there are none of digits: "),
        ("other", rows[-1][1], f"no statistics of '{names[-1]}', expected those of all records of mnist_train; there "),
        (names[0], rows[-1][1], f"two records are called '{names[0]}', expected a name for each"),
        (names[-1], short, f"a record of 0 numbers, expected {STYLE_SIZE} as in the first, statistics of style; there"),
    ):
        shutil.rmtree(lmdb)
        if last is not None:
            with lmdb_io.create(lmdb) as (writer, _):
                for name, (_, of_name) in zip(names[:-1], rows[:-1], strict=True):
                    writer.put(name, of_name)
                writer.put(last, datum)
        with pytest.raises(ProgramError, match=f"^{lmdb}: {message}"):
            write_run(small("style_w"), tmp_path / "run", data=mixed)
        lmdb.mkdir(exist_ok=True)
    assert not (tmp_path / "run").exists()
