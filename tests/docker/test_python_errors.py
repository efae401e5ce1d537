"""docker/patches/09-python-errors.patch: an error in a Python layer reaches whoever runs the net.

And 15-python-layer-text.patch: a param_str that is no UTF-8 reaches the layer, which says so.
"""

import re
import subprocess

import caffe
import pytest

NET = """
layer {{ name: "in" type: "Input" top: "x" input_param {{ shape {{ dim: 1 dim: 2 }} }} }}
layer {{ name: "layer" type: "Python" bottom: "x" top: "y"
        python_param {{ module: "{module}" layer: "{layer}" param_str: '{param_str}' }} }}
"""
FAULTS = {
    "module": ({"module": "no_such_module", "layer": "X"}, ModuleNotFoundError, "No module named 'no_such_module'"),
    "layer": ({"module": "caffe_layers", "layer": "X"}, AttributeError, "has no attribute 'X'"),
    "setup": (
        {"module": "caffe_layers", "layer": "MDALayer", "param_str": '{"num_domains": 0}'},
        ValueError,
        "num_domains is 0; expected an integer from 1 to 10000",
    ),
    "bytes": (
        {"module": "caffe_layers", "layer": "MDALayer", "param_str": r'{"num_domains": \377}'},
        ValueError,
        'MDALayer "layer": param_str is not valid JSON .it is not UTF-8.',
    ),
}


@pytest.mark.program
@pytest.mark.parametrize("fault", FAULTS)
def test_python_errors_pycaffe_raises_it_and_caffe_prints_it_and_fails(fault, tmp_path):
    description, error, message = FAULTS[fault]
    file = tmp_path / "net.prototxt"
    file.write_text(NET.format(**{"param_str": "", **description}))
    with pytest.raises(error, match=message):
        caffe.Net(str(file), caffe.TEST)
    done = subprocess.run(["caffe", "time", "-model", file, "-iterations", "1"], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"{error.__name__}: " in done.stderr and re.search(message, done.stderr)
