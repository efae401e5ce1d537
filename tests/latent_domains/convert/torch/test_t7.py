"""Lua Torch's files, and damaged ones."""

import struct

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

from latent_domains.convert.torch import t7
from latent_domains.convert.torch.t7 import read
from latent_domains.convert.torch.tensors import CheckpointError
from tests.latent_domains.convert.torch.lua import Builder, Object, Storage, Strided, tensor, written
from tests.latent_domains.convert.torch.nets import ResNet, trained

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def narrow() -> ResNet:
    return trained((1, 1, 1, 1), 3, width=2)


@pytest.mark.parametrize("kind", ["Float", "Double", "Cuda", "CudaHalf", "Half"])
def test_read_tensors_are_read_as_they_were(kind):
    array = np.random.default_rng(0).normal(size=(3, 4, 5)).astype(np.float16)
    storage = Storage(kind, array.ravel())
    part = Strided(kind, storage, 7, (2, 4), (20, 5))
    found = read(written([tensor(array, kind), part, Strided(kind, storage, 1, (60,), (1,)), Strided(kind, None)]))
    np.testing.assert_array_equal(found[1], array)
    np.testing.assert_array_equal(found[2], array.ravel()[6:46].reshape(2, 4, 5)[:, :, 0])
    np.testing.assert_array_equal(found[3], array.ravel())
    assert found[4].shape == (0,)


def test_read_objects_tables_and_what_they_share():
    shared = {"x": 1.5, "y": True}
    net = read(written(Object("nn.Sequential", {"a": shared, "b": shared, "c": [1, "two", 0.5, shared], 2: "z"})))
    assert net.torch_typename() == b"nn.Sequential"
    assert dict(net["a"]) == {b"x": 1.5, b"y": True} and net["a"] is net["b"]
    assert [net["c"][i] for i in (1, 2)] == [1, b"two"] and net["c"][4] is net["a"]


@pytest.mark.parametrize("size", [7, -1, 1 << 40, 1 << 61, (1 << 63) - 1, -(1 << 63)])
def test_read_storages_that_are_larger_than_the_file_are_refused(size):
    with pytest.raises(CheckpointError, match=r"truncated: -?\d+ bytes are to come after byte \d+, found 24"):
        read(written(Strided("Float", Storage("Float", np.arange(6), size), 1, (2,), (1,))))


def test_read_tensors_that_are_none():
    with pytest.raises(CheckpointError, match="a tensor of 1000 axes, expected at most 8"):
        read(struct.pack("<iii3si17si", 4, 1, 3, b"V 1", 17, b"torch.FloatTensor", 1000))
    with pytest.raises(CheckpointError, match="FloatTensor whose storage has another type"):
        read(written(Strided("Float", Storage("Double", np.arange(6)), 1, (2,), (1,))))


def test_state_dict_truncated_anywhere_is_refused(narrow):
    data = written(Builder().net(narrow))
    assert len(t7.state_dict(read(data))) == 11 * 5 + 2 + 5
    for size in [*range(0, 400), *range(400, len(data), len(data) // 200), len(data) - 1]:
        with pytest.raises(CheckpointError):
            t7.state_dict(read(data[:size]))


def test_state_dict_damage_anywhere_is_refused_or_harmless(narrow):
    """The format has no checksums: what is damaged may be the numbers alone."""
    data, rng, found = written(Builder(matrix=True).net(narrow)), np.random.default_rng(2), 0
    for _ in range(300):
        damaged = bytearray(data)
        for place in rng.integers(0, len(data), 20):
            damaged[place] = rng.integers(0, 256)
        try:
            t7.state_dict(read(bytes(damaged)))
        except CheckpointError:
            found += 1
    assert found > 100


def test_read_objects_in_themselves_end_somewhere():
    """Tables in tables, deeper than Python can follow."""
    table: dict = {}
    for _ in range(20):
        table = {"x": table}
    read(written(table))
    deep = b"".join(struct.pack("<iii", 3, number, 1) + struct.pack("<id", 1, 5.0) for number in range(1, 5000))
    with pytest.raises(CheckpointError, match=r"damaged, or no binary file of Lua Torch's: .*recursion"):
        read(deep)


def test_read_functions_stay_unread_bytes():
    """As Lua saves them: its bytecode and upvalues. Nothing here could run it."""
    net = read(struct.pack("<iii", 8, 1, 4) + b"\x1bLua" + struct.pack("<i", 0))
    assert net.dumped == b"\x1bLua" and net.upvalues is None
