from bench import training
from latent_domains.models.graph import kind


def test_net_in_memory_data_in_memory_and_batch_norm_in_place_of_mda():
    memory = training.net_in_memory(**training.settings("digits"))
    assert {"MDALayer", "DomainAssignmentLayer", "EntropyLossLayer", "Input"} <= set(map(kind, memory.layer))
    inputs = [layer for layer in memory.layer if layer.type == "Input"]
    assert sum(layer.input_param.shape[0].dim[0] for layer in inputs) == 384
    assert all(len(layer.input_param.shape) == len(layer.top) for layer in inputs)

    norms = training.net_in_memory(with_mda=False, **training.settings("digits"))
    replaced = [(old, new) for old, new in zip(memory.layer, norms.layer, strict=True) if old.type != new.type]
    assert replaced and "MDALayer" not in str(norms)
    for old, new in replaced:
        assert old.python_param.layer == "MDALayer" and (new.type, new.name) == ("BatchNorm", old.name)
        assert (list(new.bottom), list(new.top)) == ([old.bottom[0]], list(old.top))
