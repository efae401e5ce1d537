"""docker/patches/16-data-order.patch and 27-records.patch: records in new orders, and in chosen numbers."""

import subprocess
from pathlib import Path

import caffe
import lmdb
import numpy as np
import pytest

from latent_domains.data import lmdb_io

RECORDS = 10
LAYER = """
layer {{ name: "{name}" type: "Data" top: "{name}" top: "{name}_label"
        data_param {{ source: "{lmdb}" backend: LMDB batch_size: {rows} {order} }} }}
"""


@pytest.fixture(scope="module")
def numbered(tmp_path_factory) -> Path:
    """An LMDB of records whose labels are their places."""
    folder = tmp_path_factory.mktemp("numbered") / "lmdb"
    with lmdb_io.create(folder) as (writer, _):
        for label in range(RECORDS):
            writer.put("x", lmdb_io.image_datum(np.zeros((1, 1, 1), np.uint8), label))
    return folder


def net_of(folder: Path, numbered: Path, rows: int = RECORDS, **orders: str) -> caffe.Net:
    """A net of Data layers by name, each with what it is told of its order."""
    file = folder / "net.prototxt"
    file.write_text("".join(LAYER.format(name=name, lmdb=numbered, rows=rows, order=o) for name, o in orders.items()))
    return caffe.Net(str(file), caffe.TRAIN)


def batches(net: caffe.Net, name: str, number: int) -> list[list[int]]:
    """The labels of so many batches of a layer."""
    found = []
    for _ in range(number):
        net.forward(start=name, end=name)
        found.append(net.blobs[f"{name}_label"].data.astype(int).tolist())
    return found


def test_data_order_each_epoch_has_all_records_in_an_order_of_its_own(numbered, tmp_path):
    epochs = batches(net_of(tmp_path, numbered, x="shuffle_seed: 3"), "x", 5)
    assert all(sorted(epoch) == list(range(RECORDS)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in [*epochs, list(range(RECORDS))]}) == 6


def test_data_order_the_seed_decides(numbered, tmp_path):
    seeds = {"a": "shuffle_seed: 3", "b": "shuffle_seed: 3", "c": "shuffle_seed: 4", "d": "shuffle_seed: 0"}
    caffe.set_random_seed(1)
    net = net_of(tmp_path, numbered, **seeds)
    a, b, c, d = (batches(net, name, 3) for name in seeds)
    caffe.set_random_seed(2)
    assert batches(net_of(tmp_path, numbered, x="shuffle_seed: 3"), "x", 3) == a == b
    assert c != a != d != c


def test_data_order_a_batch_across_epochs(numbered, tmp_path):
    """Three epochs of 10 records by batches of 6."""
    rows = np.concatenate(batches(net_of(tmp_path, numbered, 6, x="shuffle_seed: 3"), "x", 5))
    epochs = batches(net_of(tmp_path, numbered, x="shuffle_seed: 3"), "x", 3)
    np.testing.assert_array_equal(rows.reshape(3, RECORDS), epochs)


def test_data_order_without_a_seed_it_is_the_databases_order(numbered, tmp_path):
    assert batches(net_of(tmp_path, numbered, x=""), "x", 3) == [list(range(RECORDS))] * 3


def refused(folder: Path, lmdb: Path, order: str) -> str:
    """What Caffe says of a layer that it does not take."""
    net = folder / "net.prototxt"
    net.write_text(LAYER.format(name="x", lmdb=lmdb, rows=1, order=order))
    done = subprocess.run(["caffe", "time", "-model", net], capture_output=True, text=True)
    assert done.returncode
    return done.stderr


@pytest.mark.program
def test_data_order_a_database_without_records_is_refused(tmp_path):
    lmdb.open(str(tmp_path / "empty"), map_size=1 << 20).close()
    assert f"{tmp_path}/empty has no records" in refused(tmp_path, tmp_path / "empty", "shuffle_seed: 3")


def numbers(folder: Path, text: str) -> str:
    """What a layer is told that reads these records."""
    (folder / "numbers.txt").write_text(text)
    return f'records: "{folder}/numbers.txt"'


def test_data_order_the_records_of_a_file_are_read_in_its_order(numbered, tmp_path):
    some = numbers(tmp_path, "7\n2\n7\n0\n")
    assert batches(net_of(tmp_path, numbered, 4, x=some), "x", 2) == [[7, 2, 7, 0]] * 2
    assert np.concatenate(batches(net_of(tmp_path, numbered, 3, x=some), "x", 4)).tolist() == [7, 2, 7, 0] * 3


def test_data_order_with_a_seed_each_epoch_has_the_records_of_a_file_in_an_order_of_its_own(numbered, tmp_path):
    some = f"{numbers(tmp_path, ' '.join(map(str, [*range(RECORDS), 9, 9])))} shuffle_seed: 3"
    net = net_of(tmp_path, numbered, 12, a=some, b=some)
    epochs = batches(net, "a", 4)
    assert all(sorted(epoch) == [*range(RECORDS), 9, 9] for epoch in epochs) and len(set(map(tuple, epochs))) == 4
    assert batches(net, "b", 4) == epochs, "in step"


@pytest.mark.program
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3\n10\n", "numbers.txt: no such record in "),
        ("-1\n", "numbers.txt: no such record in "),
        ("3\nx\n", "numbers.txt: expected numbers of records, one in each line"),
        ("", "numbers.txt: expected numbers of records, one in each line"),
        (None, "other.txt: cannot be read"),
    ],
)
def test_data_order_a_file_without_such_records_is_refused(text, message, numbered, tmp_path):
    told = f'records: "{tmp_path}/other.txt"' if text is None else numbers(tmp_path, text)
    assert message in refused(tmp_path, numbered, told)
