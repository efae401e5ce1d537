"""docker/patches/21-pad-end.patch; its numbers are among the convolutions of test_cpu_threads.py."""

import subprocess

import pytest

from tests.docker.test_cpu_threads import make_net


@pytest.mark.parametrize(
    ("size", "parameters", "height"),
    [
        (224, "kernel_size: 3 stride: 2 pad_end: 1", 112),
        (112, "kernel_size: 5 stride: 2 pad: 1 pad_end: 2", 56),
        (7, "kernel_size: 3 stride: 2 pad: 1", 4),
        (7, "kernel_size: 3 stride: 2 pad: 1 pad_end: 0", 3),
    ],
)
def test_pad_end_the_outputs_shape(size, parameters, height, tmp_path):
    net = make_net(tmp_path, (1, 2, size, 9), f'type: "Convolution" convolution_param {{ num_output: 1 {parameters} }}')
    assert net.blobs["y"].shape[2] == height


@pytest.mark.program
@pytest.mark.parametrize(
    ("layer", "message"),
    [
        ('"Convolution" convolution_param { num_output: 1 kernel_size: 3 pad_end: 1 pad_end: 1 pad_end: 1 }',
         "Layer odd: pad_end must be specified once, or once per spatial dimension (pad_end specified 3 times; 2"),
        ('"Deconvolution" convolution_param { num_output: 1 kernel_size: 3 pad_end: 1 }',
         "Layer odd: pad_end is for Convolution, not for Deconvolution"),
        ('"Im2col" convolution_param { kernel_size: 3 pad_end: 1 }',
         "Layer odd: pad_end is for Convolution, not for Im2col"),
    ],
)  # fmt: skip
def test_pad_end_what_has_no_such_padding_is_refused(layer, message, tmp_path):
    net = tmp_path / "net.prototxt"
    net.write_text(
        'layer { name: "x" type: "Input" top: "x" input_param { shape { dim: 1 dim: 2 dim: 9 dim: 9 } } } '
        f'layer {{ name: "odd" type: {layer} bottom: "x" top: "y" }}'
    )
    done = subprocess.run(["caffe", "time", "-model", net], capture_output=True, text=True)
    assert done.returncode and message in done.stderr
