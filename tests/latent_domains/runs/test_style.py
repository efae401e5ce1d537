"""Latent domains by style: as w, and as labels of the surest pictures."""

import re
import shutil
from dataclasses import replace

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domain_labels import UNKNOWN
from latent_domains.data.join import join
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.domain_labels import assigned_domains
from latent_domains.runs.style import style_domains
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all
from tests.fixtures import STYLE_SIZE
from tests.run_folders import small


@pytest.fixture
def data(tiny_data, tmp_path):
    """The tiny digits with all of both sources in one LMDB."""
    shutil.copytree(tiny_data, tmp_path / "data")
    inputs = [tiny_data / "digits" / f"{source}_train" for source in ("mnist", "mnistm")]
    join(inputs, tmp_path / "data" / "digits" / "mnist+mnistm_train")
    return tmp_path / "data"


def labels_of(folder) -> dict[str, np.ndarray]:
    return {part: lmdb_io.read_labels(lmdb) for part, lmdb in folder.domain_labels.items()}


def test_clusters_are_the_domains_whatever_lmdb_a_picture_is_in(data, tmp_path):
    divided = labels_of(write_run(small("style_w"), tmp_path / "divided", data=data))
    assert {source: len(set(labels.tolist())) for source, labels in divided.items()} == {"mnist": 1, "mnistm": 1}
    assert divided["mnist"][0] != divided["mnistm"][0]
    folder = write_run(small("style_w", undivided=True), tmp_path / "undivided", data=data)
    rows = assigned_domains(folder)
    assert rows["mnist"].argmax(axis=1).tolist() in ([0] * 48, [1] * 48)
    assert (rows["mnist"][0] != rows["mnistm"][0]).all() and len(rows["mnistm"]) == 48


def test_a_mixture_must_say_what_it_is_made_of(data, tmp_path):
    mixture = data / "digits" / "mnist+mnistm_train"
    (mixture / "domains.txt").unlink()
    message = f"^{re.escape(str(mixture))}: no domains.txt says which domain each image is from, as .*join_lmdbs"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w", undivided=True), tmp_path / "run", data=data)
    shutil.rmtree(mixture)
    with pytest.raises(ProgramError, match=f"^{re.escape(str(mixture))}: found nothing, expected an LMDB folder"):
        write_run(small("style_w", undivided=True), tmp_path / "run", data=data)


def test_a_source_that_was_joined_itself_is_one_like_others(data, tmp_path):
    source = data / "digits" / "mnist_train"
    (source / "domains.txt").write_text("".join(f"{place % 2}\n" for place in range(48)))
    assert write_run(small("style_w"), tmp_path / "run", data=data).path.is_dir()


def test_more_clusters_than_pictures(data, tmp_path):
    message = r"mnist_train, .*mnistm_train: k 97: 96 different images, expected at least 97"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w", k=97), tmp_path / "run", data=data)


def test_the_command_that_makes_statistics_is_one_that_does(tmp_path):
    pacs = make_experiment("pacs", "style_w", image_size=160)
    parts = [tmp_path / pacs.data.train_lmdb(source) for source in pacs.sources]
    for lmdb in parts:
        with lmdb_io.create(lmdb) as (writer, _):
            writer.put("a", lmdb_io.image_datum(np.zeros((2, 2, 3), np.uint8), 0))
    for data, images in ((pacs.data, "pacs"), (replace(pacs.data, name="mine"), "FILE.json")):
        command = f"python -m tools.extract_features {images} --style"
        with pytest.raises(ProgramError, match=f"_style/art_painting: no such LMDB, .*; make them with: {command}$"):
            style_domains(replace(pacs, task=replace(pacs.task, data=data)), parts, tmp_path)


@pytest.mark.program
@pytest.mark.parametrize("undivided", [False, True])
def test_the_surest_share_of_each_cluster_is_known_to_the_branch(undivided, data, tmp_path):
    experiment = small("mda", style_share=0.25, undivided=undivided)
    assert experiment.title.endswith("25 % of clusters of style known") and "_style25_" in experiment.name
    folder = write_run(experiment, tmp_path / "run", data=data)
    labels = np.concatenate(list(labels_of(folder).values()))
    assert {domain: int((labels == domain).sum()) for domain in (0, 1, UNKNOWN)} == {0: 12, 1: 12, UNKNOWN: 72}
    found = style_domains(experiment, list(folder.train_lmdbs.values())[: len(experiment.task.source_inputs)], data)
    known = labels != UNKNOWN
    assert (labels[known] == found.domains[known]).all()
    for domain in (0, 1):
        rest = found.margin[(found.domains == domain) & ~known]
        assert found.margin[labels == domain].min() >= rest.max()
    train_all([folder], threads=1)
    assert folder.read_record().domain_usage is not None


def test_statistics_that_are_missing_or_of_other_pictures(data, tmp_path):
    lmdb = data / "digits_style" / "mnist_train"
    rows = list(lmdb_io.read(lmdb))
    shutil.rmtree(lmdb)
    with pytest.raises(ProgramError, match=f"^{lmdb}: no such LMDB, .*; there are none of digits: "):
        write_run(small("style_w"), tmp_path / "run", data=data)

    def write(names: list[str]) -> None:
        with lmdb_io.create(lmdb) as (writer, _):
            for name, (_, datum) in zip(names, rows, strict=True):
                writer.put(name, datum)

    names = [lmdb_io.record_name(key) for key, _ in rows]
    write([*names[:-1], "other"])
    with pytest.raises(
        ProgramError,
        match=f"^{lmdb}: no statistics of '{names[-1]}', expected those of all records of mnist_train; there are none",
    ):
        write_run(small("style_w"), tmp_path / "run", data=data)
    shutil.rmtree(lmdb)
    write([*names[:-1], names[0]])
    with pytest.raises(ProgramError, match=f"^{lmdb}: two records are called '{names[0]}', expected a name for each"):
        write_run(small("style_w"), tmp_path / "run", data=data)
    shutil.rmtree(lmdb)
    rows[5][1].ClearField("float_data")
    write(names)
    message = f"^{lmdb}: a record of 0 numbers, expected {STYLE_SIZE} as in the first, statistics of style; there are"
    with pytest.raises(ProgramError, match=message):
        write_run(small("style_w"), tmp_path / "run", data=data)
    assert not (tmp_path / "run").exists()
