import pytest

from latent_domains.bench import training
from latent_domains.models.graph import kind


def test_data_in_memory_and_batch_norm_in_place_of_mda():
    memory = training.in_memory("digits")
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
    step = training.iteration(variant(training.in_memory("digits")))
    solver = step.__closure__[0].cell_contents
    step()
    assert solver.iter == 1
    losses = {name: float(solver.net.blobs[name].data) for name in solver.net.outputs if "loss" in name}
    assert losses
    assert all(value > 0 for value in losses.values())


def test_our_own_layers_are_kinds_of_their_own():
    kinds = {kind(layer) for layer in training.NETS["digits"].read().layer}
    assert {"MDALayer", "DomainAssignmentLayer", "EntropyLossLayer", "Convolution"} <= kinds
    assert "Python" not in kinds
