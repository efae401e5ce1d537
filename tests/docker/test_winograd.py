"""docker/patches/14-8-winograd.patch: convolutions of 3x3 taps by fewer products."""

import os
import subprocess
import sys
from pathlib import Path

import caffe
import numpy as np
import pytest

from tests.docker.test_cpu_threads import Results, assert_close, compute, convolution, make_net

# name: shape of the images, the convolution's parameters
SUITABLE = {
    "plain": ((5, 33, 17, 14), "num_output: 40 kernel_size: 3 pad: 1"),
    "no bias": ((5, 32, 16, 16), "num_output: 32 kernel_size: 3 pad: 1 bias_term: false"),
    "without padding": ((3, 32, 22, 21), "num_output: 45 kernel_size: 3"),
    "two rows of padding": ((4, 32, 14, 13), "num_output: 32 kernel_size: 3 pad: 2"),
    "three rows of padding": ((4, 32, 12, 13), "num_output: 32 kernel_size: 3 pad: 3"),
    "one row": ((64, 32, 1, 8), "num_output: 32 kernel_size: 3 pad: 2"),
    "padded at the end": ((4, 36, 15, 16), "num_output: 32 kernel_size: 3 pad: 0 pad_end: 2"),
    "padding for each axis": ((5, 32, 18, 12), "num_output: 32 kernel_size: 3 pad_h: 0 pad_w: 2"),
    "more than one block of tiles": ((2, 32, 64, 66), "num_output: 32 kernel_size: 3 pad: 1"),
    "many small images": ((64, 96, 5, 3), "num_output: 64 kernel_size: 3 pad: 1"),
}
OTHERS = {
    "stride": ((8, 32, 32, 32), "num_output: 32 kernel_size: 3 pad: 1 stride: 2"),
    "dilation": ((8, 32, 16, 16), "num_output: 32 kernel_size: 3 pad: 2 dilation: 2"),
    "groups": ((8, 64, 16, 16), "num_output: 64 kernel_size: 3 pad: 1 group: 2"),
    "five taps": ((8, 32, 16, 16), "num_output: 32 kernel_size: 5 pad: 2"),
    "three taps in one axis": ((8, 32, 16, 16), "num_output: 32 kernel_h: 3 kernel_w: 1 pad_h: 1 pad_w: 0"),
    "one dimension": ((8, 32, 16), "num_output: 32 kernel_size: 3 pad: 1"),
    "few channels": ((8, 31, 16, 16), "num_output: 32 kernel_size: 3 pad: 1"),
    "few outputs": ((8, 32, 16, 16), "num_output: 31 kernel_size: 3 pad: 1"),
    "many channels": ((4, 32, 16, 16), "num_output: 2049 kernel_size: 3 pad: 1"),
    "few tiles": ((7, 32, 12, 12), "num_output: 32 kernel_size: 3 pad: 1"),
    "tiny images": ((70, 32, 2, 2), "num_output: 32 kernel_size: 3 pad: 1"),
    "by the general path": ((8, 32, 16, 16), "num_output: 32 kernel_size: 3 pad: 1 force_nd_im2col: true"),
}


def layer(name: str) -> str:
    return f'type: "Convolution" convolution_param {{ {(SUITABLE | OTHERS)[name][1]} }}'


def make(folder: Path, name: str) -> caffe.Net:
    return make_net(folder, (SUITABLE | OTHERS)[name][0], layer(name))


def results(folder: Path, name: str, threads: int = 2) -> Results:
    return compute(make(folder, name), threads)


WITHOUT = """
import sys
from pathlib import Path
import numpy as np
from tests.docker.test_winograd import OTHERS, SUITABLE, results

folder = Path(sys.argv[1])
for i, name in enumerate(SUITABLE | OTHERS):
    np.savez(folder / f"{i}.npz", **results(folder, name))
"""


def run_without(folder: Path, setting: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "CAFFE_WINOGRAD": setting}
    return subprocess.run([sys.executable, "-c", WITHOUT, folder], env=environment, capture_output=True, text=True)


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    """What columns give, by the convolution's name."""
    folder = tmp_path_factory.mktemp("without")
    done = run_without(folder, "0")
    assert done.returncode == 0, done.stderr
    return {name: np.load(folder / f"{i}.npz") for i, name in enumerate(SUITABLE | OTHERS)}


@pytest.mark.parametrize("name", SUITABLE)
def test_winograd_numbers_are_right(name, tmp_path):
    got = results(tmp_path, name)
    assert_close(got, convolution(SUITABLE[name][1], got), 5e-6)
    for threads in (1, 3):
        other = results(tmp_path, name, threads)
        assert all(np.array_equal(got[key], other[key]) for key in got)


@pytest.mark.program
@pytest.mark.parametrize("name", SUITABLE)
def test_winograd_is_used_where_it_suits(name, tmp_path, without):
    got = results(tmp_path, name)
    for key in ("y", "dx", "gradient 0"):
        assert not np.array_equal(got[key], without[name][key]), key
    assert_close(without[name], got, 5e-6)


@pytest.mark.program
@pytest.mark.parametrize("name", OTHERS)
def test_winograd_is_not_used_elsewhere(name, tmp_path, without):
    got = results(tmp_path, name)
    assert all(np.array_equal(got[key], without[name][key]) for key in got)


@pytest.mark.parametrize("value", [np.inf, np.nan])
def test_winograd_what_is_no_number_stays_in_its_tiles(value, tmp_path):
    net = make(tmp_path, "plain")
    expected = compute(net)["y"]
    net.blobs["x"].data[2, 3, 6, 6] = value
    net.forward()
    got = net.blobs["y"].data
    assert not np.isfinite(got[2, :, 5:8, 5:8]).any()  # the outputs that it belongs to
    got[2, :, 4:8, 4:8] = expected[2, :, 4:8, 4:8]
    assert np.array_equal(got, expected)


def test_winograd_several_bottoms_add_their_gradients_of_the_weights(tmp_path):
    got = results(tmp_path, "plain")
    both = make_net(tmp_path, SUITABLE["plain"][0], f'bottom: "x" top: "z" {layer("plain")}')
    both.blobs["x"].data[...] = got["x"]
    for blob in both.params["layer"]:
        blob.diff[...] = 0
    both.forward()
    for top in "yz":
        both.blobs[top].diff[...] = got["dy"]
    both.backward()
    assert np.array_equal(both.blobs["z"].data, got["y"])
    assert_close({"g": both.params["layer"][0].diff / 2 + 0.5}, {"g": got["gradient 0"]}, 1e-6)


@pytest.mark.program
def test_winograd_refuses_a_setting_that_it_does_not_know(tmp_path):
    done = run_without(tmp_path, "off")
    assert done.returncode != 0 and "CAFFE_WINOGRAD is 'off': expected 0 or 1" in done.stderr


def test_winograd_a_net_reshaped_between_passes(tmp_path):
    shape = SUITABLE["plain"][0]
    net = make(tmp_path, "plain")
    for other in ((1, *shape[1:]), (11, *shape[1:]), shape):
        net.blobs["x"].reshape(*other)
        net.reshape()
        fresh = make_net(tmp_path, other, layer("plain"))
        assert all(np.array_equal(a, b) for a, b in zip(compute(net).values(), compute(fresh).values(), strict=True))
