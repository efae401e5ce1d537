"""Every kernel compiled as a GPU needs it, by NVRTC: with the macros that the layers ask for."""

import re

import pytest

from caffe_layers import _cuda_source
from caffe_layers._backend import Fault, Geometry
from caffe_layers._device import Gpu
from caffe_layers._gpu_mda import GpuMda
from caffe_layers._gpu_softmax import GpuAssignment, GpuEntropy, GpuMeanEntropy
from latent_domains.common.program import ROOT
from tests.caffe_layers.emulation import cupy, nvrtc

# What Caffe is built for. NVRTC 11.8 knows the first of them, NVRTC 13 the last.
DEFAULT = re.search(r"\{CUDA_ARCH_BIN:-([\d ]+)\}", (ROOT / "docker/build_caffe.sh").read_text())[1]
ARCHITECTURES = tuple(map(int, DEFAULT.split()))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not nvrtc.installed(), reason="needs NVRTC: pip install -r requirements/dev.txt"),
]


class AskedDevice(Gpu):
    """Notes what the layers have compiled."""

    def __init__(self) -> None:
        super().__init__(cupy, cupy.DEVICE)
        self.asked: list[tuple[str, tuple[str, ...]]] = []

    def kernels(self, source, **macros):
        options = (f"-D{name}={value}" for name, value in macros.items())
        self.asked.append((source, ("-std=c++14", "-ftz=true", *options)))  # CuPy adds the second one


def mda(size: int, domains: int) -> tuple[str, tuple[str, ...]]:
    """The source and the options for an MDALayer whose rows have ``size`` values."""
    device = AskedDevice()
    GpuMda(device, Fault(device), Geometry(4, 3, size, domains), 1e-5, 0.999, False)
    return device.asked[0]


def softmax() -> tuple[str, tuple[str, ...]]:
    """The same for the layers that share a source without options."""
    device = AskedDevice()
    GpuAssignment(device, Fault(device), (4, 2), 0, 3)
    GpuEntropy(device, Fault(device), (4, 3, 1))
    GpuMeanEntropy(device, Fault(device), (4, 3, 1))
    first, *others = device.asked
    assert others == [first, first]
    return first


def compile_and_compare(compiler, asked, architecture):
    for name, options in asked:
        source = _cuda_source.source(name)
        ptx = compiler.compile(source, f"{name}.cu", options, architecture)
        assert f".target sm_{architecture}" in ptx
        kernels = re.findall(r'extern "C" __global__ void [^;{]*?(\w+)\([^()]*\)\s*\{', source)
        assert sorted(re.findall(r"\.visible \.entry (\w+)", ptx)) == sorted(kernels)
        assert len(kernels) == source.count("__global__") >= 5


def test_nvrtc_every_kernel_for_the_architectures_that_caffe_is_built_for():
    """By CUDA 11.8 for its oldest and its newest, by CUDA 13 for each; rows of many values and of one, few domains and
    many."""
    oldest, newest = nvrtc.installed()[0], nvrtc.installed()[-1]
    assert oldest.version == (11, 8) and newest.version == (13, 0)
    sources = [mda(5, 2), softmax()]
    assert {path.stem for path in (ROOT / "caffe_layers").glob("*.cu")} == {name for name, _ in sources}
    by_oldest, by_newest = ([each for each in ARCHITECTURES if each in of.architectures()] for of in (oldest, newest))
    assert by_oldest[0] == 60 and by_newest[-1] == 120 and {*by_oldest, *by_newest} == {*ARCHITECTURES}
    compile_and_compare(oldest, [*sources, mda(1, 2)], by_oldest[0])
    compile_and_compare(oldest, [mda(5, 16)], by_oldest[-1])
    for architecture in by_newest:
        compile_and_compare(newest, sources, architecture)
    compile_and_compare(newest, [mda(1, 2), mda(5, 16)], by_newest[-1])
