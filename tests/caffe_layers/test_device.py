"""How the layers meet Caffe and CuPy in GPU mode, without a GPU: CuPy is a stand-in, all else is real.

On a GPU ``make test-gpu`` takes the same way with the real one.
"""

import locale
import sys

import caffe
import numpy as np
import pytest

from caffe_layers import _backend, _device
from tests.caffe_layers.emulation import cupy
from tests.caffe_layers.nets import fill, forward_twice, inputs, make_net, mda, python_layer

pytestmark = pytest.mark.program


@pytest.fixture
def gpu_mode(monkeypatch):
    """Caffe says that it is in GPU mode; a blob's host memory is its device memory."""
    blob = type(make_net(inputs(x=(1, 1))).blobs["x"])
    monkeypatch.setattr(caffe, "get_mode", lambda: "GPU")
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    for name in ("_cupy", "_gpu"):
        monkeypatch.setattr(_device, name, _fresh(getattr(_device, name)))
    for kind in ("data", "diff"):
        address = property(lambda self, kind=kind: getattr(self, kind).ctypes.data)
        # In a Caffe without CUDA blobs have no such attribute.
        monkeypatch.setattr(blob, f"_gpu_{kind}_ptr", address, raising=False)


def _fresh(cached):
    made = {}

    def once(*arguments):
        if arguments not in made:
            made[arguments] = cached.__wrapped__(*arguments)
        return made[arguments]

    return once


def network():
    text = inputs(logits=(6, 2), known=(6,), x=(6, 3, 5, 7))
    text += python_layer("DomainAssignmentLayer", ["logits", "known"], "w", {"num_domains": 2})
    text += python_layer("EntropyLossLayer", ["logits", "known"], "h", extra="loss_weight: 0.5")
    return text + mda("xw", "y", 2) + mda("x", "alone", 3, domain=1)


def outcome(seed=0):
    rng = np.random.default_rng(seed)
    net = make_net(network())
    fill(net, logits=rng.normal(size=(6, 2)), known=[-1, 0, -1, -1, 1, -1], x=rng.normal(size=(6, 3, 5, 7)) + 2)
    for _ in range(2):
        net.forward()
        for name in ("y", "alone"):
            net.blobs[name].diff[...] = np.random.default_rng(1).normal(size=net.blobs[name].shape)
        net.backward()
    return {name: (blob.data.copy(), blob.diff.copy()) for name, blob in net.blobs.items()} | {
        f"{layer} {number}": (blob.data.copy(), blob.data.copy())
        for layer in ("y", "alone")
        for number, blob in enumerate(net.params[layer])
    }


def test_every_layer_by_way_of_cupy(request):
    expected = outcome()
    request.getfixturevalue("gpu_mode")
    assert _backend.current()._device.id == cupy.DEVICE
    for name, arrays in outcome().items():
        for got, want in zip(arrays, expected[name], strict=True):
            assert np.abs(got - want).max() <= 1e-6 * max(1, np.abs(want).max()), name


def test_compiling_kernels_leaves_the_locale_alone(gpu_mode):
    before = locale.getencoding()
    net = make_net(inputs(x=(4, 2)) + mda("x", "y", 3))
    net.forward()
    assert locale.getencoding() == before


def test_a_fault_reaches_the_host(gpu_mode):
    net = make_net(inputs(x=(4, 2), w=(4, 3)) + mda("xw", "y", 3))
    fill(net, x=1, w=[0.5, 0.1, 0.1])
    with pytest.raises(ValueError, match=r"MDALayer.*: row \d of w .* 0.7\)"):
        forward_twice(net)


def test_in_place_is_noticed(gpu_mode):
    net = make_net(inputs(x=(4, 2)) + mda("x", "x", 3, name="norm"))
    with pytest.raises(ValueError, match="not in place"):
        net.forward()


def test_arrays_follow_a_blob_that_moves(gpu_mode):
    net = make_net(inputs(x=(4, 2)) + mda("x", "y", 2))
    for rows in (4, 9, 4):
        net.blobs["x"].reshape(rows, 2)
        x = np.random.default_rng(rows).normal(size=(rows, 2)).astype(np.float32)
        fill(net, x=x)
        net.forward()
        want = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5)
        assert np.allclose(net.blobs["y"].data, want, atol=1e-5)


def test_gpu_mode_without_cupy_says_what_to_do(gpu_mode, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(RuntimeError, match=r"need CuPy .*pip install cupy-cuda11x .*CPU mode"):
        make_net(inputs(x=(6, 4)) + mda("x", "y", 3))


def test_a_blob_on_another_gpu_is_refused(gpu_mode, monkeypatch):
    net = make_net(inputs(x=(4, 2)) + mda("x", "y", 3))
    monkeypatch.setattr(cupy.cuda.runtime, "getDevice", lambda: cupy.DEVICE + 1)
    with pytest.raises(RuntimeError, match="Caffe has a blob on GPU 3, but works on GPU 4"):
        net.forward()


def test_an_old_cupy_is_refused(gpu_mode, monkeypatch):
    monkeypatch.setattr(cupy, "__version__", "12.3.0")
    with pytest.raises(RuntimeError, match=r"CuPy is 12\.3\.0; expected 13 or later"):
        make_net(inputs(x=(6, 4)) + mda("x", "y", 3))


def test_gpu_mode_without_cuda_says_what_to_do(monkeypatch):
    monkeypatch.setattr(caffe, "get_mode", lambda: "GPU")
    with pytest.raises(RuntimeError, match="built without CUDA; train in CPU mode"):
        _backend.current()
