"""Records as the network gets them, beside Caffe's own Data layer in its TEST phase."""

from dataclasses import replace
from pathlib import Path

import caffe
import cv2
import numpy as np
import pytest
from caffe.proto.caffe_pb2 import Datum

from latent_domains.common.program import ProgramError
from latent_domains.data import input_batches, lmdb_io
from latent_domains.experiment.datasets import DATASETS, Dataset

RECORDS = 7


def dataset(shape: tuple[int, int, int], **options: object) -> Dataset:
    """A dataset of records of a shape: pixels as they are, unless the options say otherwise."""
    return replace(DATASETS["digits"], **{"stored_shape": shape, "mean": (), "scale": 1.0, "crop": None, **options})


def pixels(shape: tuple[int, int, int], seed: int = 0) -> np.ndarray:
    """Random H×W×C pixels for records of C×H×W."""
    return np.random.default_rng(seed).integers(0, 256, (shape[1], shape[2], shape[0])).astype(np.uint8)


def make(path: Path, kind: str, shape: tuple[int, int, int]) -> Path:
    """An LMDB of random records of a kind."""
    with lmdb_io.create(path) as (writer, _):
        for i in range(RECORDS):
            if kind == "raw":
                datum = lmdb_io.image_datum(pixels(shape, i), i)
            elif kind == "floats":
                values = np.random.default_rng(i).normal(0, 30, shape).astype(np.float32)
                datum = Datum(channels=shape[0], height=shape[1], width=shape[2], float_data=values.ravel(), label=i)
            else:
                datum = lmdb_io.encoded_datum(cv2.imencode(f".{kind}", pixels(shape, i))[1].tobytes(), i)
            writer.put(f"record{i}", datum)
    return path


def data_layer(path: Path, data: Dataset) -> tuple[np.ndarray, np.ndarray]:
    """What Caffe's Data layer gives in the TEST phase for the whole LMDB."""
    transform = f"crop_size: {data.crop or 0} scale: {data.scale!r} mirror: {str(data.mirror).lower()} "
    transform += " ".join(f"mean_value: {mean!r}" for mean in data.mean)
    net = path.parent / "net.prototxt"
    net.write_text(
        f'layer {{ name: "data" type: "Data" top: "data" top: "label" transform_param {{ {transform} }} '
        f'data_param {{ source: "{path}" batch_size: {RECORDS} backend: LMDB }} }}'
    )
    layer = caffe.Net(str(net), caffe.TEST)  # owns the blobs
    blobs = layer.forward()
    return blobs["data"].copy(), blobs["label"].copy()


@pytest.mark.parametrize(
    ("kind", "shape", "options"),
    [
        ("raw", (3, 28, 28), {"mean": (127.5,), "scale": 1 / 128}),
        ("raw", (1, 20, 30), {"mean": (3.3,)}),
        ("raw", (3, 256, 256), {"mean": (104.0, 117.0, 123.0), "crop": 227}),
        ("raw", (3, 21, 34), {"mean": (104.1, 117.2, 123.3), "scale": 0.017, "crop": 10}),
        ("jpg", (3, 33, 22), {"mean": (104.0, 117.0, 123.0), "scale": 0.1, "crop": 12}),
        ("jpg", (1, 33, 22), {"mean": (104.0,)}),
        ("png", (4, 24, 24), {"crop": 17, "mean": (1.0, 2.0, 3.0, 4.0)}),
        ("floats", (4096, 1, 1), {}),
        ("floats", (3, 9, 8), {"mean": (0.1, 0.2, 0.3), "scale": 0.3, "crop": 5}),
    ],
)
def test_batches_are_the_data_layers_bit_for_bit(tmp_path, kind, shape, options):
    data = dataset(shape, **options)
    path = make(tmp_path / "db", kind, shape)
    expected, labels = data_layer(path, data)
    for batch_size, sizes in ((1, [1] * RECORDS), (3, [3, 3, 1]), (RECORDS, [RECORDS]), (100, [RECORDS])):
        found = list(input_batches.batches(path, data.preprocessing, batch_size))
        assert [len(inputs) for inputs, _ in found] == sizes
        assert all(inputs.dtype == np.float32 and inputs.shape[1:] == data.shape for inputs, _ in found)
        assert np.array_equal(np.concatenate([inputs for inputs, _ in found]), expected)
        assert np.concatenate([labels for _, labels in found]).tolist() == labels.tolist()


@pytest.mark.parametrize(("limit", "sizes"), [(0, []), (3, [3]), (4, [3, 1]), (99, [3, 3, 1])])
def test_batches_the_limit_is_the_number_of_records(tmp_path, limit, sizes):
    path = make(tmp_path / "db", "raw", (3, 4, 4))
    found = list(input_batches.batches(path, dataset((3, 4, 4)).preprocessing, 3, limit))
    assert [labels.tolist() for _, labels in found] == [list(range(7))[3 * i :][:size] for i, size in enumerate(sizes)]


def write_one(path: Path, datum: Datum) -> Path:
    """An LMDB in which a good record comes before this one."""
    with lmdb_io.create(path) as (writer, _):
        writer.put("good", lmdb_io.image_datum(pixels((3, 8, 8)), 0))
        writer.put("bad", datum)
    return path


SIXTEEN_BITS = cv2.imencode(".png", np.zeros((8, 8, 3), np.uint16))[1].tobytes()


@pytest.mark.parametrize(
    ("datum", "message"),
    [
        (lmdb_io.image_datum(pixels((3, 9, 8)), 0), "is 3×9×8, expected 3×8×8"),
        (lmdb_io.encoded_datum(cv2.imencode(".png", pixels((3, 7, 8)))[1].tobytes(), 0), "is 3×7×8, expected 3×8×8"),
        (lmdb_io.encoded_datum(SIXTEEN_BITS, 0), "has pixels of uint16, expected uint8"),
        (lmdb_io.encoded_datum(b"no picture", 0), "holds no image: 10 bytes marked as encoded"),
        (Datum(channels=3, height=8, width=8, data=b"short"), "holds no image: 5 bytes of data, expected 3×8×8"),
        (Datum(channels=3, height=8, width=8, float_data=[1, 2]), "holds no image: cannot reshape array of size 2"),
        (Datum(), "is 0×0×0, expected 3×8×8"),
    ],
)
def test_batches_a_record_of_another_kind_is_named(tmp_path, datum, message):
    path = write_one(tmp_path / "db", datum)
    with pytest.raises(ProgramError) as error:
        list(input_batches.batches(path, dataset((3, 8, 8)).preprocessing, 4))
    assert str(error.value).startswith(f"{path}: record '00000001_bad' {message}")
    assert len(list(input_batches.batches(path, dataset((3, 8, 8)).preprocessing, 4, limit=1))) == 1
