"""PermutationLayer inside real Caffe nets, with the BatchReindex that takes its numbers."""

import numpy as np

from tests.caffe_layers.nets import fill, inputs, make_net, python_layer
from tests.caffe_layers.reference import assert_close

ROWS = [40, 24, 36]
REINDEX = """
layer { name: "x" type: "Scale" bottom: "input" top: "x" scale_param { filler { type: "constant" value: 1 } } }
layer { name: "y" type: "BatchReindex" bottom: "x" bottom: "places" top: "y" loss_weight: 1 }
"""
"""Learns below what it takes; Caffe refuses a gradient of the numbers, which force_backward would ask for."""


def drawn(labels: np.ndarray, rows: list[int] = ROWS):
    layer = python_layer("PermutationLayer", ["labels"], "places", {"rows": rows})
    net = make_net(inputs(labels=labels.shape, input=(len(labels), 3)) + layer + REINDEX, force_backward=False)
    rng = np.random.default_rng(1)
    fill(net, labels=labels, input=rng.normal(size=(len(labels), 3)))
    net.forward()
    return net, net.blobs["places"].data.astype(int)


def labels(seed: int, rows: int = sum(ROWS)) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 7, rows).astype(np.float32)


def test_permutation_each_row_comes_once_and_stays_in_its_class_and_source():
    classes, source = labels(0), np.repeat(range(3), ROWS)
    net, places = drawn(classes)
    assert sorted(places) == list(range(100)) and (places != np.arange(100)).sum() > 50
    assert (classes[places] == classes).all() and (source[places] == source).all()
    assert_close("y", net.blobs["y"].data, net.blobs["x"].data[places])


def test_permutation_every_row_of_a_group_can_take_every_place():
    """The two of each group change places in about half of the batches."""
    moved = [(drawn(np.array([0, 1, 0, 1, extra], np.float32), [4, 1])[1][0]) == 2 for extra in range(60)]
    assert 15 < sum(moved) < 45


def test_permutation_the_same_labels_draw_the_same_order_and_others_another():
    first, again, other = (drawn(labels(seed))[1] for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any()


def test_permutation_gradients_go_back_to_where_the_rows_came_from():
    net, places = drawn(labels(2))
    g = np.random.default_rng(3).normal(size=(100, 3)).astype(np.float32)
    net.blobs["y"].diff[...] = g
    net.backward()
    assert_close("dx", net.blobs["x"].diff[places], g)
