"""The GPU's half of the layers: beside the CPU's on larger problems, and what it promises about launches and order.

The tests of each layer's file run on every device as well.
"""

import caffe
import numpy as np
import pytest

from bench import training
from caffe_layers._gpu_mda import SLICES, lanes
from tests.caffe_layers import reference
from tests.caffe_layers.emulation.device import GpuMode
from tests.caffe_layers.nets import fill, forward_twice, inputs, make_net, mda, python_layer
from tests.caffe_layers.steps import random_rows
from tests.gpu import WHY_NO_GPU

pytestmark = pytest.mark.program

NO_GPU = pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")
GPUS = ["emulated", pytest.param("cuda", marks=[pytest.mark.gpu, NO_GPU])]
gpus = pytest.mark.parametrize("gpu", GPUS, indirect=True)


@pytest.fixture
def gpu(request, monkeypatch):
    """A function that switches Caffe's layers to the GPU; they begin on the CPU."""
    emulated = GpuMode(monkeypatch, on=False) if request.param == "emulated" else None

    def switch(on=True):
        if emulated:
            emulated.on = on
        else:
            caffe.set_mode_gpu() if on else caffe.set_mode_cpu()
        return emulated

    yield switch
    caffe.set_mode_cpu()


@pytest.fixture
def emulated(monkeypatch):
    return GpuMode(monkeypatch, "forward").log


def mda_net(shape, domains, rng, **params):
    x = (rng.normal(size=shape) * rng.uniform(0.5, 3, (shape[1], *[1] * (len(shape) - 2))) + 1).astype(np.float32)
    w = random_rows(rng, shape[0], domains, empty=domains > 2, hard=0.3).astype(np.float32)
    net = make_net(inputs(x=shape, w=w.shape) + mda("xw", "y", domains, **params))
    fill(net, x=x, w=w)
    return net, rng.normal(size=shape).astype(np.float32)


def results(net, g, steps=2):
    for _ in range(steps):
        net.forward()
        net.blobs["y"].diff[...] = g
        for name in "xw":
            net.blobs[name].diff.fill(7)
        net.backward()
    blobs = {f"blob {number}": blob.data.copy() for number, blob in enumerate(net.params["y"])}
    return {name: net.blobs[name].diff.copy() for name in "xw"} | {"y": net.blobs["y"].data.copy()} | blobs


def assert_same(got, want, relative=1e-4):
    for name, value in want.items():
        scale = np.abs(value).max()
        assert np.isfinite(got[name]).all(), name
        assert np.abs(got[name] - value).max() <= relative * scale, name


# Rows of a whole block and of every number of lanes, odd sizes whose rows begin at every alignment; single values with
# channels and samples that fill no tile; many domains.
PROBLEMS = [
    ((3, 5, 37, 37), 3),
    ((2, 3, 56, 56), 2),
    ((4, 64, 14, 14), 4),
    ((5, 33, 7, 7), 3),
    ((6, 70, 3, 3), 3),
    ((5, 3, 2, 1), 2),
    ((40, 100), 3),
    ((37, 1, 1, 1), 2),
    ((1, 2, 5, 5), 1),
    ((20, 4, 3, 3), 17),
]


@gpus
@pytest.mark.parametrize(("shape", "domains"), PROBLEMS)
@pytest.mark.parametrize("use_global_stats", [False, True])
def test_gpu_the_same_as_on_the_cpu(gpu, shape, domains, use_global_stats):
    both = []
    for on in (False, True):
        gpu(on)
        net, g = mda_net(shape, domains, np.random.default_rng(1), use_global_stats=use_global_stats)
        if use_global_stats:
            for blob in net.params["y"]:
                blob.data[...] = np.random.default_rng(2).uniform(1, 2, blob.data.shape)
        both.append(results(net, g))
    assert_same(both[1], both[0], 2e-6 if gpu() else 1e-4)


@gpus
@pytest.mark.parametrize("shape", [(6, 3, 40, 40), (6, 3, 5, 5), (64, 3)])
def test_gpu_hard_numbers(gpu, shape):
    # Means far above the deviation, an outlier where a thread begins, and a channel of one value.
    gpu()
    rng = np.random.default_rng(0)
    net, g = mda_net(shape, 2, rng)
    x = net.blobs["x"].data.reshape(*shape[:2], -1)
    x += 1000
    x[0, 0, 0] = 1e5
    x[:, 1] = 3
    expected = reference.domain_statistics(x.astype(np.float64), net.blobs["w"].data.astype(np.float64))
    results(net, g, steps=1)
    mean, variance, divisor = (blob.data for blob in net.params["y"])
    assert np.array_equal(divisor, [1, 1])
    assert np.allclose(mean, expected[0], rtol=1e-6)
    mass = net.blobs["w"].data.astype(np.float64).sum(axis=0) * x.shape[2]
    unbiased = expected[1] * np.minimum(mass / (mass - 1), 2)[:, None]
    assert np.allclose(variance[:, [0, 2]], unbiased[:, [0, 2]], rtol=1e-5)
    assert (np.abs(variance[:, 1]) < 1e-6).all()


@pytest.mark.parametrize(("shape", "domains"), [((3, 5, 37, 37), 3), ((5, 33, 7, 7), 3), ((40, 100), 3)])
def test_gpu_no_result_depends_on_the_order_of_threads_and_blocks(emulated, shape, domains):
    runs = []
    for order in ("forward", "reverse", "shuffled"):
        emulated.order = order
        net, g = mda_net(shape, domains, np.random.default_rng(1))
        runs.append(results(net, g))
    for other in runs[1:]:
        for name, value in runs[0].items():
            assert np.array_equal(value, other[name]), name


ROWS = (2, 3, 4, 4)


@pytest.mark.parametrize(
    ("asked", "fixed", "launches"),
    [
        ((True, False), False, "row_gradients gradients row_input_gradient"),
        ((False, True), False, "row_gradients gradients weight_gradient"),
        ((True, False), True, "gradients row_affine"),
        ((False, False), False, ""),
    ],
)
def test_gpu_no_launch_for_a_gradient_that_nobody_asked_for(emulated, asked, fixed, launches):
    net, g = mda_net(ROWS, 2, np.random.default_rng(0), use_global_stats=fixed)
    net.forward()
    bottoms = [net.blobs["x"], net.blobs["w"]]
    for blob in bottoms:
        blob.diff.fill(7)
    net.blobs["y"].diff[...] = g
    emulated.started.clear()
    net.layers[-1].backward([net.blobs["y"]], list(asked), bottoms)
    assert emulated.started == launches.split()
    assert [not (blob.diff == 7).any() for blob in bottoms] == list(asked)


# Odd rows of a block, of some lanes, and single values.
@pytest.mark.parametrize("shape", [(3, 5, 37, 37), (20, 33, 7, 7), (50, 100)])
def test_gpu_the_memory_traffic_is_three_arrays_forward_and_five_backward(emulated, shape):
    net, _ = mda_net(shape, 3, np.random.default_rng(0))
    moved = []
    for step in (net.forward, net.backward):
        emulated.traffic.clear()
        step()
        large = [traffic.get(name, (0, 0)) for traffic in emulated.traffic for name in ("x", "y", "g", "dx")]
        moved.append(np.sum(large, axis=0) / (4 * np.prod(shape)))
    # A thread takes one value more to count from; it lies in a cache line that its block reads anyway.
    size = int(np.prod(shape[2:]))
    again = SLICES / shape[0] if size == 1 else lanes(size) / size
    assert np.allclose(moved[0], [2 + again, 1], rtol=1e-9)
    assert np.allclose(moved[1], [4, 1], rtol=1e-9)


@gpus
def test_gpu_the_mode_may_change_between_two_passes(gpu):
    net, g = mda_net(ROWS, 2, np.random.default_rng(0))
    on_cpu = results(net, g, steps=1)
    gpu()
    on_gpu = results(net, g, steps=1)
    gpu(False)
    again = results(net, g, steps=1)
    for name in ("x", "w", "y"):
        assert_same(on_gpu, {name: on_cpu[name]}, 1e-5)
        assert np.array_equal(again[name], on_cpu[name])
    # The running statistics went through all three.
    assert np.allclose(net.params["y"][2].data, 1 + 0.999 + 0.999**2)


def wrong_row(net):
    net.blobs["w"].data[9] = [0.2, 0.2]


def wrong_column(net):
    net.blobs["w"].data[...] = [1, 0]
    net.blobs["w"].data[:2] = [[1.04, -0.04], [0.98, 0.02]]


def wrong_channel(net):
    net.blobs["x"].data[3, 2] = np.inf


@gpus
@pytest.mark.parametrize(
    ("spoil", "expected"),
    [
        (wrong_row, r"row 9 of w .* 0\.4\)"),
        (wrong_column, r"column 1 of w sums to -0\.02"),
        (wrong_channel, r"the variance of x in channel 2 is"),
    ],
)
@pytest.mark.parametrize("rows", [2, 40])
def test_gpu_what_is_told_after_the_shape_changed_is_of_the_batch_that_was_wrong(gpu, spoil, expected, rows):
    gpu()
    net, _ = mda_net((12, 3, 4), 2, np.random.default_rng(0))
    spoil(net)
    net.forward()
    net.blobs["x"].reshape(rows, 3, 4)
    net.blobs["w"].reshape(rows, 2)
    fill(net, x=1, w=0.5)
    with pytest.raises(ValueError, match=expected):
        forward_twice(net)


@gpus
@pytest.mark.parametrize("shape", [(700, 7), (3, 5, 20, 20)])
@pytest.mark.parametrize("params", [None, {"of_mean": True}])
def test_gpu_entropies_of_many_blocks(gpu, params, shape):
    rng = np.random.default_rng(0)
    logits = rng.normal(size=shape).astype(np.float32)
    labels = np.where(rng.random(shape[0]) < 0.3, 1, -1)
    both = []
    for on in (False, True):
        gpu(on)
        layer = python_layer("EntropyLossLayer", ["logits", "labels"], "h", params, extra="loss_weight: 2")
        net = make_net(inputs(logits=shape, labels=shape[:1]) + layer)
        fill(net, logits=logits, labels=labels)
        net.forward()
        net.backward()
        both.append({"h": net.blobs["h"].data.copy(), "dlogits": net.blobs["logits"].diff.copy()})
    assert_same(both[1], both[0], 1e-6)


@gpus
def test_gpu_iterations_of_the_digits_net(gpu):
    net = training.net_in_memory(dataset="digits", batch_size=4, branch_norm="none")
    losses = []
    for on in (False, True):
        gpu(on)
        solver = training.make_solver(net, base_lr=0.03)
        losses.append([])
        for _ in range(6):
            solver.step(1)
            losses[-1].append([float(solver.net.blobs[name].data) for name in solver.net.outputs])
    cpu, other = np.array(losses)
    assert cpu.shape[1] == 4  # classification, the two entropies, and domain labels of which none is known
    assert np.abs(cpu[-1] - cpu[0]).max() > 0.1  # it did train
    # By the last bit another pixel may be the largest in a pooled square. Then losses part, on OpenBLAS's SkylakeX from
    # the fourth iteration on.
    first = np.abs(other - cpu)[:3].max() / np.abs(cpu).max()
    assert first <= (1e-4 if gpu() else 1e-2)
    assert np.abs(other - cpu).max() <= 1e-2 * np.abs(cpu).max()
