"""Nothing in a file of torch.save runs: what is not known becomes an object that does nothing."""

import argparse
import datetime
import io
import os
import pickle
import pickletools
import resource
import shlex
import zipfile
from collections import defaultdict
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="PyTorch is not installed (tools/setup.sh torch)")

import torch

from latent_domains.common.program import ProgramError
from latent_domains.convert.torch import pth
from latent_domains.convert.torch.pth import load
from latent_domains.convert.torch.read import named_tensors, read_checkpoint
from latent_domains.convert.torch.tensors import CheckpointError
from tests.latent_domains.convert.torch.nets import saved as torch_saved

pytestmark = pytest.mark.torch


class Evil:
    """Leaves a file behind wherever it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self):
        return os.system, (f"touch {shlex.quote(str(self.marker))}",)


def refused(path: Path, match: str) -> None:
    with pytest.raises(ProgramError, match=match) as raised:
        read_checkpoint(path, head=True)
    assert str(raised.value).startswith(f"{path}: ")


def unpickled(data: bytes) -> object:
    return load(io.BytesIO(data), lambda *_: np.zeros(3))


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_read_checkpoint_code_is_not_run(new, tmp_path):
    marker, file = tmp_path / "marker", tmp_path / "evil.pth"
    torch.save({"conv1.weight": torch.ones(3), "x": Evil(marker)}, file, _use_new_zipfile_serialization=new)
    torch.load(file, weights_only=False)
    assert marker.is_file(), "the file does run code where it may"
    marker.unlink()
    refused(file, r"its tensors are conv1\.weight: expected those of ResNet18")
    assert not marker.exists()


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", [0, 1, 2, 4, 5])
def test_read_checkpoint_code_is_not_run_at_any_protocol(new, protocol, tmp_path):
    """Code before, in and instead of what is to be read; every way in which pickles of all ages name things."""
    marker, file = tmp_path / "marker", tmp_path / "evil.pth"
    evil = pickle.dumps(Evil(marker), protocol)
    if new:
        with zipfile.ZipFile(file, "w") as archive:
            archive.writestr("archive/data.pkl", evil)
        refused(file, r"it holds objects of (posix|nt|os)\.system and no tensor by name, expected a state dict")
    else:
        begin = [pickle.dumps(value, 2) for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True})]
        for place in range(4):
            parts = [*begin[:place], evil, *begin[place + 1 :]]
            file.write_bytes(b"".join(parts))
            said = [
                "expected a state dict of torch.save",
                *["another magic number"] * 2,
                "damaged or truncated: pickle ex",
            ]
            refused(file, said[place])
    assert not marker.exists()


@pytest.mark.parametrize(
    "code",
    [
        b"cos\nsystem\n(S'touch MARKER'\ntR.",  # GLOBAL and REDUCE
        b"(S'touch MARKER'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nS'touch MARKER'\no.",  # OBJ
        b'\x80\x02cbuiltins\neval\n(S\'open("MARKER", "w")\'\ntR.',
        b'\x80\x02c__builtin__\neval\n(S\'open("MARKER", "w")\'\ntR.',
        b"\x80\x04\x8c\x0bcollections\x8c\x1dOrderedDict.__init__.__globals__\x93.",  # by a path through attributes
        b"\x80\x02ctorch\nFloatStorage.__class__\n.",
        b"\x80\x02ctorch._utils\n_rebuild_tensor_v2.__globals__\n.",
        b"\x80\x02ctools.program\nrun\n.",
        b"\x80\x02\x82\x01.",  # EXT1: from copyreg's registry
    ],
)
def test_load_ways_of_naming_code(code, tmp_path):
    marker = tmp_path / "marker"
    with suppress(CheckpointError):
        made = unpickled(code.replace(b"MARKER", str(marker).encode()))
        assert isinstance(made, pth.Unknown) or (isinstance(made, type) and issubclass(made, pth.Unknown))
    assert not marker.exists()


def test_load_attributes_of_what_stands_in_are_not_the_pickles_to_set():
    state = b"}U\x05_callK\x01sb."  # BUILD with {"_call": 1}
    for name in (b"ctorch._utils\n_rebuild_tensor_v2\n", b"ctorch._utils\n_rebuild_parameter\n"):
        with pytest.raises(CheckpointError, match="damaged"):
            unpickled(b"\x80\x02" + name + state)
    numbers = b"(U\x07storageU\x0cFloatStorageU\x010U\x03cpuK\x03tQ"
    for of_array in (state, b"(K\x01K\x7f\x85U\x02f4\x89U\x01xtb."):  # as NumPy pickles an array's shape, kind, bytes
        with pytest.raises(CheckpointError, match="damaged"):
            unpickled(b"\x80\x02" + numbers + of_array)
    with pytest.raises(CheckpointError):
        unpickled(b"\x80\x02ccollections\nOrderedDict\n" + state)
    assert not hasattr(pth._Dict, "_call")
    with pytest.raises(CheckpointError, match="damaged"):
        unpickled(b"\x80\x02ctorch\nFloatStorage\n" + state)
    made = unpickled(b"\x80\x02ccollections\nOrderedDict\n)R" + state)  # as PyTorch keeps versions of modules
    assert made == {} and not hasattr(made, "_call")


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
def test_read_checkpoint_a_whole_model_is_refused_with_what_to_do(new, tmp_path):
    file = tmp_path / "model.pth"
    torch.save(torch.nn.Linear(2, 2), file, _use_new_zipfile_serialization=new)
    refused(
        file, r"objects of torch\.nn\.modules\.linear\.Linear and no .*save torch.save\(model.state_dict\(\), FILE\)"
    )
    torch.save({"model": torch.nn.Linear(2, 2), "epoch": 1}, file, _use_new_zipfile_serialization=new)
    refused(file, r"objects of torch\.nn\.modules\.linear\.Linear and no tensor by name, expected a state dict")


class Options(dict):
    """A class of a training program's own: a dict with attributes, and a list and a set below."""

    def __init__(self, **values: object) -> None:
        super().__init__(values)
        self.more = values


class Steps(list):
    """A list."""


class Names(set):
    """A set."""


@pytest.mark.parametrize("new", [True, False], ids=["zip", "legacy"])
@pytest.mark.parametrize("protocol", [2, 4])
def test_named_tensors_objects_of_training_programs_beside_the_tensors(new, protocol, tmp_path):
    other = {
        "args": argparse.Namespace(lr=0.1, out=Path("x")),
        "options": Options(a=Options(b=1)),
        "steps": Steps([1, Options()]),
        "names": Names({"a"}),
        "best": np.float64(71.5),
        "history": np.arange(3.0),
        "kind": np.dtype("f4"),
        "device": torch.device("cpu"),
        "dtype": torch.float16,
        "size": torch.Size([1]),
        "counts": defaultdict(list, a=[1]),
        "when": datetime.datetime(2026, 1, 1),
        "function": os.path.join,
    }
    saved = {"state_dict": {"a.weight": torch.ones(2), "b": torch.nn.Parameter(torch.zeros(1))}, **other}
    file = tmp_path / "net.pth"
    torch.save(saved, file, _use_new_zipfile_serialization=new, pickle_protocol=protocol)
    read = pth.read_zip if new else pth.read_legacy
    found = named_tensors(read(file.read_bytes()))
    assert set(found) == {"state_dict.a.weight", "state_dict.b", "history"}
    assert found["state_dict.a.weight"].tolist() == [1, 1] and found["history"].tolist() == [0, 1, 2]


@pytest.mark.parametrize("kind", ["<f4", ">f8", "<f2", "<i8", "|b1", "|u1"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_load_arrays_of_numpy_are_tensors_too(kind, order):
    array = np.asarray(np.arange(6).reshape(2, 3) % 2, kind, order=order)
    for protocol in (2, 3, 4):
        found = named_tensors(unpickled(pickle.dumps({"a": array}, protocol)))
        np.testing.assert_array_equal(found["a"], array)


@pytest.mark.parametrize("array", [np.array(["a"]), np.array([{}], object), np.zeros(2, "c16"), np.zeros(1, "M8[s]")])
def test_load_arrays_that_no_weights_are(array):
    with pytest.raises(CheckpointError, match="no tensor by name"):
        named_tensors(unpickled(pickle.dumps({"a": array}, 2)))


def test_read_zip_tensors_with_attributes_and_of_subclasses():
    tensor = torch.nn.Parameter(torch.ones(2))
    tensor.note = "mine"  # torch.save keeps it, in another way than a plain tensor
    found = named_tensors(pth.read_zip(torch_saved({"a": tensor}, new=True)))
    assert found["a"].tolist() == [1, 1]


def test_read_zip_numbers_of_a_kind_that_weights_never_have_are_left_out():
    kinds = {"b": torch.complex64, "c": torch.float8_e4m3fn, "d": torch.uint16}
    saved = {"a": torch.ones(2)} | {name: torch.ones(2).to(kind) for name, kind in kinds.items()}
    assert set(named_tensors(pth.read_zip(torch_saved(saved, new=True)))) == {"a"}


def test_load_a_memo_of_one_thing_does_not_fill_the_memory():
    """The unpickler in C has a table as long as the largest index: 32 GiB for this one."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for put in (b"r\xff\xff\xff\x7f", b"p2147483647\n"):
        with pytest.raises(CheckpointError, match="its pickle is damaged: thing 2147483647 of its memo at byte 3"):
            unpickled(b"\x80\x02N" + put + b".")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 1 << 20  # of KiB


TUPLES = b"K\x01\x85q\x00" + b"".join(b"h%ch%c\x86q%c" % (i - 1, i - 1, i) for i in range(1, 60))
"""Tuples that each hold the one before twice: a small file, but 2^60 steps for whoever prints them."""

REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"


@pytest.mark.parametrize(
    "code",
    [
        b"h\x3bQ.",  # a reference to the last of the tuples
        REBUILD + b"(NK\x00h\x3b)tR.",
        b"(U\x07storageU\x0cFloatStorageU\x010U\x03cpuJ\xff\xff\xff\xfftQ.",  # of -1 numbers
        b"(U\x07storageU\x0cFloatStorageU\x010U\x03cpuK\x03h\x3btQ.",  # a part of a storage
        REBUILD + b"((U\x07storageU\x0cFloatStorageU\x010U\x03cpuK\x03tQK\x00h\x3bh\x3btR.",
    ],
)
def test_load_what_no_tensor_is_made_of(code):
    with pytest.raises(CheckpointError, match=r"not a whole storage|without a storage|expected a number") as raised:
        unpickled(b"\x80\x02" + TUPLES + b"0" + code)
    assert len(str(raised.value)) < 300


def test_load_references_to_anything_but_storages_are_refused():
    for pid in (b"S'x'\nQ.", b"(S'storage'\nS'y'\ntQ.", b"Pabc\n."):
        pickletools.dis(pid, io.StringIO())
        with pytest.raises(CheckpointError, match="refers to an external object that is not a whole storage"):
            unpickled(pid)
    assert unpickled(b"(S'module'\nI7\nNNtQ.") == 7  # a class of old PyTorch's, with its source
