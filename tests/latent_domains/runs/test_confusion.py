"""Confusion counts against Caffe's own Accuracy layer."""

import caffe
import numpy as np
import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.confusion import class_names, confusion_counts, predictions
from tests.fixtures import TEST


def test_the_counts_are_those_of_caffes_accuracy(trained):
    snapshot = trained.latest_snapshot()
    counts = confusion_counts(trained, snapshot, "usps")
    net = caffe.Net(str(trained.net("test")), caffe.TEST, weights=str(snapshot.model))
    assert counts.trace() / TEST == pytest.approx(float(net.forward()["accuracy"]), abs=1e-6)
    labels = read_labels(trained.test_lmdbs["usps"])
    assert counts.sum(axis=1).tolist() == np.bincount(labels, minlength=10).tolist()


def test_a_tie_goes_where_caffe_lets_it_go(tmp_path):
    net_file = tmp_path / "net.prototxt"
    net_file.write_text(
        'layer { name: "in" type: "Input" top: "scores" top: "label"'
        " input_param { shape { dim: 1 dim: 3 } shape { dim: 1 } } }"
        'layer { name: "accuracy" type: "Accuracy" bottom: "scores" bottom: "label" top: "accuracy" }'
    )
    net = caffe.Net(str(net_file), caffe.TEST)
    for scores in ([1, 1, 0], [0, 1, 1], [1, 0, 1], [1, 1, 1], [2, 1, 1]):
        net.blobs["scores"].data[...] = scores
        for label in range(3):
            net.blobs["label"].data[...] = label
            correct = predictions(np.array([scores], np.float32), np.array([label]))[0] == label
            assert float(net.forward()["accuracy"]) == correct, (scores, label)


def test_a_training_that_diverged_is_told(trained, tmp_path):
    snapshot = trained.latest_snapshot()
    model = caffe_pb2.NetParameter.FromString(snapshot.model.read_bytes())
    layer = next(layer for layer in model.layer if layer.name == "fc5")
    layer.blobs[0].data[0] = float("nan")
    broken = tmp_path / "model_iter_2.caffemodel"
    broken.write_bytes(model.SerializeToString())
    with pytest.raises(ProgramError, match="scores on usps are NaN: the training diverged"):
        confusion_counts(trained, type(snapshot)(2, snapshot.state, broken), "usps")


def test_names_of_the_classes(trained):
    file = trained.test_lmdbs["usps"] / "classes.txt"
    assert class_names(trained) is None
    try:
        file.write_text("".join(f"digit {label}\n" for label in range(10)))
        assert class_names(trained) == [f"digit {label}" for label in range(10)]
        file.write_text("only one\n")
        assert class_names(trained) is None
    finally:
        file.unlink()
