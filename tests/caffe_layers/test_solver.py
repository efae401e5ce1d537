"""The layers under Caffe's solver: statistics between train and test nets, snapshots, seeds."""

import caffe
import numpy as np
import pytest

from tests.caffe_layers.nets import inputs, mda, python_layer

pytestmark = [pytest.mark.program, pytest.mark.usefixtures("where")]

BATCH, CLASSES = 12, 3


def network(phase):
    """A small net of every layer: a conv trunk with mDA before and after fc, a branch, entropies and log-loss."""
    train = phase == "train"
    rows = BATCH if train else 5
    text = inputs(data=(rows, 2, 6, 6), label=(8 if train else rows,))
    text += (
        'layer { name: "conv" type: "Convolution" bottom: "data" top: "conv" '
        'convolution_param { num_output: 4 kernel_size: 3 weight_filler { type: "xavier" } } }\n'
    )
    if train:
        text += inputs(target_logits=(4, 1), domain_label=(8,))
        text += 'layer { name: "cut" type: "Slice" bottom: "conv" top: "source" top: "target" '
        text += "slice_param { axis: 0 slice_point: 8 } }\n"
        text += 'layer { name: "quiet" type: "Silence" bottom: "target" }\n'
        text += fc("source", "logits", 2)
        text += python_layer("DomainAssignmentLayer", ["logits", "domain_label"], "w_s", {"num_domains": 3})
        text += python_layer("DomainAssignmentLayer", ["target_logits"], "w_t", {"num_domains": 3, "first": 2})
        text += 'layer { name: "w" type: "Concat" bottom: "w_s" bottom: "w_t" top: "w" concat_param { axis: 0 } }\n'
        text += python_layer("EntropyLossLayer", ["logits", "domain_label"], "h_d", extra="loss_weight: 0.1")
    rows_of = ["w"] if train else []
    text += mda(["conv", *rows_of], "n1", 3, moving_average_fraction=0.9)
    text += 'layer { name: "relu" type: "ReLU" bottom: "n1" top: "n1" }\n'
    text += fc("n1", "scores", CLASSES)
    text += mda(["scores", *rows_of], "n2", 3, moving_average_fraction=0.9)
    if not train:
        return text + 'layer { name: "accuracy" type: "Accuracy" bottom: "n2" bottom: "label" top: "accuracy" }\n'
    text += (
        'layer { name: "cut2" type: "Slice" bottom: "n2" top: "s" top: "t" slice_param { axis: 0 slice_point: 8 } }\n'
    )
    text += 'layer { name: "loss" type: "SoftmaxWithLoss" bottom: "s" bottom: "label" top: "loss" }\n'
    return text + python_layer("EntropyLossLayer", ["t"], "h_c", extra="loss_weight: 0.1")


def fc(bottom, top, outputs):
    return (
        f'layer {{ name: "{top}" type: "InnerProduct" bottom: "{bottom}" top: "{top}" '
        f'inner_product_param {{ num_output: {outputs} weight_filler {{ type: "xavier" }} }} }}\n'
    )


@pytest.fixture
def make_solver(tmp_path):
    def make(name, seed=1):
        folder = tmp_path / name
        folder.mkdir()
        for phase in ("train", "test"):
            (folder / f"{phase}.prototxt").write_text(network(phase))
        (folder / "solver.prototxt").write_text(
            f'train_net: "{folder}/train.prototxt" test_net: "{folder}/test.prototxt" test_iter: 1 '
            f'test_interval: 1000 test_initialization: false base_lr: 0.05 lr_policy: "fixed" momentum: 0.9 '
            f'weight_decay: 0.01 random_seed: {seed} snapshot_prefix: "{folder}/state" max_iter: 1000 display: 0'
        )
        return caffe.SGDSolver(str(folder / "solver.prototxt"))

    return make


def step(solver, iteration):
    """One iteration on that iteration's own data; every loss, as Caffe has them."""
    rng = np.random.default_rng(iteration)
    net = solver.net
    net.blobs["label"].data[...] = rng.integers(0, CLASSES, 8)
    net.blobs["data"].data[...] = rng.normal(size=(BATCH, 2, 6, 6)) + (np.arange(BATCH) % 3)[:, None, None, None]
    net.blobs["domain_label"].data[...] = rng.integers(-1, 2, 8)
    solver.step(1)
    return [float(net.blobs[name].data) for name in ("loss", "h_c", "h_d")]


def parameters(solver):
    return {
        f"{name}[{i}]": blob.data.copy() for name, blobs in solver.net.params.items() for i, blob in enumerate(blobs)
    }


def test_solver_training_lowers_the_loss_and_the_solver_leaves_the_statistics_alone(make_solver, where):
    solver, iterations = make_solver("a"), 8 if where == "emulated" else 60
    losses = [step(solver, i % 2)[0] for i in range(iterations)]
    assert where == "emulated" or np.mean(losses[-4:]) < 0.75 * np.mean(losses[:4])
    divisor = solver.net.params["n1"][2].data
    # With weight decay or momentum on it, this would not be the geometric sum that it is.
    assert np.allclose(divisor[2], sum(0.9**i for i in range(iterations)), rtol=1e-5)


def test_solver_snapshot_restore_and_the_same_continuation(make_solver, tmp_path):
    whole = make_solver("whole")
    for i in range(5):
        step(whole, i)
    whole.snapshot()
    expected = [step(whole, i) for i in range(5, 10)]

    resumed = make_solver("resumed", seed=77)
    resumed.restore(str(tmp_path / "whole/state_iter_5.solverstate"))
    assert [step(resumed, i) for i in range(5, 10)] == expected
    for name, value in parameters(whole).items():
        assert np.array_equal(value, parameters(resumed)[name]), name


def test_solver_the_test_net_sees_the_training_nets_statistics(make_solver):
    solver = make_solver("a")
    for i in range(5):
        step(solver, i)
    test = solver.test_nets[0]
    test.share_with(solver.net)
    for name in ("n1", "n2"):
        for shared, own in zip(test.params[name], solver.net.params[name], strict=True):
            assert np.array_equal(shared.data, own.data)
            assert own.data.any()
    test.blobs["data"].data[...] = np.random.default_rng(0).normal(size=(5, 2, 6, 6))
    test.forward()
    before = test.blobs["n2"].data.copy()
    mean_sum, variance_sum, divisor = (blob.data[2] for blob in solver.net.params["n2"])
    scores = test.blobs["scores"].data
    want = (scores - mean_sum / divisor) / np.sqrt(variance_sum / divisor + 1e-5)
    np.testing.assert_allclose(before, want, atol=1e-5)
    step(solver, 5)
    test.forward()
    assert not np.array_equal(test.blobs["n2"].data, before)
