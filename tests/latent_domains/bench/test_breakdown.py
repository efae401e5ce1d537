import pytest
from caffe.proto import caffe_pb2

from latent_domains.bench import breakdown
from latent_domains.bench.training import read_net
from latent_domains.common.caffe_process import Threads
from latent_domains.common.program import ProgramError

pytestmark = pytest.mark.program

LOG = """\
I1121 04:19:21.1 7 caffe.cpp:412] Iteration: 1 forward-backward time: 5 ms.
I1121 04:19:21.1 7 caffe.cpp:415] Average time per layer:
I1121 04:19:21.1 7 caffe.cpp:418]       conv1\tforward: 2.5 ms.
I1121 04:19:21.1 7 caffe.cpp:421]       conv1\tbackward: 1.25 ms.
I1121 04:19:21.1 7 caffe.cpp:418]    conv1/mda\tforward: 1e-05 ms.
I1121 04:19:21.1 7 caffe.cpp:426] Average Forward pass: 3 ms.
"""


def test_layer_times():
    assert breakdown.layer_times(LOG) == {"conv1": 3.75, "conv1/mda": 1e-05}


def test_a_log_without_times_is_an_error():
    with pytest.raises(ProgramError, match="no average time per layer; it ended with: F cannot open"):
        breakdown.layer_times("F cannot open")


def net(layers):
    text = caffe_pb2.NetParameter(name="tiny", force_backward=True)
    for name, kind, bottoms, tops in layers:
        text.layer.add(name=name, type=kind, bottom=bottoms, top=tops)
    text.layer[0].input_param.shape.add().dim.extend([4, 3, 6, 6])
    return text


def test_times_by_kind_of_a_real_net():
    text = net(
        [
            ("x", "Input", [], ["x"]),
            ("relu", "ReLU", ["x"], ["a"]),
            ("norm", "BatchNorm", ["x"], ["b"]),
            ("sum", "Eltwise", ["a", "b"], ["c"]),
        ]
    )
    times = breakdown.times_by_kind(text, 2, Threads(1, 1))
    assert set(times) == {"ReLU", "BatchNorm", "Eltwise", "Split"}
    assert list(times.values()) == sorted(times.values(), reverse=True)


def test_a_net_that_caffe_refuses_is_an_error():
    with pytest.raises(ProgramError, match="caffe time ended with exit code"):
        breakdown.times_by_kind(net([("x", "NoSuchLayer", [], ["x"])]), 1, Threads(1, 1))


def test_our_own_layers_are_kinds_of_their_own():
    kinds = {breakdown.kind(layer) for layer in read_net().layer}
    assert {"MDALayer", "DomainAssignmentLayer", "EntropyLossLayer", "Convolution"} <= kinds
    assert "Python" not in kinds
