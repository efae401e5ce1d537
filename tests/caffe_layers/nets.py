"""Small real nets around the layers under test."""

import json
import tempfile
from pathlib import Path

import caffe


def inputs(**shapes):
    """Prototxt of one Input layer for each keyword: name=(shape)."""
    return "".join(
        f'layer {{ name: "{name}" type: "Input" top: "{name}" '
        f"input_param {{ shape {{ {' '.join(f'dim: {size}' for size in shape)} }} }} }}\n"
        for name, shape in shapes.items()
    )


def python_layer(layer, bottoms, top, params=None, extra="", name=None):
    """Prototxt of one of our layers; ``params`` is a dict, or a ready string."""
    text = params if isinstance(params, str) else json.dumps(params) if params is not None else ""
    bottom = " ".join(f'bottom: "{bottom}"' for bottom in bottoms)
    return (
        f'layer {{ name: "{name or top}" type: "Python" {bottom} top: "{top}" {extra} '
        f'python_param {{ module: "caffe_layers" layer: "{layer}" param_str: {json.dumps(text)} }} }}\n'
    )


def mda(bottoms, top, domains, extra="", name=None, **params):
    """Prototxt of an MDALayer whose blobs the solver leaves alone."""
    still = "param { lr_mult: 0 decay_mult: 0 } " * 3
    return python_layer("MDALayer", bottoms, top, {"num_domains": domains, **params}, still + extra, name)


def make_net(text, phase=caffe.TRAIN, force_backward=True):
    """The net that ``text`` describes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "net.prototxt"
        path.write_text(f"force_backward: {str(force_backward).lower()}\n{text}")
        return caffe.Net(str(path), phase)


def forward_twice(net):
    """Two passes: the first raises an error in a blob's values, or on a GPU, which nothing waits for, the second."""
    net.forward()
    net.forward()


def fill(net, **arrays):
    """Write the input blobs."""
    for name, array in arrays.items():
        net.blobs[name].data[...] = array


def python_object(net, name):
    """The Python object of a Python layer."""
    return net.layers[list(net._layer_names).index(name)]
