"""Run folders from training to record, with the real caffe binary on tiny LMDBs."""

import hashlib
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.caffe_process import curves
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.versions import openblas_kernel
from latent_domains.data import lmdb_io
from latent_domains.experiment.experiment import make_experiment
from latent_domains.experiment.methods import LATENT, METHODS
from latent_domains.runs.devices import mode_of
from latent_domains.runs.evaluate import evaluate
from latent_domains.runs.provenance import lmdb_contents
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.run_state import State, last_iteration, state_of
from latent_domains.runs.write import write_missing, write_run
from latent_domains.training.train import loaded_from, share_of_cores, train_all
from tests import nvidia_weights
from tests.fixtures import TEST, TRAIN
from tests.programs import child, files_up_to, program, wait_until
from tests.run_folders import blobs, edit, initial_weights, lasting, small
from tests.training import train_here


@pytest.mark.program
@pytest.mark.parametrize("method", METHODS)
def test_train_and_record(method, tiny_data, tmp_path):
    folder = write_run(small(method), tmp_path / "run", data=tiny_data)
    train_here(folder)
    record = json.loads(folder.record_file.read_text())
    assert record["iteration"] == 6 and record["test_images"] == TEST
    assert (record["accuracy"] * TEST) % 1 == pytest.approx(0, abs=1e-9)
    assert record["experiment"] == json.loads(json.dumps(folder.experiment.to_json()))
    assert record["training"]["seconds"] > 0 and record["versions"]["caffe"]
    found = curves(folder.log.read_text().splitlines())
    assert np.isfinite([*found["train", "loss"].values()]).all()
    if method in LATENT:
        usage = record["domain_usage"]
        looked_at = (2 * TEST, True) if method == "mda" else (2 * TRAIN, False)  # controls divide training images
        assert usage["sources"] == ["mnist", "mnistm"] and (usage["images"], usage["held_out"]) == looked_at
        assert sum(usage["share"]) == pytest.approx(1)
    else:
        assert record["domain_usage"] is None


@pytest.mark.program
def test_train_all_the_mode_asked_for_is_that_of_the_evaluation_too(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    monkeypatch.setenv("SOLVER_MODE", "GPU")
    train_all([folder], threads=1, solver_mode="CPU")
    record = folder.read_record()
    assert record.hardware["mode"] == "CPU"
    assert record.training.openblas == openblas_kernel()


def start_training(folder: RunFolder, *options: str, errors: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tools.train", "--threads", "1", *options, str(folder.path)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)


def wait_for(folder: RunFolder, text: str) -> None:
    wait_until(lambda: folder.log.exists() and text in folder.log.read_text(), repr(text))


@pytest.mark.program
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_train_ctrl_c_writes_a_snapshot_and_resume_goes_on(number, tiny_data, tmp_path):
    folder = write_run(small(iterations=100_000), tmp_path / "run", data=tiny_data)
    training = start_training(folder)
    wait_for(folder, "Iteration 10 (")
    with pytest.raises(ProgramError, match="run: it is in use by process"):
        train_here(folder, resume=True)
    training.send_signal(number)
    _, errors = training.communicate(timeout=60)
    assert training.returncode == 130, errors
    assert "Traceback" not in errors
    reached = folder.latest_snapshot().iteration
    assert 10 <= reached < 100_000
    assert not folder.record_file.exists()

    with pytest.raises(ProgramError, match=f"was trained to iteration {reached}: pass --resume"):
        train_here(folder)
    folder = lasting(folder, reached + 5)
    seconds = json.loads(folder.training.read_text())["seconds"]
    train_here(folder, resume=True)
    record = json.loads(folder.record_file.read_text())
    assert record["iteration"] == reached + 5
    assert record["training"]["seconds"] > seconds
    assert "Resuming from " in folder.log.read_text()


def draw_at_random(folder: RunFolder) -> None:
    """Give a run all that draws random numbers: crops, mirroring, dropout."""
    for net in (folder.net("train"), *folder.test_nets.values()):
        edit(net, "transform_param {", "transform_param { crop_size: 26 mirror: true")
    drop = 'layer { name: "drop" type: "Dropout" bottom: "conv1" top: "conv1" }'
    edit(folder.net("train"), 'layer {\n  name: "pool1"', f'{drop}\nlayer {{\n  name: "pool1"')


@pytest.mark.program
@pytest.mark.parametrize(
    ("method", "order", "change"),
    [
        ("mda", "stored", None),
        ("plain", "shuffled", draw_at_random),
        ("source_only", "shuffled", None),
    ],
)
def test_train_a_resumed_run_is_what_it_would_have_been(method, order, change, tiny_data, tmp_path):
    """To the bit, from a snapshot within an epoch: records, and random numbers, go on where they were."""
    passes = 2 if change else 1
    experiment = small(method, iterations=17, data_order=order, iter_size=passes)
    runs = [write_run(experiment, tmp_path / name, data=tiny_data) for name in ("one", "two")]
    for run in runs:
        edit(run.solver, "display: 10", "display: 1")
        edit(run.solver, "snapshot: 500", "snapshot: 10")
        if change:
            change(run)
    whole = runs[0]
    train_here(whole)
    parts = lasting(runs[1], 10)
    assert TRAIN % 8 == 0 and 10 % (TRAIN // 8), "it would go on at an epoch's beginning anyway"
    train_here(parts)
    parts.record_file.unlink()
    parts = lasting(parts, 17)
    train_here(parts, resume=True)
    before, after = (curves(run.log.read_text().splitlines()) for run in (whole, parts))
    assert sorted(after["train", "loss"]) == list(range(17)) and after == before
    expected, found = (blobs(run.latest_snapshot().model) for run in (whole, parts))
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


@pytest.mark.program
def test_train_a_trained_run_without_its_record_is_evaluated_alone(tiny_data, tmp_path):
    folder = write_run(small("dial"), tmp_path / "run", data=tiny_data)
    train_here(folder)
    log, accuracy = folder.log.read_text(), folder.read_record().accuracy
    folder.record_file.unlink()
    train_here(folder, resume=True)
    assert folder.read_record().accuracy == accuracy and folder.log.read_text() == log


@pytest.mark.program
def test_close_a_progress_bar_nobody_reads_does_not_end_the_run(tiny_data, tmp_path):
    folder = write_run(small("dial", iterations=30), tmp_path / "run", data=tiny_data)
    reader, writer = os.pipe()
    training = start_training(folder, errors=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    shown, _ = training.communicate(timeout=120)
    assert training.returncode == 0
    assert shown.endswith("% on usps at the last iteration\n"), "DIAL has no latent domains to tell of"


@pytest.mark.program
def test_train_a_log_that_cannot_grow_ends_the_training_and_is_named(tiny_data, tmp_path):
    folder = write_run(small("dial", iterations=100_000), tmp_path / "run", data=tiny_data)
    done = child("train", "--threads", "1", folder.path, before=files_up_to(60_000))
    assert done.returncode == 1 and done.stderr.endswith(f"error: [Errno 27] File too large: '{folder.log}'\n")


@pytest.mark.program
@pytest.mark.parametrize("name", ["train.log", "snapshots/model_iter_6.caffemodel"])
def test_train_a_link_in_the_folder_is_not_written_through(name, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    precious = tmp_path / "precious"
    precious.write_text("mine")
    (folder.path / name).symlink_to(precious)
    with pytest.raises(ProgramError, match=rf"{name}: a link to .*precious, expected a file"):
        train_here(folder)
    assert precious.read_text() == "mine"


def test_train_a_damaged_record_is_named(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.record_file.write_text("{")
    done = program("train", "--resume", "--threads", "1", folder.path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {folder.record_file}: ")
    assert done.stderr.endswith(f"; make it again with: python -m tools.evaluate {shlex.quote(str(folder.path))}\n")


@pytest.mark.program
def test_train_a_run_begins_from_the_weights_of_another_which_nvidias_caffe_saved(tiny_data, tmp_path):
    weights = initial_weights(write_run(small("dial", lambda_c=0.0), tmp_path / "first", data=tiny_data))
    second = write_run(small("mda", iterations=1), tmp_path / "second", data=tiny_data)
    net = second.net("train")
    net.write_text(net.read_text().replace("lr_mult: 1 ", "lr_mult: 0 ").replace("lr_mult: 2 ", "lr_mult: 0 "))
    # D differs, so the statistics of DIAL do not fit: they are left out of the file.
    kept = tmp_path / "kept.caffemodel"
    model = caffe_pb2.NetParameter.FromString(weights.read_bytes())
    layers = [layer for layer in model.layer if layer.type != "Python"]
    del model.layer[:]
    model.layer.extend(layers)
    for layer in model.layer[1:]:
        for blob in layer.blobs:
            nvidia_weights.pack(blob)
    model.layer.add(name="odd\x1b[2J").blobs.add(data=[1])  # a terminal would obey it
    kept.write_bytes(model.SerializeToString())
    done = program("train", "--threads", "1", "--weights", kept, second.path)
    assert done.returncode == 0, done.stderr
    said = (
        r"kept.caffemodel: loaded: conv1, conv1_scale, .*; start anew: conv1_mda, .*domain_fc4; not used: odd\\x1b\[2J"
    )
    assert re.search(said, done.stderr + done.stdout)
    after = caffe_pb2.NetParameter.FromString(second.latest_snapshot().model.read_bytes())
    blobs = {layer.name: layer.blobs[0].data for layer in after.layer if layer.name in ("conv2", "fc3", "domain_fc4")}
    begun = caffe_pb2.NetParameter.FromString(second.initial.read_bytes()).layer
    for layer in (*layers, *(layer for layer in begun if layer.name == "domain_fc4")):
        if layer.name in blobs:
            assert list(blobs[layer.name]) == list(layer.blobs[0].data), layer.name
    recorded = second.read_record().training.weights
    assert recorded.to_json() == {"file": "kept.caffemodel", "sha256": hashlib.sha256(kept.read_bytes()).hexdigest()}


@pytest.mark.program
def test_train_weights_of_another_net_are_refused_before_training(tiny_data, tmp_path):
    folder, weights = write_run(small(), tmp_path / "run", data=tiny_data, solver_mode="GPU"), tmp_path / "w.caffemodel"
    weights.write_bytes(caffe_pb2.NetParameter(name="x").SerializeToString())
    done = program("train", "--threads", "1", "--solver-mode", "CPU", "--weights", weights, folder.path)
    assert done.returncode == 1 and "none of the layers" in done.stderr
    assert not folder.log.exists() and not list(folder.snapshots.iterdir())
    assert mode_of(folder) == "GPU"  # a refusal changes nothing


@pytest.mark.program
def test_train_a_run_that_began_from_weights_does_not_begin_again_without_them(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.training.write_text(json.dumps({"seconds": 1.0, "weights": {"file": "w.caffemodel", "sha256": "0"}}))
    done = program("train", "--threads", "1", "--resume", folder.path)
    assert done.returncode == 1
    assert "it began from w.caffemodel and has no snapshot: pass --weights again" in done.stderr


def copied(data: Path, tmp_path: Path) -> Path:
    """A data folder that a test may change."""
    shutil.copytree(data, tmp_path / "data")
    return tmp_path / "data"


def other_images(lmdb: Path) -> None:
    """Change one pixel of an LMDB, as if it had been built again from other images of the same names and sizes."""
    images = [(lmdb_io.record_name(key), datum) for key, datum in lmdb_io.read(lmdb)]
    images[3][1].data = bytes([images[3][1].data[0] ^ 1]) + images[3][1].data[1:]
    with lmdb_io.create(lmdb, force=True) as (writer, _):
        for name, datum in images:
            writer.put(name, datum)


@pytest.mark.program
@pytest.mark.parametrize(("method", "name"), [("dial", "mnistm_train"), ("dial", "usps_test"), ("mda", "mnist_test")])
def test_train_a_run_does_not_go_on_on_other_images(method, name, tiny_data, tmp_path):
    """Held-out images of the sources, too, if latent domains are judged on them."""
    folder = write_run(small(method), tmp_path / "run", data=copied(tiny_data, tmp_path))
    other = write_run(small(method), tmp_path / "other", data=folder.data_folder)
    train_here(folder)
    lmdb = folder.data_folder / "digits" / name
    known = folder.read_record().training.lmdbs
    assert known == lmdb_contents(folder) and f"digits/{name}" in known and len(known) == {"dial": 4, "mda": 6}[method]
    shutil.copytree(lmdb, tmp_path / "before")
    other_images(lmdb)
    message = (
        rf"{name}: other records than .*run was trained on: their sha256 was {known[f'digits/{name}']}, is \w{{64}}; "
    )
    with pytest.raises(ProgramError, match=message):
        train_here(folder, resume=True)
    with pytest.raises(ProgramError, match=message):
        evaluate(folder)
    folder.record_file.unlink()
    with pytest.raises(ProgramError, match=message):
        train_here(folder, resume=True)
    train_here(other, resume=True)  # which has not begun
    shutil.rmtree(lmdb)
    shutil.move(tmp_path / "before", lmdb)
    train_here(folder, resume=True)
    shutil.rmtree(folder.data_folder)
    train_here(folder, resume=True)  # finished, and the images are no longer needed


@pytest.mark.program
def test_train_a_run_does_not_go_on_from_other_weights(tiny_data, tmp_path):
    """Whether it is finished or not; without --weights it goes on."""
    first = write_run(small("source_only", seed=1), tmp_path / "first", data=tiny_data)
    weights = tmp_path / "w.caffemodel"
    shutil.copyfile(first.initial, weights)
    folder = write_run(small("source_only"), tmp_path / "run", data=tiny_data)
    arguments = ("train", "--threads", "1", "--resume")
    assert program(*arguments, "--weights", weights, folder.path).returncode == 0
    assert program(*arguments, "--weights", weights, folder.path).returncode == 0
    before = hashlib.sha256(weights.read_bytes()).hexdigest()
    shutil.copyfile(folder.initial, weights)
    for finished in (True, False):
        if not finished:
            folder.record_file.unlink()
        done = program(*arguments, "--weights", weights, folder.path)
        found = hashlib.sha256(weights.read_bytes()).hexdigest()
        expected = (
            f"{folder.path} began from w.caffemodel (sha256 {before}), expected {weights} (sha256 {found}): leave"
        )
        assert done.returncode == 1 and done.stderr.startswith(f"error: {expected} --weights out, or write the run")
        assert done.stderr.count("\n") == 1
    assert program(*arguments, folder.path).returncode == 0
    training = json.loads(folder.training.read_text())
    folder.training.write_text(json.dumps({**training, "weights": None}))
    done = program(*arguments, "--weights", weights, folder.path)
    assert done.returncode == 1 and "run began from random weights, expected" in done.stderr
    weights.unlink()
    assert program(*arguments, "--weights", weights, folder.path).returncode == 0


@pytest.mark.program
def test_train_a_crash_in_one_run_does_not_take_the_other(tiny_data, tmp_path):
    good = write_run(small("dial"), tmp_path / "good", data=tiny_data)
    bad = write_run(small("mda"), tmp_path / "bad", data=tiny_data)
    bad.net("train").write_text(bad.net("train").read_text().replace('"Slice"', '"Silence"'))
    with pytest.raises(ProgramError, match="Silence Layer produces 0 top"):
        train_here(bad, good, jobs=2)
    assert good.record_file.exists() and not bad.record_file.exists()


@pytest.mark.program
@pytest.mark.parametrize(
    ("method", "said"),
    [("mda", r'MDALayer ".*\bnan\b.*'), ("plain", r"train\.log: the loss at iteration \d0? is -?nan")],
)
def test_train_a_training_that_diverges_ends_at_the_first_number_that_is_none(method, said, tiny_data, tmp_path):
    folder = write_run(small(method, iterations=100_000, base_lr=1e18), tmp_path / "run", data=tiny_data)
    with pytest.raises(ProgramError, match=f"{said}: the training diverged; begin it again with a lower"):
        train_here(folder)
    assert not folder.record_file.exists() and last_iteration(folder) < 100
    assert state_of(folder).state == State.FAILED and "diverged" in state_of(folder).note
    assert not folder.is_locked()


@pytest.mark.program
def test_loaded_from_weights_of_the_other_geometry_are_refused(pictures, tmp_path):
    other = make_experiment("pacs", "source_only", iterations=1, batch_size=6, geometry="caffe")
    weights = initial_weights(write_run(other, tmp_path / "caffe", data=pictures))
    run = write_run(make_experiment("pacs", "mda", iterations=1, batch_size=8), tmp_path / "run", data=pictures)
    done = program("train", "--threads", "1", "--weights", weights, run.path)
    assert done.returncode == 1
    assert "has a res2a_branch1, so its geometry is caffe; that of the run is torch: write the run again" in done.stderr
    fitting = make_experiment("pacs", "mda", iterations=1, batch_size=8, geometry="caffe")
    said = loaded_from(write_run(fitting, tmp_path / "fitting", data=pictures), weights)
    loaded, anew, unused = said.split("; ")
    assert "res2a_branch1, " in loaded and loaded.endswith(" and 36 more")
    assert "mda2a_branch1" in anew and "domain_fc" in anew and "domain_bn2a_branch1" in anew
    assert "bn2a_branch1" in unused


def test_share_of_cores_a_process_gets_its_share_of_the_cores(monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    assert [share_of_cores(processes) for processes in (1, 2, 3, 9)] == [8, 4, 2, 1]


@pytest.mark.program
def test_train_a_finished_run_is_never_repeated(trained, tiny_data):
    before = trained.record_file.stat().st_mtime_ns
    train_here(write_missing(trained.experiment, trained.path, data=tiny_data), resume=True)
    assert trained.record_file.stat().st_mtime_ns == before
    for field, message in (
        ("max_iter", "max_iter is 7, expected 4 by exp"),
        ("base_lr", "base_lr is 7, expected 0.01 "),
    ):
        text = trained.solver.read_text()
        trained.solver.write_text(re.sub(rf"(?m)^{field}: .*", f"{field}: 7", text))
        try:
            with pytest.raises(ProgramError, match=message):
                train_here(trained, resume=True)
        finally:
            trained.solver.write_text(text)
    longer = replace(trained.experiment, recipe=replace(trained.experiment.recipe, iterations=7))
    with pytest.raises(ProgramError, match="run holds another experiment: iterations is 4 there, 7 here"):
        write_missing(longer, trained.path, data=tiny_data)
    with pytest.raises(ProgramError, match=r"run holds another experiment: data is '.*' there, '.*other' here"):
        write_missing(trained.experiment, trained.path, data=tiny_data / "other")
