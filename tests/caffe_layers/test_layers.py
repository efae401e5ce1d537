"""What the layers do alike: gradients that are asked for, and the refusal of parameters, shapes and labels."""

from itertools import product

import numpy as np
import pytest

from caffe_layers import _bottoms
from tests.caffe_layers.nets import fill, forward_twice, inputs, make_net, mda, python_layer, python_object

pytestmark = pytest.mark.usefixtures("where")

LABELLED = {
    "DomainAssignmentLayer": python_layer("DomainAssignmentLayer", ["logits", "labels"], "y", {"num_domains": 2}),
    "EntropyLossLayer": python_layer("EntropyLossLayer", ["logits", "labels"], "y", extra="loss_weight: 1"),
}


@pytest.mark.parametrize("layer", ["MDALayer", *LABELLED])
def test_layers_no_gradient_that_nobody_asked_for(layer):
    if layer == "MDALayer":
        net = make_net(inputs(x=(4, 2, 3), w=(4, 2)) + mda("xw", "y", 2))
        fill(net, w=0.5)
    else:
        net = make_net(inputs(logits=(4, 2), labels=(4,)) + LABELLED[layer])
        fill(net, labels=-1)
    first, second, top = net.blobs.values()
    rng = np.random.default_rng(0)
    first.data[...] = rng.normal(size=first.shape)
    net.forward()
    for asked in ([False, False], [True, False], [False, True]):
        top.diff[...] = rng.normal(size=top.shape)
        for blob in (first, second):
            blob.diff.fill(7)
        python_object(net, "y").backward([top], asked, [first, second])
        assert [not (blob.diff == 7).any() for blob in (first, second)] == asked


@pytest.mark.parametrize("layer", ["MDALayer", *LABELLED])
def test_layers_no_backward_before_a_forward_of_the_same_shape(layer):
    text = mda(["logits"], "y", 2) if layer == "MDALayer" else LABELLED[layer]
    net = make_net(inputs(logits=(4, 2), labels=(4,)) + text)
    message = rf"^{layer} .*backward before any forward of this shape"
    with pytest.raises(RuntimeError, match=message):
        net.backward()
    net.forward()
    net.backward()
    for blob in net.blobs.values():
        blob.reshape(3, *blob.data.shape[1:])
    net.reshape()
    with pytest.raises(RuntimeError, match=message):
        net.backward()


THREE = {"num_domains": 3}


@pytest.mark.parametrize(
    ("layer", "shapes", "params", "message"),
    [
        ("MDALayer", {"x": (6, 4)}, {}, "lacks num_domains; expected an integer from 1 to 10000"),
        ("MDALayer", {"x": (6, 4)}, {"num_domains": 10**9}, "num_domains is 1000000000; expected an integer from 1 to"),
        ("MDALayer", {"x": (6, 4)}, {**THREE, "domain": 3}, "domain is 3; expected 0 to 2"),
        ("MDALayer", {"x": (6, 4), "w": (6, 3)}, {**THREE, "domain": 1}, "domain is for x alone"),
        ("MDALayer", {"x": (6, 4), "w": (6, 3), "v": (6, 3)}, THREE, "3 bottoms"),
        ("MDALayer", {"x": (6,)}, THREE, "x has shape (6,)"),
        ("MDALayer", {"x": (6, 4), "w": (5, 3)}, THREE, "w has shape (5, 3); expected (6, 3)"),
        ("DomainAssignmentLayer", {"logits": (4, 2)}, {}, "lacks num_domains"),
        ("DomainAssignmentLayer", {"logits": (4, 2)}, {"num_domains": 2**31}, "num_domains is 2147483648; expected"),
        ("DomainAssignmentLayer", {"logits": (4, 2)}, {**THREE, "first": 2}, "2 columns of logits from first 2"),
        ("DomainAssignmentLayer", {"logits": (4,)}, THREE, "logits has shape (4,)"),
        ("DomainAssignmentLayer", {"logits": (4, 2), "labels": (3,)}, THREE, "labels have shape (3,); expected (4,)"),
        ("DomainAssignmentLayer", {"logits": (4, 2), "labels": (4,), "more": (4,)}, THREE, "3 bottoms"),
        ("EntropyLossLayer", {"logits": (4, 2)}, {"weight": 1}, "unknown key 'weight'"),
        ("EntropyLossLayer", {"logits": (4, 2)}, {"of_mean": 1}, "of_mean is 1; expected true or false"),
        ("EntropyLossLayer", {"logits": (4,)}, None, "logits has shape (4,)"),
        ("EntropyLossLayer", {"logits": (4, 2), "labels": (3,)}, None, "labels have shape (3,); expected (4,)"),
        ("EntropyLossLayer", {"logits": (4, 2), "labels": (4,), "more": (4,)}, None, "3 bottoms"),
        ("PermutationLayer", {"labels": (100,)}, {}, "lacks rows; expected a list of integers >= 1"),
        ("PermutationLayer", {"labels": (100,)}, {"rows": []}, "rows is []; expected a list"),
        ("PermutationLayer", {"labels": (100,)}, {"rows": [3, True]}, "rows is [3, true]; expected a list"),
        ("PermutationLayer", {"labels": (100,)}, {"rows": [40, 24]}, "labels have shape (100,); expected (64,)"),
    ],
)
@pytest.mark.cpu_only
def test_layers_what_is_refused_at_set_up(layer, shapes, params, message):
    with pytest.raises(ValueError) as error:
        make_net(inputs(**shapes) + python_layer(layer, list(shapes), "y", params, name="one/of_20"))
    assert str(error.value).startswith(f'{layer} "one/of_20": ') and message in str(error.value)


@pytest.mark.parametrize(
    ("layer", "label"), [*product(LABELLED, [-2, 0.5, np.nan, np.inf]), ("DomainAssignmentLayer", 2)]
)
def test_layers_labels_out_of_range(layer, label):
    net = make_net(inputs(logits=(4, 2), labels=(4,)) + LABELLED[layer])
    fill(net, logits=1, labels=[-1, 0, label, 1])
    with pytest.raises(ValueError) as error:
        forward_twice(net)
    role = _bottoms.role(layer, python_object(net, "y"))
    assert str(error.value).startswith(f"{role}: label 2 is {label:g}; expected 0")
