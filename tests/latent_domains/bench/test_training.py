import pytest
from caffe.proto import caffe_pb2

from latent_domains.bench import training
from latent_domains.common.program import ProgramError
from latent_domains.models.graph import kind


def test_data_in_memory_and_batch_norm_in_place_of_mda():
    net = training.read_net()
    memory = training.with_data_in_memory(net)
    assert not [layer for layer in memory.layer if layer.type == "Data"]
    inputs = [layer for layer in memory.layer if layer.type == "Input"]
    assert sum(layer.input_param.shape[0].dim[0] for layer in inputs) == 384
    assert all(len(layer.input_param.shape) == len(layer.top) for layer in inputs)

    norms = training.with_batch_norm(memory)
    replaced = [(old, new) for old, new in zip(memory.layer, norms.layer, strict=True) if old.type != new.type]
    assert replaced
    for old, new in replaced:
        assert old.python_param.layer == "MDALayer"
        assert (new.type, new.name, list(new.bottom), list(new.top)) == (
            "BatchNorm",
            old.name,
            [old.bottom[0]],
            list(old.top),
        )
    assert "MDALayer" not in str(norms)


@pytest.mark.program
@pytest.mark.parametrize("variant", [lambda net: net, training.with_batch_norm])
def test_an_iteration_runs_and_trains(variant):
    step = training.iteration(variant(training.with_data_in_memory(training.read_net())))
    solver = step.__closure__[0].cell_contents
    step()
    assert solver.iter == 1
    losses = {name: float(solver.net.blobs[name].data) for name in solver.net.outputs if "loss" in name}
    assert losses
    assert all(value > 0 for value in losses.values())


def test_a_file_that_is_no_net(tmp_path):
    path = tmp_path / "net.prototxt"
    path.write_text("layer { nonsense: 1 }")
    with pytest.raises(ProgramError, match="nonsense"):
        training.read_net(path)


LOG = """\
I1121 04:19:21.1 7 caffe.cpp:412] Iteration: 1 forward-backward time: 5 ms.
I1121 04:19:21.1 7 caffe.cpp:415] Average time per layer:
I1121 04:19:21.1 7 caffe.cpp:418]       conv1\tforward: 2.5 ms.
I1121 04:19:21.1 7 caffe.cpp:421]       conv1\tbackward: 1.25 ms.
I1121 04:19:21.1 7 caffe.cpp:418]    conv1/mda\tforward: 1e-05 ms.
I1121 04:19:21.1 7 caffe.cpp:426] Average Forward pass: 3 ms.
"""


def test_layer_times():
    assert training.layer_times(LOG) == {"conv1": 3.75, "conv1/mda": 1e-05}


def test_a_log_without_times_is_an_error():
    with pytest.raises(ProgramError, match="no average time per layer; it ended with: F cannot open"):
        training.layer_times("F cannot open")


def make_net(layers):
    text = caffe_pb2.NetParameter(name="tiny", force_backward=True)
    for name, layer_type, bottoms, tops in layers:
        text.layer.add(name=name, type=layer_type, bottom=bottoms, top=tops)
    text.layer[0].input_param.shape.add().dim.extend([4, 3, 6, 6])
    return text


@pytest.mark.program
def test_times_by_kind_of_a_real_net():
    text = make_net(
        [
            ("x", "Input", [], ["x"]),
            ("relu", "ReLU", ["x"], ["a"]),
            ("norm", "BatchNorm", ["x"], ["b"]),
            ("sum", "Eltwise", ["a", "b"], ["c"]),
        ]
    )
    times = training.times_by_kind(text, 2, 1)
    assert set(times) == {"ReLU", "BatchNorm", "Eltwise", "Split"}
    assert list(times.values()) == sorted(times.values(), reverse=True)


@pytest.mark.program
def test_a_net_that_caffe_refuses_is_an_error():
    with pytest.raises(ProgramError, match="caffe time ended with exit code"):
        training.times_by_kind(make_net([("x", "NoSuchLayer", [], ["x"])]), 1, 1)


def test_our_own_layers_are_kinds_of_their_own():
    kinds = {kind(layer) for layer in training.read_net().layer}
    assert {"MDALayer", "DomainAssignmentLayer", "EntropyLossLayer", "Convolution"} <= kinds
    assert "Python" not in kinds
