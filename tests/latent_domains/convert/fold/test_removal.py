"""Layers that do nothing at test time, and branches that nothing needs."""

from tests.latent_domains.convert.fold.models import DATA, layer, trained, tried

FC = layer("fc", "InnerProduct", "data", "fc", "inner_product_param { num_output: 3 }")


def test_dropout_goes_wherever_it_stands() -> None:
    end = layer("end", "Softmax", "fc", "end")
    assert (
        tried(trained(DATA + FC + layer("drop", "Dropout", "fc", "fc") + end)).layers == "fc:InnerProduct end:Softmax"
    )
    text = FC + layer("drop", "Dropout", "fc", "drop") + layer("end", "Softmax", "drop", "end")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct end:Softmax"
    both = text + layer("other", "ReLU", "fc", "other")
    assert tried(trained(DATA + both)).layers == "fc:InnerProduct end:Softmax other:ReLU"


def test_dropout_that_makes_an_output() -> None:
    assert tried(trained(DATA + FC + layer("drop", "Dropout", "fc", "drop"))).layers == "fc:InnerProduct"
    text = FC + layer("drop", "Dropout", "fc", "drop") + layer("other", "ReLU", "fc", "other")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct drop:Dropout other:ReLU"


def test_dropout_between_a_layer_and_its_scale_is_no_obstacle() -> None:
    text = FC + layer("drop", "Dropout", "fc", "fc") + layer("bn", "BatchNorm", "fc", "bn")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct"


def test_split_goes_and_its_readers_stay_apart() -> None:
    text = FC + layer("split", "Split", "fc", "a b") + layer("relu", "ReLU", "a", "c") + layer("p", "Softmax", "b", "p")
    done = tried(trained(DATA + text + layer("sum", "Eltwise", "c p", "sum")))
    assert done.layers == "fc:InnerProduct relu:ReLU p:Softmax sum:Eltwise"
    text = FC + layer("split", "Split", "fc", "a b") + layer("relu", "ReLU", "a", "c")
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct split:Split relu:ReLU"


def test_a_branch_that_was_silenced_disappears() -> None:
    text = FC + layer("side", "InnerProduct", "data", "side", "inner_product_param { num_output: 2 }")
    text += layer("relu", "ReLU", "side", "side") + 'layer { name: "quiet" type: "Silence" bottom: "side" }'
    assert tried(trained(DATA + text)).layers == "fc:InnerProduct"


def test_half_of_a_layer_that_was_silenced_still_is() -> None:
    text = layer("cut", "Slice", "data", "a b", "slice_param { axis: 1 slice_point: 1 }")
    text += 'layer { name: "quiet" type: "Silence" bottom: "b" }'
    done = tried(trained(DATA + text))
    assert done.layers == "cut:Slice silence_b:Silence"
