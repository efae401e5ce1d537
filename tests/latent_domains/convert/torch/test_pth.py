"""Both formats of torch.save, read as PyTorch reads them, and damaged in every way."""

import io
import pickle
import zipfile

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.convert.torch.pth import MAGIC, read_legacy, read_zip
from latent_domains.convert.torch.read import named_tensors
from latent_domains.convert.torch.tensors import CheckpointError
from tests.latent_domains.convert.torch.nets import saved

pytestmark = pytest.mark.torch

FORMATS = pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])


def read(data: bytes, *, new: bool) -> object:
    return read_zip(data) if new else read_legacy(data)


def tensors() -> dict[str, torch.Tensor]:
    """Contiguous, transposed, sliced, shared, scalar, empty, of every kind."""
    torch.manual_seed(0)
    base = torch.randn(6, 4)
    return {
        "whole": base,
        "transposed": base.T,
        "sliced": base[1:5:2, ::2],
        "row": base[3],
        "scalar": torch.tensor(2.5),
        "empty": torch.empty(0, 3),
        "parameter": torch.nn.Parameter(torch.randn(2, 3)),
        "double": torch.randn(3, dtype=torch.float64),
        "half": torch.randn(3).half(),
        "bfloat16": torch.randn(3).bfloat16(),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "bytes": torch.tensor([1, 2], dtype=torch.uint8),
    }


@FORMATS
def test_read_legacy_tensors_are_read_as_they_were(new):
    expected = tensors()
    found = named_tensors(read(saved(expected, new=new), new=new))
    assert list(found) == list(expected)
    for name, tensor in expected.items():
        assert found[name].dtype.name == str(tensor.dtype).removeprefix("torch."), name
        if tensor.numel():
            values = found[name].astype(np.float32)
            np.testing.assert_array_equal(values, tensor.detach().float().numpy(), err_msg=name)
            assert values.shape == tuple(tensor.shape)


@FORMATS
def test_read_legacy_truncated_anywhere_is_refused(new):
    data = saved(tensors(), new=new)
    for size in [*range(0, len(data), max(1, len(data) // 150)), len(data) - 1]:
        with pytest.raises(CheckpointError):
            named_tensors(read(data[:size], new=new))


@FORMATS
def test_read_legacy_damage_anywhere_is_refused_or_harmless(new):
    """Random bytes in random places: a zip's checksums find them, the old format has none for its numbers."""
    data, rng, found = saved(tensors(), new=new), np.random.default_rng(1), 0
    for _ in range(400):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), rng.integers(1, 4)):
            damaged[place] = rng.integers(0, 256)
        try:
            named_tensors(read(bytes(damaged), new=new))
        except CheckpointError:
            found += 1
    assert found > 40


def archive(**members: bytes) -> bytes:
    """A zip archive with members of these names."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, contents in members.items():
            made.writestr(name, contents)
    return file.getvalue()


def rebuilt(storage_size: int, offset: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bytes:
    """The pickle of {"t": tensor} with a storage "0" of floats."""

    class Saved:
        def __reduce__(self):
            return torch._utils._rebuild_tensor_v2, (Pid(), offset, shape, strides, False, {})

    class Pid:
        pass

    file = io.BytesIO()
    pickler = pickle.Pickler(file, 2)
    pickler.persistent_id = lambda value: (
        ("storage", torch.FloatStorage, "0", "cpu", storage_size) if isinstance(value, Pid) else None
    )
    pickler.dump({"t": Saved()})
    return file.getvalue()


def test_read_zip_tensors_that_reach_outside_their_storage_are_refused():
    numbers = np.arange(6, dtype=np.float32).tobytes()
    made = read_zip(archive(**{"a/data.pkl": rebuilt(6, 1, (5,), (1,)), "a/data/0": numbers}))
    np.testing.assert_array_equal(made["t"], np.arange(1, 6))
    for offset, shape, strides in ((2, (5,), (1,)), (0, (2, 3), (4, 1)), (-1, (2,), (1,)), (0, (1 << 40,), (0,))):
        data = archive(**{"a/data.pkl": rebuilt(6, offset, shape, strides), "a/data/0": numbers})
        with pytest.raises(CheckpointError, match=r"does not lie within its storage of 6|expected a number ≥ 0"):
            read_zip(data)["t"]


def test_read_zip_storages_that_are_not_what_the_pickle_says():
    numbers = np.arange(6, dtype=np.float32).tobytes()
    for size, members, said in (
        (7, {"a/data/0": numbers}, "storage 0: 24 bytes, expected 7 numbers of float32"),
        (6, {}, "the archive lacks a/data/0"),
        (1 << 60, {"a/data/0": numbers}, "storage 0: 24 bytes, expected"),
    ):
        with pytest.raises(CheckpointError, match=said):
            read_zip(archive(**{"a/data.pkl": rebuilt(size, 0, (2,), (1,)), **members}))


def test_read_zip_compressed_members_are_refused():
    """They could be of any size: PyTorch stores."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("a/data.pkl", pickle.dumps({}, 2))
    with pytest.raises(CheckpointError, match=r"a/data\.pkl is compressed, expected it stored"):
        read_zip(file.getvalue())


def test_read_zip_big_endian_numbers_are_refused():
    with pytest.raises(CheckpointError, match="big-endian"):
        read_zip(archive(**{"a/data.pkl": pickle.dumps({}, 2), "a/byteorder": b"big"}))


def legacy(keys: object, size: int, numbers: bytes) -> bytes:
    """A file of the old format with the tensor "t", two numbers of storage "0"."""
    begin = b"".join(pickle.dumps(value, 2) for value in (MAGIC, 1001, {"little_endian": True}))
    return begin + rebuilt(2, 0, (2,), (1,)) + pickle.dumps(keys, 2) + size.to_bytes(8, "little") + numbers


def test_read_legacy_storages_of_the_old_format_that_are_not_what_the_pickle_says():
    numbers = np.array([1, 2], np.float32).tobytes()
    np.testing.assert_array_equal(read_legacy(legacy(["0"], 2, numbers))["t"], [1, 2])
    for data, said in (
        (legacy(["0"], 3, numbers), "storage 0: damaged, of 3 numbers, expected 2"),
        (legacy(["1"], 2, numbers), "list of its storages is not that of its tensors"),
        (legacy({}, 2, numbers), "list of its storages is not that of its tensors"),
        (legacy([["0"]], 2, numbers), "list of its storages is not that of its tensors"),
        (legacy([], 2, numbers), "list of its storages is not that of its tensors"),
        (legacy(["0"], 2, numbers[:7]), r"truncated: \d+ bytes, expected storage 0 to end at byte \d+"),
    ):
        with pytest.raises(CheckpointError, match=said):
            read_legacy(data)
