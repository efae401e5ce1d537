"""19-scale-gpu.patch: a Scale layer on a GPU computes what it does on the CPU; without one, its kernels do."""

from pathlib import Path

import numpy as np
import pytest

from tests.caffe_layers.emulation import emulator
from tests.docker.patched import unpack
from tests.docker.test_cpu_threads import assert_close, compute, make_net, on_gpu_and_cpu
from tests.gpu import WHY_NO_GPU

SHAPES = {
    "one value an image": (7, 5),
    "a row shorter than a warp": (3, 4, 3, 3),
    "a row of one block": (2, 3, 16, 16),
    "a row of several rounds": (2, 3, 37, 41),
    "more columns than a block": (5, 40),
    "one image": (1, 3, 9, 5),
    "one channel": (6, 1, 4, 7),
}
FORMS = {
    "with bias": "scale_param { bias_term: true }",
    "without bias": "",
    "of the first axis": "scale_param { axis: 0 num_axes: 1 bias_term: true }",
    "of one number": "scale_param { axis: 0 num_axes: 0 bias_term: true }",
    "without the gradient of the bias": "scale_param { bias_term: true } param { } param { lr_mult: 0 }",
    "without the gradient of the scale": "scale_param { bias_term: true } param { lr_mult: 0 }",
}
THREADS = 256


@pytest.mark.gpu
@pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")
@pytest.mark.parametrize("top", ["y", "x"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", SHAPES)
def test_scale_gpu_a_gpu_computes_what_the_cpu_does(name: str, form: str, top: str, tmp_path: Path) -> None:
    got, again, on_cpu = on_gpu_and_cpu(tmp_path, SHAPES[name], f'type: "Scale" {FORMS[form]}', top)
    # The gradients of one number are sums of all, which nearly cancel.
    tolerance = 1e-4 if form == "of one number" else 1e-5
    assert_close(got, on_cpu, tolerance)
    assert all(got[key].tobytes() == again[key].tobytes() for key in got)


WRAPPERS = """
extern "C" __global__ void rows(int rows, int dim, int inner, const float* x, const float* scale, const float* bias,
    float* y) {
  ScaleRows<float>(rows, dim, inner, x, scale, bias, nullptr, y);
}
extern "C" __global__ void rows_in_place(int rows, int dim, int inner, const float* scale, const float* bias,
    float* kept, float* y) {
  ScaleRows<float>(rows, dim, inner, y, scale, bias, kept, y);
}
extern "C" __global__ void row_gradients(int rows, int dim, int inner, const float* x, const float* scale,
    const float* dy, float* row_sums, float* dx) {
  ScaleRowGradients<float>(rows, dim, inner, x, scale, dy, row_sums, dx);
}
extern "C" __global__ void row_gradients_in_place(int rows, int dim, int inner, const float* x, const float* scale,
    float* row_sums, float* dx) {
  ScaleRowGradients<float>(rows, dim, inner, x, scale, dx, row_sums, dx);
}
extern "C" __global__ void gradients(int outer, int dim, const float* row_sums, float* dscale, float* dbias) {
  ScaleGradients<float>(outer, dim, row_sums, dscale, dbias);
}
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The kernels of scale_layer.cu, called by functions that the emulator can launch."""
    folder, file = tmp_path_factory.mktemp("scale"), "src/caffe/layers/scale_layer.cu"
    unpack(folder, "19-scale-gpu.patch", file)
    source = (folder / file).read_text()
    device = source[source.index("// Rows are those") : source.index("// A block for rows")]
    assert f"THREADS = {THREADS};" in device
    return device.replace("__global__", "__device__") + WRAPPERS


@pytest.mark.program
@pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++, which compiles kernels for the emulator")
@pytest.mark.parametrize("top", ["y", "x"])
@pytest.mark.parametrize("form", ["with bias", "without bias"])
@pytest.mark.parametrize("name", SHAPES)
def test_scale_gpu_the_kernels_compute_it_too(name: str, form: str, top: str, kernels: str, tmp_path: Path) -> None:
    shape = SHAPES[name]
    on_cpu = compute(make_net(tmp_path, shape, f'type: "Scale" {FORMS[form]}', top))
    outer, dim, inner = shape[0], shape[1], int(np.prod(shape[2:]))
    x, dy, scale, bias = (on_cpu.get(key) for key in ("x", "dy", "parameter 0", "parameter 1"))
    width = min(THREADS, 1 << (inner - 1).bit_length())
    block = (width, THREADS // width)
    grid = (-(-outer * dim // block[1]),)
    module = emulator.compile(kernels, ("-std=c++17",), name="scale_layer.cu")
    numbers = tuple(map(np.int32, (outer * dim, dim, inner)))
    row_sums = np.full(2 * outer * dim, np.nan, np.float32)
    got = {"gradient 0": np.full_like(scale, 0.5)}
    if bias is not None:
        got["gradient 1"] = np.full_like(bias, 0.5)
    if top == "x":
        kept = np.full_like(x, np.nan)
        got |= {"y": x.copy(), "dx": dy.copy()}
        module.launch("rows_in_place", grid, block, (*numbers, scale, bias, kept, got["y"]))
        module.launch("row_gradients_in_place", grid, block, (*numbers, kept, scale, row_sums, got["dx"]))
    else:
        got |= {"y": np.full_like(x, np.nan), "dx": np.full_like(dy, np.nan)}
        module.launch("rows", grid, block, (*numbers, x, scale, bias, got["y"]))
        module.launch("row_gradients", grid, block, (*numbers, x, scale, dy, row_sums, got["dx"]))
    arguments = (np.int32(outer), np.int32(dim), row_sums, got["gradient 0"], got.get("gradient 1"))
    module.launch("gradients", (-(-dim // 32),), (32, THREADS // 32), arguments)
    assert_close(got, {key: on_cpu[key] for key in got}, 1e-5)
