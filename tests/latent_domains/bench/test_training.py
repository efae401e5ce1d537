import pytest

from latent_domains.bench import training
from latent_domains.common.program import ProgramError


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
