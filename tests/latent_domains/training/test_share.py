import re

import caffe
import numpy as np
import pytest
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.experiment.experiment import make_experiment
from latent_domains.models.prototxt import read
from latent_domains.runs.devices import Devices, mode_of, set_mode
from latent_domains.runs.write import write_run
from latent_domains.training.share import TRAIN_NET, make_share, write_share
from latent_domains.training.train import train_all

EXPERIMENTS = [
    ("digits", "plain", {}),
    ("digits", "mda", {"k": 3, "lambda_b": 0.1}),
    ("digits", "mda", {"known_share": 0.25}),
    ("pacs", "mda", {"undivided": True}),
    ("office_caltech_fc7", "mda", {"batch_split": "per_domain", "batch_size": 8, "k_target": 2}),
]


def batches(net: caffe_pb2.NetParameter) -> dict[str, int]:
    return {layer.name: layer.data_param.batch_size for layer in net.layer if layer.type == "Data"}


@pytest.mark.parametrize(("dataset", "method", "options"), EXPERIMENTS)
def test_a_share_is_the_net_of_an_nth_of_the_batch(dataset, method, options, tiny_data, tmp_path):
    if dataset == "digits":
        options = {"batch_size": 8, **options}
    experiment = make_experiment(dataset, method, **options)
    run = write_run(experiment, tmp_path / "run", data=tiny_data)
    whole = run.read_net("train")
    share = text_format.Parse(make_share(run, 2)[TRAIN_NET], caffe_pb2.NetParameter())
    assert batches(share) == {name: rows // 2 for name, rows in batches(whole).items()}
    # The generator itself, asked for half the images of each domain, makes the same net.
    smaller = make_experiment(dataset, method, **{**options, "batch_size": experiment.batch_size // 2})
    other = write_run(smaller, tmp_path / "smaller", data=tiny_data)
    expected = other.read_net("train")
    for layer in expected.layer:
        layer.data_param.source = layer.data_param.source.replace(str(other.path), str(run.path))
    for layer in share.layer:
        layer.data_param.source = layer.data_param.source.replace(str(other.path), str(run.path))
    assert share == expected
    assert make_share(run, 1)[TRAIN_NET] == run.net("train").read_text()


def test_the_first_process_tests_and_the_others_do_not(tiny_data, tmp_path):
    run = write_run(make_experiment("digits", "dial", batch_size=8), tmp_path / "run", data=tiny_data)
    train_net = run.path / "share" / TRAIN_NET
    first, other = (read(file, caffe_pb2.SolverParameter()) for file in write_share(run, 2))
    assert first.train_net == other.train_net == str(train_net)
    # In all else they are the run's: when to write a snapshot or to test is known to all of them.
    for solver, tests in ((first, True), (other, False)):
        expected = run.read_solver()
        expected.train_net = str(train_net)
        if not tests:
            expected.ClearField("test_net")
            expected.ClearField("test_iter")
        assert solver == expected
    assert first.test_net and not other.test_net
    write_share(run, 4)
    assert batches(read(train_net, caffe_pb2.NetParameter()))["data_mnist"] == 2


@pytest.mark.program
def test_a_batch_that_cannot_be_shared_out_is_named(tiny_data, tmp_path):
    run = write_run(make_experiment("digits", "dial", batch_size=9), tmp_path / "run", data=tiny_data)
    with pytest.raises(ProgramError) as error:
        train_all([run], threads=1, devices=Devices(2))
    assert str(error.value) == (
        f"{run.net('train')}: layer data_mnist has 9 images in a batch, expected at least 4, and a multiple of "
        "2, to share out to 2 processes: write the run again with another --batch-size or --batch-split"
    )
    assert not (run.path / "share").exists() and not run.log.exists()
    assert make_share(run, 3)
    with pytest.raises(ProgramError, match="9 images in a batch, expected at least 18, and a multiple of 9, to share"):
        make_share(run, 9)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("lr_mult: 1 ", "lr_mult: 3 ", "it was changed, and is not what experiment.json makes"),
        ('name: "data_usps"', 'name: "target"', "expected a Data layer data_usps with a batch of at least 1"),
    ],
)
def test_a_net_that_was_changed_is_not_shared_out_in_its_first_form(old, new, message, tiny_data, tmp_path):
    run = write_run(make_experiment("digits", "dial", batch_size=8), tmp_path / "run", data=tiny_data)
    text = run.net("train").read_text()
    assert old in text
    run.net("train").write_text(text.replace(old, new))
    with pytest.raises(ProgramError, match=f"^{re.escape(str(run.net('train')))}: {message}"):
        make_share(run, 2)


@pytest.mark.program
def test_modes_and_jobs_that_do_not_go_with_several_gpus(tiny_data, tmp_path):
    """A refusal changes nothing, the mode neither."""
    experiment = make_experiment("digits", "dial", batch_size=8)
    run = write_run(experiment, tmp_path / "run", data=tiny_data, solver_mode="CPU")
    two = Devices(2, (0, 1))
    with pytest.raises(ProgramError, match=r"--gpus: got --jobs 2, expected 1"):
        train_all([run], devices=two, jobs=2)
    with pytest.raises(ProgramError, match=r"its solver mode is CPU, --gpus expects GPU: pass --solver-mode GPU$"):
        train_all([run], devices=two)
    set_mode(run, "GPU")
    weights = tmp_path / "none.caffemodel"
    with pytest.raises(ProgramError, match=r"none\.caffemodel: no such file"):
        train_all([run], devices=Devices(2), solver_mode="CPU", weights=weights)
    assert mode_of(run) == "GPU" and not (run.path / "share").exists()


@pytest.fixture
def rank():
    """Set Caffe's rank and number of solvers in this process, and put them back."""

    def set_rank(number: int, count: int) -> None:
        caffe.set_solver_count(count)
        caffe.set_solver_rank(number)
        caffe.set_multiprocess(count > 1)

    yield set_rank
    set_rank(0, 1)


@pytest.mark.parametrize("order", ["", "shuffle_seed: 3"])
@pytest.mark.parametrize(("records", "count", "rows"), [(12, 2, 3), (10, 3, 2), (7, 4, 5)])
def test_the_shares_of_an_iteration_are_the_batch_of_one_process(records, count, rows, order, rank, tmp_path):
    """Caffe deals records out in turn: also past the end, and where the number of processes does not divide them."""
    with lmdb_io.create(tmp_path / "lmdb") as (writer, _):
        for label in range(records):
            writer.put("x", lmdb_io.image_datum(np.zeros((2, 2, 1), np.uint8), label))

    def labels(number: int, of: int, batch: int) -> np.ndarray:
        rank(number, of)
        file = tmp_path / f"{number}_{of}.prototxt"
        file.write_text(
            'layer { name: "data" type: "Data" top: "data" top: "label"\n'
            f'data_param {{ source: "{tmp_path}/lmdb" batch_size: {batch} backend: LMDB {order} }} }}'
        )
        net = caffe.Net(str(file), caffe.TRAIN)
        return np.array([net.forward()["label"].copy() for _ in range(2 * records)])

    shares = np.array([labels(number, count, rows) for number in range(count)])  # processes × iterations × rows
    dealt = shares.transpose(1, 2, 0).reshape(2 * records, count * rows)
    np.testing.assert_array_equal(dealt, labels(0, 1, count * rows))
    # Every image once in every epoch.
    whole = dealt.ravel()[: dealt.size // records * records].reshape(-1, records)
    assert (np.sort(whole, axis=1) == np.arange(records)).all()
