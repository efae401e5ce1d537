"""docker/patches/22-depthwise.patch: convolutions with one kernel for each channel.

On a GPU also those that 20-cudnn-groups.patch and 21-pad-end.patch change.
"""

import re
from collections.abc import Iterator

import caffe
import numpy as np
import pytest

from latent_domains.common.program import ROOT
from latent_domains.networks import lite0
from tests.caffe_layers.emulation import emulator
from tests.docker.test_cpu_threads import assert_close, compute, convolution, make_net, on_gpu_and_cpu, values
from tests.gpu import WHY_NO_GPU


def lite0_shapes() -> Iterator[tuple[tuple[int, ...], str]]:
    """Every depthwise convolution of EfficientNet-Lite0 at 224×224, as the shape of the images and the parameters."""
    size = 112
    for block in lite0.LAYERS.blocks():
        k = block.kernel_size
        pad = f"pad: {k // 2}" if block.stride == 1 else f"pad: {k // 2 - 1} pad_end: {k // 2}"
        yield (
            (2, block.wide, size, size),
            f"num_output: {block.wide} group: {block.wide} kernel_size: {k} stride: {block.stride} {pad}",
        )
        size //= block.stride


DEPTHWISE = {
    **{f"{shape} {text}": (shape, text) for shape, text in lite0_shapes()},
    "odd sizes": ((3, 5, 13, 9), "num_output: 5 group: 5 kernel_size: 3 pad: 1"),
    "odd sizes, strided": ((3, 5, 13, 9), "num_output: 5 group: 5 kernel_size: 5 stride: 2 pad: 2"),
    "one image": ((1, 7, 8, 6), "num_output: 7 group: 7 kernel_size: 3 stride: 2 pad: 1"),
    "one channel": ((3, 1, 11, 10), "num_output: 1 kernel_size: 5 pad: 2"),
    "one pixel": ((2, 3, 1, 1), "num_output: 3 group: 3 kernel_size: 3 pad: 1"),
    "no padding": ((2, 3, 9, 40), "num_output: 3 group: 3 kernel_size: 3"),
    "no bias": ((2, 3, 9, 8), "num_output: 3 group: 3 kernel_size: 3 pad: 1 bias_term: false"),
    "much padding at the end": ((2, 3, 6, 7), "num_output: 3 group: 3 kernel_size: 3 stride: 2 pad: 2 pad_end: 9"),
    "rows that no tap sees": ((2, 3, 9, 9), "num_output: 3 group: 3 kernel_size: 2 stride: 4"),
    "oblong": (
        (2, 4, 12, 17),
        "num_output: 4 group: 4 kernel_h: 4 kernel_w: 6 stride_h: 3 stride_w: 2 pad_h: 1 pad_w: 5",
    ),
    "kernels of one value": ((2, 5, 6, 7), "num_output: 5 group: 5 kernel_size: 1 stride: 2"),
    "many channels": ((2, 3000, 3, 3), "num_output: 3000 group: 3000 kernel_size: 3 pad: 1"),
}
OTHERS = {
    "two outputs for each channel": ((2, 4, 7, 8), "num_output: 8 group: 4 kernel_size: 3 pad: 1"),
    "two channels for each output": ((2, 8, 7, 8), "num_output: 4 group: 4 kernel_size: 3 pad: 1"),
    "dilation": ((2, 4, 9, 9), "num_output: 4 group: 4 kernel_size: 3 dilation: 2 pad: 2"),
    "padding as wide as the kernel": ((2, 4, 5, 6), "num_output: 4 group: 4 kernel_size: 3 pad: 3"),
    "three dimensions": ((2, 4, 4, 5, 6), "num_output: 4 group: 4 kernel_size: 3 pad: 1"),
}
"""Of these the first two are grouped, and the others depthwise, but none is what the direct code takes."""

ON_CUDNN = {
    "groups": ((2, 32, 9, 10), "num_output: 64 group: 16 kernel_size: 3 pad: 1 stride: 2"),
    "depthwise": ((2, 32, 9, 10), "num_output: 32 group: 32 kernel_size: 3 pad: 1 engine: CUDNN"),
    "padded at the end": ((2, 3, 64, 64), "num_output: 32 kernel_size: 3 stride: 2 pad_end: 1"),
}


def layer(text: str) -> str:
    return f'type: "Convolution" convolution_param {{ {text} }}'


@pytest.mark.parametrize("name", DEPTHWISE)
def test_depthwise_a_depthwise_convolution_and_its_gradients_are_right(name, tmp_path):
    shape, text = DEPTHWISE[name]
    net = make_net(tmp_path, shape, layer(text))
    one, two, many = (compute(net, threads) for threads in (1, 2, 9))
    assert_close(one, convolution(text, one), 1e-5)
    for key in one:
        assert one[key].tobytes() == two[key].tobytes() == many[key].tobytes(), key


@pytest.mark.parametrize("name", OTHERS)
def test_depthwise_what_the_direct_code_does_not_take(name, tmp_path):
    shape, text = OTHERS[name]
    got = compute(make_net(tmp_path, shape, layer(text)))
    assert_close(got, convolution(text, got), 1e-5)


@pytest.mark.parametrize(
    ("change", "kept"),
    [("propagate_down: false", "dx"), ("propagate_down: true param { lr_mult: 0 }", "gradient 0")],
)
def test_depthwise_a_gradient_that_is_not_asked_for(change, kept, tmp_path):
    whole = make_net(tmp_path, (2, 3, 9, 8), layer("num_output: 3 group: 3 kernel_size: 3 stride: 2 pad: 1"))
    file = tmp_path / "net.prototxt"
    text = file.read_text().replace("force_backward: true", "")
    file.write_text(text.replace('type: "Conv', f'loss_weight: 1 {change} type: "Conv'))
    part = caffe.Net(str(file), caffe.TRAIN)
    for mine, its in zip(part.params["layer"], whole.params["layer"], strict=True):
        mine.data[...] = its.data
    part.blobs["x"].diff[...] = 0.5
    expected, got = compute(whole), compute(part)
    assert all(np.array_equal(got[key], expected[key]) for key in expected if key != kept)
    assert (got[kept] == 0.5).all()


@pytest.mark.gpu
@pytest.mark.skipif(WHY_NO_GPU is not None, reason=WHY_NO_GPU or "")
@pytest.mark.parametrize("name", [*DEPTHWISE, *OTHERS, *ON_CUDNN])
def test_depthwise_a_gpu_computes_what_the_cpu_does(name, tmp_path):
    shape, text = {**DEPTHWISE, **OTHERS, **ON_CUDNN}[name]
    got, again, on_cpu = on_gpu_and_cpu(tmp_path, shape, layer(text))
    assert_close(got, on_cpu, 1e-5 if name in DEPTHWISE else 1e-4)
    if name in DEPTHWISE:
        assert all(got[key].tobytes() == again[key].tobytes() for key in got)


# The kernels of the GPU, on the CPU.

WRAPPERS = """
#define SHAPE int n, int c, int h, int w, int oh, int ow, int kh, int kw, int sh, int sw, int ph, int pw
#define SHAPED Depthwise{n, c, h, w, oh, ow, kh, kw, sh, sw, ph, pw}
extern "C" __global__ void forward(SHAPE, const float* x, const float* weights, const float* bias, float* y) {
  depthwise_forward<float>(n * c * oh * ow, SHAPED, x, weights, bias, y);
}
extern "C" __global__ void input(SHAPE, const float* dy, const float* weights, float* dx) {
  depthwise_input<float>(n * c * h * w, SHAPED, dy, weights, dx);
}
extern "C" __global__ void weights(SHAPE, const float* dy, const float* x, float* dw) {
  depthwise_weights<float>(SHAPED, dy, x, dw);
}
"""
EMULATED = [name for name, (shape, _) in DEPTHWISE.items() if np.prod(shape) < 30000]


def added_file(patch: str, file: str) -> str:
    """A file that a patch adds."""
    text = (ROOT / "docker/patches" / patch).read_text()
    return "\n".join(line[1:] for line in text.split(f"+++ b/{file}\n")[1].split("\n--- ")[0].splitlines()[1:])


def kernels() -> str:
    """The kernels of depthwise.cu, called by functions that the emulator can launch."""
    header = added_file("22-depthwise.patch", "include/caffe/util/depthwise.hpp")
    source = added_file("22-depthwise.patch", "src/caffe/util/depthwise.cu")
    shape = re.search(r"struct Depthwise \{.*?\};", header, re.DOTALL)[0]
    device = source[source.index("// One thread") : source.index("template <typename Dtype>\nvoid")]
    loop = "#define CUDA_KERNEL_LOOP(i, n) for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < (n); \\\n"
    loop += "  i += blockDim.x * gridDim.x)\n"
    return loop + shape + "\n" + device.replace("__global__", "__device__") + WRAPPERS


@pytest.mark.program
@pytest.mark.skipif(emulator.COMPILER is None, reason="needs g++, which compiles kernels for the emulator")
@pytest.mark.parametrize("name", EMULATED)
def test_depthwise_the_kernels_of_the_gpu_compute_it_too(name, tmp_path):
    shape, text = DEPTHWISE[name]
    on_cpu = compute(make_net(tmp_path, shape, layer(text)))
    x, dy, w = (on_cpu[key] for key in ("x", "dy", "parameter 0"))
    numbers = [*x.shape, *dy.shape[2:], *w.shape[2:], *values(text, "stride", 2, 1), *values(text, "pad", 2, 0)]
    numbers = tuple(map(np.int32, numbers))
    module = emulator.compile(kernels(), ("-std=c++17",), name="depthwise.cu")
    got = {"y": np.full_like(dy, np.nan), "dx": np.full_like(x, np.nan), "gradient 0": np.full_like(w, 0.5)}
    module.launch("forward", (3,), (64,), (*numbers, x, w, on_cpu.get("parameter 1"), got["y"]))
    module.launch("input", (2,), (64,), (*numbers, dy, w, got["dx"]))
    module.launch("weights", (shape[1], w.shape[2] * w.shape[3]), (256,), (*numbers, dy, x, got["gradient 0"]))
    assert_close(got, {key: on_cpu[key] for key in got}, 1e-5)
