"""Domains that a CSV file says: its rows, the pictures that they name, and w of them in a net."""

import argparse
import re
from pathlib import Path

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.domains_file import read_domains_file
from latent_domains.domains.assign import assign
from latent_domains.domains.from_file import rows_of
from latent_domains.domains.pictures import Pictures
from latent_domains.experiment.experiment import differences, from_json, make_experiment
from latent_domains.experiment.options import add_experiment_options, experiment_from_options
from latent_domains.runs.domain_labels import assigned_domains
from latent_domains.runs.preflight import check_data, check_nets
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.tables.definition import load
from tests.fixtures import tiny_table
from tests.run_folders import small

OURS = [("photo", "dog/1.png"), ("photo", "cat/1.png"), ("sketch", "dog/1.png")]


def plant(file: Path, *lines: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines) + "\n")
    return file


@pytest.mark.parametrize(
    ("lines", "w"),
    [
        (["picture,domain,probability", "a,2,0.9", "b,1,0.6", "c,,"], [[0, 1], [1, 0], [0, 0]]),
        (["path,domain", "a,drawing", "", "b,photo"], [[1, 0], [0, 1]]),
        (["picture,domain", "a,10", "b,9"], [[0, 1], [1, 0]]),
        (["picture,warm,cold", "a,0.25,0.75", "b,,"], [[0.25, 0.75], [0, 0]]),
        (["picture,warm,cold", "a,0.25,0.7505"], [[0.25 / 1.0005, 0.7505 / 1.0005]]),
        (
            ["source,path,domain,probability of domain 1,probability of domain 2", "s,a,2,0.4,0.6", "s,b,1,,"],
            [[0.4, 0.6], [1, 0]],
        ),
    ],
)
def test_from_file_rows_are_hard_soft_or_unknown(lines, w, tmp_path):
    found = read_domains_file(plant(tmp_path / "domains.csv", *lines))
    np.testing.assert_allclose(found.w, w, rtol=1e-12)
    assert found.all_known == all(map(any, w)) and [picture for _, picture in found.pictures] == list("abc")[: len(w)]


BOTH = "picture,domain,probability of domain 1,probability of domain 2"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["file,domain", "a,1"], "found the columns file, domain, each expected once: picture (or path), and domain"),
        (["picture", "a"], "found the columns picture, "),
        (["picture,domain"], "no rows, expected one for each picture"),
        (["picture,domain", "a,"], "no domain in any row"),
        (["picture,domain", "a,1", "b"], "row 3: found 1 cells, expected 2 as in row 1"),
        (["picture,x,y", "a,0.5,0.4"], "row 2: found the probabilities 0.5, 0.4, whose sum is 0.9, expected numbers"),
        (["picture,x,y", "a,1,0", "b,1.5,-0.5"], "row 3: found the probabilities 1.5, -0.5, whose sum is 1, expected"),
        (["picture,x,y", "a,1,"], "row 2: found the probabilities 1, , expected numbers, or none"),
        (["picture,x,y", "a,nan,1"], "row 2: found the probabilities nan, 1"),
        ([BOTH, "a,1,0.4,0.6"], "row 2: found the domain 1, but 2 is the most probable"),
        ([BOTH, "a,3,,"], "row 2: found the domain '3', expected a number from 1 to 2"),
    ],
)
def test_from_file_a_row_that_says_no_domain(lines, words, tmp_path):
    file = plant(tmp_path / "domains.csv", *lines)
    with pytest.raises(ProgramError, match=f"^{re.escape(f'{file}: {words}')}"):
        read_domains_file(file)


@pytest.mark.parametrize(
    ("place", "pictures"),
    [
        ("domains.csv", ["/some/photo/dog/1.png", "pacs/photo/cat/1.png", "sketch/dog/1.png"]),
        ("photo/domains.csv", ["dog/1.png", "./cat/1.png", "../sketch/dog/1.png"]),
    ],
)
def test_pictures_are_found_by_their_paths(place, pictures, tmp_path):
    rows = [f"{picture},{number}" for number, picture in enumerate(pictures, 1)]
    found = read_domains_file(plant(tmp_path / place, "picture,domain", *rows[::-1]))
    assert rows_of(found, OURS, []) == [2, 1, 0]
    assert rows_of(found, OURS[:2], OURS[2:]) == [2, 1]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["photo,dog/1.png", "photo,cat/1.png"], "no row for the picture 'dog/1.png' of sketch, expected one"),
        (["photo,dog/1.png", ",photo/dog/1.png"], "row 3: the picture 'photo/dog/1.png' is named twice, in row 2, too"),
        (["photo,dog/9.png"], "row 2: the picture 'dog/9.png' of photo is unknown, expected the path of a picture"),
        ([",dog/9.png"], "row 2: the picture 'dog/9.png' is unknown, expected the path of a picture from its source's"),
        ([",dog/1.png"], "row 2: the picture 'dog/1.png' is unknown, expected one picture, found those of photo"),
    ],
)
def test_pictures_that_are_missing_unknown_or_named_twice(lines, words, tmp_path):
    file = plant(tmp_path / "domains.csv", "source,path,domain", *(f"{line},1" for line in lines))
    with pytest.raises(ProgramError, match=f"^{re.escape(f'{file}: {words}')}"):
        rows_of(read_domains_file(file), OURS, [])


def soft_rows(data: Path, rng: np.random.Generator, k: int = 3) -> tuple[list[str], dict[str, np.ndarray]]:
    """Lines of a file of random probabilities of the tiny digits' sources, and these (n×k)."""
    lines, w = [], {}
    for source in ("mnist", "mnistm"):
        names = list(lmdb_io.record_names(data / "digits" / f"{source}_train"))
        w[source] = rng.dirichlet([0.3] * k, len(names))
        lines += [
            f"{source}/{name},{','.join(f'{p:.9f}' for p in row)}" for name, row in zip(names, w[source], strict=True)
        ]
    return ["picture," + ",".join(f"d{number}" for number in range(k)), *lines], w


@pytest.mark.parametrize("options", [{}, {"data_order": "shuffled", "equal_classes": True}])
def test_from_file_soft_rows_arrive_in_w(options, tiny_data, tmp_path):
    """In step with the pictures, in whatever order these are read: each row of w is that of its picture."""
    lines, w = soft_rows(tiny_data, np.random.default_rng(0))
    file = plant(tmp_path / "domains.csv", *lines)
    experiment = small("multi_source", domains=file, **options)
    assert experiment.num_domains == 4 and from_json(experiment.to_json()) == experiment
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    check_nets(folder)
    check_data(folder)
    assert folder.domains_file.read_bytes() == file.read_bytes()
    for source, rows in assigned_domains(RunFolder.load(folder.path)).items():
        np.testing.assert_allclose(rows, w[source], atol=1e-6)
    net, seen = loaded(folder), set()
    assert set(net.outputs) == {"loss_class", "entropy_class", "source_accuracy"}
    for _ in range(8):
        net.forward()
        for part, source in enumerate(("mnist", "mnistm")):
            pictures = {image.tobytes(): row for image, row in zip(images_of(folder, source), w[source], strict=True)}
            for image, row in zip(net.blobs[f"data_{source}"].data, net.blobs["w"].data[8 * part :], strict=False):
                np.testing.assert_allclose(row, [*pictures[image.tobytes()], 0], atol=1e-6)
                seen.add(image.tobytes())
    assert len(seen) > 48


def images_of(folder: RunFolder, source: str) -> np.ndarray:
    data = folder.experiment.data
    images, _ = lmdb_io.read_images(folder.train_lmdbs[source])
    return ((images.astype(np.float32) - np.array(data.mean or 0, np.float32).reshape(-1, 1, 1)) * data.scale).astype(
        np.float32
    )


def loaded(folder: RunFolder):
    """The training net as Caffe trains it, its order included."""
    import caffe

    return caffe.Net(str(folder.net("train")), caffe.TRAIN)


def test_from_file_the_branch_decides_where_the_domain_is_unknown(tiny_data, tmp_path):
    """Known rows give it no gradient through w; λ_t is the log-loss of their most probable domain."""
    lines, w = soft_rows(tiny_data, np.random.default_rng(1), k=2)
    lines[2::2] = [f"{line.split(',')[0]},," for line in lines[2::2]]
    experiment = small("mda", domains=plant(tmp_path / "domains.csv", *lines))
    folder = write_run(experiment, tmp_path / "run", data=tiny_data)
    check_nets(folder)
    check_data(folder)
    net = loaded(folder)
    assert {"loss_domain", "entropy_domain"} <= set(net.outputs) and len(net.outputs) == 5
    net.forward()
    found, logits = net.blobs["w"].data[:16, :2], net.blobs["domain_fc4"].data.astype(np.float64)
    log_softmax = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    told = np.concatenate([rows[:8] for rows in w.values()])
    known = np.arange(16) % 2 == 0
    np.testing.assert_allclose(found[known], told[known], atol=1e-6)
    np.testing.assert_allclose(found[~known], np.exp(log_softmax)[~known], atol=1e-6)
    picked = log_softmax[known, told[known].argmax(axis=1)]
    assert float(net.blobs["loss_domain"].data) == pytest.approx(-picked.mean(), rel=1e-5)
    entropy = -(np.exp(log_softmax) * log_softmax).sum(axis=1)
    assert float(net.blobs["entropy_domain"].data) == pytest.approx(entropy[~known].mean(), rel=1e-5)
    net.blobs["w_source"].diff[...] = np.random.default_rng(2).normal(size=net.blobs["w_source"].data.shape)
    net.backward(start="w_source", end="w_predicted")
    names = [blob for blob in net.blobs if blob.startswith("domain_fc4_")]
    (gradient,) = [net.blobs[one].diff for one in names if np.abs(net.blobs[one].diff).sum() > 0]
    assert (gradient[known] == 0).all() and (np.abs(gradient[~known]).sum(axis=1) > 0).all()


def test_from_file_another_file_is_another_run(tiny_data, tmp_path):
    lines, _ = soft_rows(tiny_data, np.random.default_rng(0))
    one, other = (plant(tmp_path / name, *lines) for name in ("a.csv", "b.csv"))
    same = [small("multi_source", domains=file) for file in (one, other)]
    assert same[0] == same[1] and same[0].name == same[1].name and "domains of file" in same[0].title
    plant(other, *lines[:-1], lines[-1].split(",")[0] + ",1,0,0")
    changed = small("multi_source", domains=other)
    assert changed.name != same[0].name and [name for name, _, _ in differences(same[0], changed)] == ["domains"]


def test_from_file_the_option_and_the_key_of_a_table_name_the_file(tiny_data, tmp_path):
    file = plant(tmp_path / "domains.csv", *soft_rows(tiny_data, np.random.default_rng(0))[0])
    experiment = make_experiment("digits", "multi_source", domains=file)
    parser = argparse.ArgumentParser()
    add_experiment_options(parser)
    read = parser.parse_args(["--method", "multi_source", "--domains", str(file)])
    assert experiment_from_options(read) == experiment and experiment_from_options(parser.parse_args([])) != experiment
    rows = "  - {name: known, paper: {missing: none}, runs: {method: multi_source, domains: domains.csv}}"
    table = load(plant(tmp_path / "tiny.yaml", tiny_table(rows)))
    (run,) = table.runs
    assert file in table.files
    assert run == experiment and run.method.domains_file == str(file)


def test_assign_a_mixture_and_rows_of_other_domains(mixed, tmp_path):
    lines, w = soft_rows(mixed, np.random.default_rng(0))
    lines += [f"usps/{name},1,0,0" for name in lmdb_io.record_names(mixed / "digits" / "usps_train")]
    experiment = small("multi_source", domains=plant(tmp_path / "domains.csv", *lines), undivided=True)
    found = assign(Pictures(experiment, mixed), experiment.method.way)
    assert found.shape == (96, 3) and np.allclose(np.sort(found[:, 0]), np.sort(np.concatenate([*w.values()])[:, 0]))
    with pytest.raises(ProgramError, match="the picture 'svhn/1' is unknown"):
        write_run(
            small("multi_source", domains=plant(tmp_path / "other.csv", *lines, "svhn/1,1,0,0")),
            tmp_path / "run",
            data=mixed,
        )
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"method": "dial"}, "domains: got .*: a setting of mda, multi_source"),
        ({"method": "mda", "known_share": 0.5}, "domains: got a file, expected none with known_share or style_share"),
        ({"method": "mda", "k": 2}, "k: got 2, expected at least 3, the domains of the file"),
        ({"method": "multi_source", "k": 2}, "k: got 2, expected 3 for multi_source"),
    ],
)
def test_from_file_a_file_that_does_not_fit_the_method(options, words, tiny_data, tmp_path):
    file = plant(tmp_path / "domains.csv", *soft_rows(tiny_data, np.random.default_rng(0))[0])
    with pytest.raises(ProgramError, match=words):
        small(**options, domains=file)


def test_from_file_all_must_be_known_to_multi_source(tiny_data, tmp_path):
    lines, _ = soft_rows(tiny_data, np.random.default_rng(0))
    lines[5] = lines[5].split(",")[0] + ",,,"
    experiment = small("multi_source", domains=plant(tmp_path / "domains.csv", *lines))
    with pytest.raises(ProgramError, match=r"domains\.csv: row 6: no domain, expected one .* mda"):
        write_run(experiment, tmp_path / "run", data=tiny_data)
