"""docker/patches/14-1 to 14-7: Caffe's CPU layers on several threads."""

import ctypes
import os
import re
import subprocess
import sys
import threading
from itertools import product
from pathlib import Path

import caffe
import numpy as np
import pytest

GOMP = ctypes.CDLL("libgomp.so.1")

# name: shape of the images, the convolution's parameters beside num_output
CONVOLUTIONS = {
    "plain": ((3, 4, 9, 8), "num_output: 6 kernel_size: 3 pad: 1"),
    "strided": ((3, 4, 11, 9), "num_output: 6 kernel_size: 3 stride: 2 pad: 1"),
    "1x1": ((3, 5, 6, 7), "num_output: 4 kernel_size: 1"),
    "1x1 strided": ((3, 5, 7, 7), "num_output: 4 kernel_size: 1 stride: 2"),
    "1x1 of one tile": ((2, 5, 30, 30), "num_output: 4 kernel_size: 1"),
    "no bias": ((3, 4, 6, 6), "num_output: 6 kernel_size: 3 bias_term: false"),
    "oblong": ((2, 3, 8, 10), "num_output: 4 kernel_h: 3 kernel_w: 5 stride_h: 2 stride_w: 3 pad_h: 0 pad_w: 2"),
    "groups": ((3, 6, 7, 7), "num_output: 4 kernel_size: 3 pad: 1 group: 2"),
    "a group a channel": ((3, 6, 7, 7), "num_output: 6 kernel_size: 3 pad: 1 group: 6"),
    "dilation": ((3, 4, 9, 9), "num_output: 5 kernel_size: 3 dilation: 2 pad: 2"),
    "dilation and groups": ((3, 4, 11, 10), "num_output: 6 kernel_size: 3 dilation: 2 stride: 2 pad: 3 group: 2"),
    "mostly padding": ((2, 3, 2, 2), "num_output: 4 kernel_size: 5 pad: 4"),
    "rows of one vector": ((5, 4, 12, 12), "num_output: 5 kernel_size: 5"),
    "more padding than a vector": ((2, 3, 6, 21), "num_output: 4 kernel_h: 2 kernel_w: 19 pad_h: 1 pad_w: 9"),
    "one image": ((1, 6, 8, 8), "num_output: 6 kernel_size: 3 pad: 1"),
    "one pixel": ((1, 3, 1, 1), "num_output: 2 kernel_size: 1"),
    "many small images": ((67, 6, 4, 4), "num_output: 7 kernel_size: 3 pad: 1 bias_term: true"),
    "large image": ((2, 6, 130, 121), "num_output: 3 kernel_size: 3 pad: 1"),
    "many weights": ((5, 40, 5, 5), "num_output: 20 kernel_size: 3 pad: 1 group: 2"),
    "one dimension": ((4, 3, 20), "num_output: 5 kernel_size: 4 stride: 2 pad: 1 dilation: 2"),
    "three dimensions": ((3, 4, 4, 5, 6), "num_output: 4 kernel_size: 3 kernel_size: 2 kernel_size: 3 pad: 1 group: 2"),
    "three dimensions, 1x1x1": ((3, 4, 2, 3, 4), "num_output: 6 kernel_size: 1 group: 2"),
    "padded at the end": ((3, 4, 10, 8), "num_output: 6 kernel_size: 3 stride: 2 pad: 0 pad_end: 1"),
    "padded at the end, odd sizes": ((2, 3, 11, 7), "num_output: 4 kernel_size: 5 stride: 2 pad: 1 pad_end: 2"),
    "an end for each axis": ((2, 3, 9, 8), "num_output: 4 kernel_size: 3 pad_h: 2 pad_w: 1 pad_end: 0 pad_end: 3"),
    "1x1 padded at the end": ((2, 3, 5, 6), "num_output: 4 kernel_size: 1 pad_end: 2"),
    "one dimension, padded at the end": ((4, 3, 20), "num_output: 5 kernel_size: 4 stride: 3 pad: 1 pad_end: 2"),
    "three dimensions, padded at the end": ((2, 3, 4, 5, 6), "num_output: 4 kernel_size: 3 stride: 2 pad_end: 1"),
    "padded at the end by the general path": (
        (3, 4, 10, 8),
        "num_output: 6 kernel_size: 3 stride: 2 pad_end: 1 group: 2 force_nd_im2col: true",
    ),
    "by the general path": ((3, 4, 7, 6), "num_output: 4 kernel_size: 3 pad: 1 group: 2 force_nd_im2col: true"),
}
LAYERS = {
    "MAX pooling": ((3, 5, 9, 9), 'type: "Pooling" pooling_param { pool: MAX kernel_size: 2 stride: 2 }'),
    "MAX pooling with padding": ((3, 5, 9, 8), 'type: "Pooling" pooling_param { kernel_size: 3 stride: 2 pad: 1 }'),
    "MAX pooling, wide steps": ((3, 5, 40, 41), 'type: "Pooling" pooling_param { kernel_size: 4 stride: 3 pad: 2 }'),
    "MAX pooling, wider than the image": ((2, 3, 3, 2), 'type: "Pooling" pooling_param { kernel_size: 4 pad: 3 }'),
    "AVE pooling": ((3, 5, 9, 8), 'type: "Pooling" pooling_param { pool: AVE kernel_size: 3 stride: 2 pad: 1 }'),
    "AVE pooling of all": ((3, 5, 7, 7), 'type: "Pooling" pooling_param { pool: AVE global_pooling: true }'),
    "LRN": ((3, 9, 5, 6), 'type: "LRN" lrn_param { local_size: 5 alpha: 0.3 beta: 0.75 k: 2 }'),
    "LRN of another power": ((3, 9, 5, 6), 'type: "LRN" lrn_param { local_size: 3 alpha: 0.3 beta: 0.6 }'),
    "Scale": ((4, 6, 5, 5), 'type: "Scale" scale_param { bias_term: true }'),
    "Scale without bias": ((4, 6, 5, 5), 'type: "Scale"'),
    "Scale of rows": ((40, 60), 'type: "Scale" scale_param { bias_term: true }'),
    "BatchNorm": ((4, 6, 5, 5), 'type: "BatchNorm" batch_norm_param { use_global_stats: false }'),
    "BatchNorm of rows": ((40, 60), 'type: "BatchNorm" batch_norm_param { use_global_stats: false }'),
    "BatchNorm by stored statistics": ((4, 6, 5, 5), 'type: "BatchNorm" batch_norm_param { use_global_stats: true }'),
    "ReLU": ((4, 6, 5, 5), 'type: "ReLU" relu_param { negative_slope: 0.1 }'),
    "Clip": ((4, 6, 5, 5), 'type: "Clip" clip_param { min: -0.5 max: 0.7 }'),
    "InnerProduct": ((30, 90), 'type: "InnerProduct" inner_product_param { num_output: 70 }'),
    "InnerProduct, transposed": (
        (90, 30),
        'type: "InnerProduct" inner_product_param { num_output: 7 transpose: true }',
    ),
}
# Layers that may stand in place keep what they need of what they overwrite.
IN_PLACE = ("Scale", "Scale of rows", "BatchNorm", "ReLU", "Clip")
POOLING_DEFAULTS = {"kernel_size": 0, "stride": 1, "pad": 0}  # a kernel of 0 is the whole image
Results = dict[str, np.ndarray]


def layer_text(name: str) -> str:
    if name in CONVOLUTIONS:
        return f'type: "Convolution" convolution_param {{ {CONVOLUTIONS[name][1]} }}'
    return LAYERS[name][1]


def make_net(folder: Path, shape: tuple[int, ...], layer: str, top: str = "y") -> caffe.Net:
    """One layer on an input of that shape; every number of it is random, with a fixed seed."""
    dims = " ".join(f"dim: {size}" for size in shape)
    file = folder / "net.prototxt"
    file.write_text(
        f'force_backward: true layer {{ name: "in" type: "Input" top: "x" input_param {{ shape {{ {dims} }} }} }} '
        f'layer {{ name: "layer" bottom: "x" top: "{top}" {layer} }}'
    )
    net = caffe.Net(str(file), caffe.TRAIN)
    rng = np.random.default_rng(1)
    for blob in net.params.get("layer", []):
        if "BatchNorm" not in layer:
            blob.data[...] = rng.normal(size=blob.data.shape)
    return net


def compute(net: caffe.Net, threads: int = 2, seed: int = 2) -> Results:
    """Forward and backward on random numbers; all that came out."""
    GOMP.omp_set_num_threads(threads)
    rng = np.random.default_rng(seed)
    top = net.outputs[0] if net.outputs else "x"
    x = rng.normal(size=net.blobs["x"].data.shape).astype(np.float32)
    net.blobs["x"].data[...] = x
    for blob in net.params.get("layer", []):
        blob.diff[...] = 0.5  # gradients of parameters are added
    net.forward()
    y = net.blobs[top].data.copy()
    dy = rng.normal(size=y.shape).astype(np.float32)
    net.blobs[top].diff[...] = dy
    net.backward()
    results = {"x": x, "y": y, "dy": dy, "dx": net.blobs["x"].diff.copy()}
    for i, blob in enumerate(net.params.get("layer", [])):
        results[f"parameter {i}"] = blob.data.copy()
        results[f"gradient {i}"] = blob.diff.copy()
    return results


def on_gpu_and_cpu(
    folder: Path, shape: tuple[int, ...], layer: str, top: str = "y"
) -> tuple[Results, Results, Results]:
    """What a net computes on a GPU, twice, and on the CPU, with the same numbers."""
    caffe.set_mode_gpu()
    try:
        net = make_net(folder, shape, layer, top)
        got, again = compute(net), compute(net)
    finally:
        caffe.set_mode_cpu()
    return got, again, compute(make_net(folder, shape, layer.replace("engine: CUDNN", ""), top))


def assert_close(got: Results, expected: Results, tolerance: float) -> None:
    for name, value in expected.items():
        assert np.abs(got[name] - value).max() <= tolerance * np.abs(value).max(), name


def values(text: str, name: str, axes: int, default: int) -> list[int]:
    found = [int(value) for value in re.findall(rf"\b{name}: (\d+)", text)]
    if not found:
        found = [int(v) for axis in "hw" for v in re.findall(rf"\b{name.removesuffix('_size')}_{axis}: (\d+)", text)]
    return (found or [default]) * (axes if len(found) < 2 else 1)


def convolution(text: str, r: Results) -> Results:
    """The convolution of ``r["x"]`` and its gradients in double precision, tap by tap."""
    x, w, dy = (r[name].astype(np.float64) for name in ("x", "parameter 0", "dy"))
    axes = x.ndim - 2
    kernel, stride = values(text, "kernel_size", axes, 1), values(text, "stride", axes, 1)
    pad, dilation = values(text, "pad", axes, 0), values(text, "dilation", axes, 1)
    (groups,) = values(text, "group", 1, 1)
    ends = values(text, "pad_end", axes, 0) if "pad_end" in text else pad
    widths = [(0, 0), (0, 0), *zip(pad, ends, strict=True)]
    x = np.pad(x, widths)
    y, dx, dw = np.zeros(dy.shape), np.zeros(x.shape), np.full(w.shape, 0.5)

    def by_group(array: np.ndarray) -> np.ndarray:
        return array.reshape(array.shape[0], groups, array.shape[1] // groups, -1)

    for tap in product(*map(range, kernel)):
        places = zip(tap, dilation, stride, dy.shape[2:], strict=True)
        seen = (..., *(slice(t * d, t * d + s * (n - 1) + 1, s) for t, d, s, n in places))
        weights, part = w[(..., *tap)].reshape(groups, w.shape[0] // groups, w.shape[1]), x[seen]
        y += np.einsum("goi,ngis->ngos", weights, by_group(part)).reshape(y.shape)
        dx[seen] += np.einsum("goi,ngos->ngis", weights, by_group(dy)).reshape(part.shape)
        dw[(..., *tap)] += np.einsum("ngos,ngis->goi", by_group(dy), by_group(part)).reshape(w.shape[:2])
    expected = {"y": y, "dx": dx[tuple(slice(a, n - b) for (a, b), n in zip(widths, x.shape, strict=True))]}
    expected["gradient 0"] = dw
    if "parameter 1" in r:
        expected["y"] = y + r["parameter 1"].reshape(-1, *[1] * axes)
        expected["gradient 1"] = 0.5 + dy.sum(axis=(0, *range(2, dy.ndim)))
    return expected


def forward(name: str, text: str, r: Results, x: np.ndarray) -> np.ndarray:
    """What a layer of LAYERS makes of ``x``, in double precision."""
    b = [r[f"parameter {i}"].astype(np.float64) for i in range(3) if f"parameter {i}" in r]
    per_channel = (-1, *[1] * (x.ndim - 2))
    if name.startswith("Scale"):
        return x * b[0].reshape(per_channel) + (b[1].reshape(per_channel) if len(b) > 1 else 0)
    if "stored" in name:
        return x / np.sqrt(1e-5)  # nothing is stored yet
    if name.startswith("BatchNorm"):
        axes = (0, *range(2, x.ndim))
        return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + 1e-5)
    if name == "ReLU":
        return np.where(x > 0, x, 0.1 * x)
    if name == "Clip":
        return np.clip(x, -0.5, 0.7)
    if name.startswith("InnerProduct"):
        return x @ (b[0] if "transpose" in text else b[0].T) + b[1]
    if name.startswith("LRN"):
        size, k = values(text, "local_size", 1, 0)[0], values(text, "k", 1, 1)[0]
        beta = float(re.search(r"beta: (\S+)", text)[1])
        squares = np.pad(x**2, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
        total = sum(squares[:, c : c + x.shape[1]] for c in range(size))
        return x * (k + 0.3 / size * total) ** -beta
    return pooling(text, x, r["y"].shape)


def pooling(text: str, x: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    kernel, stride, pad = (values(text, name, 1, default)[0] for name, default in POOLING_DEFAULTS.items())
    kernel = kernel or x.shape[2]
    y = np.empty(shape)
    for h, w in np.ndindex(*shape[2:]):
        top, left = h * stride - pad, w * stride - pad
        window = x[:, :, max(top, 0) : top + kernel, max(left, 0) : left + kernel]
        if "AVE" in text:
            size = (min(top + kernel, x.shape[2] + pad) - top) * (min(left + kernel, x.shape[3] + pad) - left)
            y[:, :, h, w] = window.sum((2, 3)) / size
        else:
            y[:, :, h, w] = window.max((2, 3))
    return y


def compute_by_threads(net: caffe.Net, but: str = "nothing") -> Results:
    """What two threads compute: the same bits again, and nearly those of other numbers of threads."""
    two, again, one, many = (compute(net, threads) for threads in (2, 2, 1, 9))
    for key in two:
        if not key.startswith(but):
            assert two[key].tobytes() == again[key].tobytes(), key
            assert_close({key: one[key]}, {key: two[key]}, 1e-6)
            assert_close({key: many[key]}, {key: two[key]}, 1e-6)
    return two


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_cpu_threads_a_convolution_and_its_gradients_are_right(name, tmp_path):
    got = compute_by_threads(make_net(tmp_path, CONVOLUTIONS[name][0], layer_text(name)))
    assert_close(got, convolution(CONVOLUTIONS[name][1], got), 1e-5)


@pytest.mark.parametrize("name", LAYERS)
def test_cpu_threads_a_layer_and_its_gradient_are_right(name, tmp_path):
    shape, text = LAYERS[name]
    moving = "parameter" if name.startswith("BatchNorm") else "nothing"  # its averages
    got = compute_by_threads(make_net(tmp_path, shape, text), but=moving)
    x, dy = got["x"].astype(np.float64), got["dy"].astype(np.float64)
    assert_close(got, {"y": forward(name, text, got, x)}, 1e-5)
    # The gradient in a random direction, by differences.
    step = np.random.default_rng(4).normal(size=x.shape) * 1e-6
    change = forward(name, text, got, x + step) - forward(name, text, got, x - step)
    assert (change * dy).sum() / 2e-6 == pytest.approx((got["dx"] * step).sum() / 1e-6, rel=1e-3, abs=1e-3)


@pytest.mark.parametrize("name", IN_PLACE)
def test_cpu_threads_a_layer_in_place_gives_what_it_gives_elsewhere(name, tmp_path):
    shape, text = LAYERS[name]
    elsewhere = compute(make_net(tmp_path, shape, text))
    in_place = compute(make_net(tmp_path, shape, text, top="x"))
    assert all(np.array_equal(in_place[key], elsewhere[key]) for key in elsewhere)


def test_cpu_threads_a_large_blob_is_divided_among_threads_without_a_gap(tmp_path):
    layers = (
        """type: "Eltwise" bottom: "x" bottom: "x" eltwise_param { operation: SUM coeff: 2 coeff: 1 coeff: -0.5 }"""
    )
    results = compute(make_net(tmp_path, (3, 7, 61, 83), layers))
    np.testing.assert_allclose(results["y"], 2.5 * results["x"], rtol=1e-6)
    np.testing.assert_allclose(results["dx"], 2.5 * results["dy"], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("name", "gradient"), [("MAX pooling", 4), ("ReLU", 16)])
def test_cpu_threads_values_that_are_no_number_harm_no_other(name, gradient, tmp_path):
    net = make_net(tmp_path, (1, 2, 4, 4), LAYERS[name][1])
    GOMP.omp_set_num_threads(2)
    net.blobs["x"].data[...] = 1
    net.blobs["x"].data[0, 1] = np.nan
    net.forward()
    net.blobs["y"].diff[...] = 1
    net.backward()
    assert net.blobs["x"].diff[0, 0].sum() == gradient and net.blobs["x"].diff[0, 1].sum() == 0


@pytest.mark.parametrize("groups", [1, 4])
def test_cpu_threads_a_net_reshaped_between_passes(groups, tmp_path):
    """A plain convolution and a depthwise one."""
    shape, text = (5, 4, 9, 8), layer_text("plain").replace("num_output: 6", f"num_output: 4 group: {groups}")
    net = make_net(tmp_path, shape, text)
    for other in ((1, 4, 30, 31), (70, 4, 3, 3), shape):
        net.blobs["x"].reshape(*other)
        net.reshape()
        fresh = make_net(tmp_path, other, text)
        assert all(np.array_equal(a, b) for a, b in zip(compute(net).values(), compute(fresh).values(), strict=True))


@pytest.mark.program
def test_cpu_threads_two_nets_in_two_threads_of_python(tmp_path):
    nets = [make_net(tmp_path, (8, 4, 30, 30), layer_text("plain")) for _ in range(2)]
    alone = [compute(net, seed=seed) for seed, net in enumerate(nets)]
    wrong = []

    def work(index: int) -> None:
        for _ in range(10):
            got = compute(nets[index], seed=index)
            wrong.extend(key for key in got if not np.array_equal(got[key], alone[index][key]))

    workers = [threading.Thread(target=work, args=(index,)) for index in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert not worker.is_alive()
    assert not wrong


@pytest.mark.program
def test_cpu_threads_openblas_takes_one_thread_whatever_the_environment_says():
    code = "import caffe, ctypes; print(ctypes.CDLL('libopenblas.so.0').openblas_get_num_threads())"
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "OPENBLAS_NUM_THREADS": "2"}, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr


FORK = """
import os, sys
from pathlib import Path
from tests.docker.test_cpu_threads import compute, layer_text, make_net

net = make_net(Path(sys.argv[1]), (8, 4, 30, 30), layer_text("plain"))
before = compute(net)
child = os.fork()
after = compute(net)
same = all((before[key] == after[key]).all() for key in ("y", "dx"))
if child == 0:
    os._exit(0 if same else 3)
sys.exit(os.waitpid(child, 0)[1] or not same)
"""


@pytest.mark.program
def test_cpu_threads_a_process_forked_after_use_computes_on(tmp_path):
    done = subprocess.run([sys.executable, "-c", FORK, tmp_path], timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


INTERRUPT = """
import os, signal, sys, threading
from pathlib import Path
from tests.docker.test_cpu_threads import compute, layer_text, make_net

net = make_net(Path(sys.argv[1]), (8, 4, 90, 90), layer_text("plain"))
before = compute(net)
for _ in range(20):
    threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
    try:
        while True:
            net.forward()
            net.backward()
    except KeyboardInterrupt:
        pass
after = compute(net)
assert all((before[key] == after[key]).all() for key in before)
"""


@pytest.mark.program
def test_cpu_threads_pycaffe_computes_on_after_interrupts(tmp_path):
    done = subprocess.run([sys.executable, "-c", INTERRUPT, tmp_path], timeout=120, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
