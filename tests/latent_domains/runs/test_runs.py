"""Run folders from writing to record, with the real caffe binary on tiny LMDBs."""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import pytest
from caffe.proto import caffe_pb2

from latent_domains.common.caffe_log import curves
from latent_domains.common.caffe_process import Threads, environment
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data import lmdb_io
from latent_domains.experiment.experiment import METHODS, make_experiment
from latent_domains.runs.preflight import preflight
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training import train
from latent_domains.training.children import Children
from latent_domains.training.suite import run_suite
from latent_domains.training.train import train_all
from tests.fixtures import TEST
from tests.programs import program as in_process
from tests.programs import wait_until

ONE = Threads(1, 1)


def small(method: str = "mda", **options):
    return make_experiment("digits", method, **{"batch_size": 8, "iterations": 6, **options})


def program(name: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", f"tools.{name}", *map(str, arguments)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


# --- writing


def test_a_run_folder_holds_its_nets_solver_and_description(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    assert {path.name for path in folder.path.iterdir()} == {
        "experiment.json",
        "solver.prototxt",
        "snapshots",
        "train.prototxt",
        "test.prototxt",
        "deploy.prototxt",
        "domains.prototxt",
    }
    assert RunFolder.load(folder.path) == folder
    batch_size, batches = folder.test_batches()["usps"]
    assert batch_size * batches == TEST


def test_known_domain_labels_are_a_share_of_each_source(tiny_data, tmp_path):
    folder = write_run(small(known_share=0.25, seed=4), tmp_path / "run", data=tiny_data)
    for index, source in enumerate(("mnist", "mnistm")):
        labels = lmdb_io.read_labels(folder.domain_labels(source))
        assert len(labels) == 48 and set(labels) == {-1, index}
        assert (labels == index).sum() == 12
    preflight(folder)


def test_programs_take_paths_relative_to_where_they_are_called(tiny_data, tmp_path):
    shutil.copytree(tiny_data, tmp_path / "data")
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    write = ["write_run", "--data", "data", "--iterations", "2", "--batch-size", "8", "run"]
    for arguments in (write, ["train", "--threads", "1,1", "run"], ["evaluate", "run"]):
        command = [sys.executable, "-m", f"tools.{arguments[0]}", *arguments[1:]]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr
    assert "on usps" in done.stdout


def test_write_run_as_a_program(tiny_data, tmp_path):
    run = tmp_path / "run"
    made = program("write_run", "--method", "mda", "--k", 3, "--data", tiny_data, run)
    assert made.returncode == 0, made.stderr
    assert RunFolder.load(run).experiment == make_experiment("digits", "mda", k=3)
    again = program("write_run", "--method", "mda", run)
    assert again.returncode == 1
    assert again.stderr == f"error: {run} exists already: choose another name or pass --force to replace it\n"
    wrong = program("write_run", "--method", "dial", "--k", 3, tmp_path / "other")
    assert (wrong.returncode, wrong.stderr) == (1, "error: k: got 3, expected 1 for dial with 2 sources\n")
    assert not (tmp_path / "other").exists()


def test_force_replaces_run_folders_alone(tiny_data, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").touch()
    with pytest.raises(ProgramError, match=r"thesis is no run folder .* --force does not replace it"):
        write_run(small(), tmp_path / "thesis", data=tiny_data, force=True)
    assert (tmp_path / "thesis" / "chapter1").exists()
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    with folder.locked(), pytest.raises(ProgramError, match="run: it is being trained already"):
        write_run(small(), tmp_path / "run", data=tiny_data, force=True)
    write_run(small("dial"), tmp_path / "run", data=tiny_data, force=True)
    assert RunFolder.load(tmp_path / "run").experiment.method == "dial"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "no experiment.json in it"),
        (lambda file: file.write_text("{"), "experiment.json: "),
        (lambda file: file.write_text("{}"), "experiment.json: found no experiment, data"),
        (lambda file: file.write_bytes(b"\xff"), "experiment.json: not valid JSON"),
        (lambda file: file.write_text('{"experiment": 5, "data": "data"}'), "got 5, expected an object"),
        (lambda file: file.write_text(file.read_text().replace('"data": "', '"data": 5, "x": "')), "data: got 5"),
        (lambda file: file.write_text(file.read_text().replace('"k": 2', '"k": "2"')), "k: got '2', expected an int"),
        (lambda file: file.write_text(file.read_text().replace('"k": 2', '"k": 0')), "k: got 0"),
    ],
)
def test_a_damaged_description_is_named(damage, message, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    damage(folder.path / "experiment.json")
    with pytest.raises(ProgramError) as error:
        RunFolder.load(folder.path)
    assert message in str(error.value) and str(folder.path) in str(error.value)


# --- preflight


def with_lmdb(data: Path, copy: Path, name: str, images: list[np.ndarray], labels: list[int]) -> Path:
    """A copy of a data folder with one LMDB written anew."""
    shutil.copytree(data, copy)
    with lmdb_io.create(copy / "digits" / name, force=True) as (writer, _):
        for image, label in zip(images, labels, strict=True):
            writer.put("x", lmdb_io.image_datum(image, label))
    return copy


@pytest.mark.parametrize(
    ("name", "shape", "label", "message"),
    [
        ("mnist_train", (28, 28, 1), 3, "mnist_train: images are 1×28×28, expected 3×28×28"),
        ("usps_train", (16, 16, 3), 3, "usps_train: images are 3×16×16, expected 3×28×28"),
        ("mnistm_train", (28, 28, 3), 10, "mnistm_train: labels are 10 to 10, expected 0 to 9"),
        ("usps_test", (28, 28, 3), -1, "usps_test: labels are -1 to -1, expected 0 to 9"),
    ],
)
def test_preflight_names_data_that_does_not_fit(name, shape, label, message, tiny_data, tmp_path):
    images = [np.zeros(shape, np.uint8)] * TEST
    data = with_lmdb(tiny_data, tmp_path / "data", name, images, [label] * TEST)
    folder = write_run(small(), tmp_path / "run", data=data)
    with pytest.raises(ProgramError) as error:
        preflight(folder)
    assert message in str(error.value)


def test_preflight_does_not_ask_for_target_labels_in_training(tiny_data, tmp_path):
    images = [np.zeros((28, 28, 3), np.uint8)] * TEST
    data = with_lmdb(tiny_data, tmp_path / "data", "usps_train", images, [-1] * TEST)
    preflight(write_run(small(), tmp_path / "run", data=data))


def test_preflight_says_how_to_build_what_is_missing(tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tmp_path / "data")
    message = "mnist_train: no LMDB there; build it with: python -m tools.get_data digits"
    with pytest.raises(ProgramError, match=re.escape(message)):
        preflight(folder)


def test_preflight_sees_a_test_set_of_another_size(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tmp_path / "data")  # written before the data was there
    shutil.copytree(tiny_data, tmp_path / "data")
    with pytest.raises(ProgramError, match=f"usps_test: {TEST} images, but a test pass of .*run covers 2007"):
        preflight(folder)


def test_preflight_sees_domain_labels_out_of_step(tiny_data, tmp_path):
    folder = write_run(small(known_share=0.5), tmp_path / "run", data=tiny_data)
    shutil.rmtree(folder.domain_labels("mnist"))
    shutil.copytree(tiny_data / "digits" / "mnist_test", folder.domain_labels("mnist"))
    with pytest.raises(ProgramError, match=f"{TEST} domain labels for 48 images of mnist"):
        preflight(folder)


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


@pytest.mark.parametrize(
    ("file", "old", "new", "message"),
    [
        ("solver", "max_iter: 6", "max_iter: 7", "max_iter is 7, but iterations in experiment.json is 6"),
        ("solver", "random_seed: 0", "random_seed: 1", "random_seed is 1, but seed in experiment.json is 0"),
        ("solver", "max_iter", "maximum", "solver.prototxt: not a prototxt of Caffe's: "),
        ("solver", "test_iter: 1\n", "", r"solver.prototxt: test_iter is [], expected 1 of at least 1"),
        ("test", "batch_size: 30", "batch_size: 0", "test.prototxt: Data layers have batch sizes [0], expected one of"),
        ("test", "layer {", "lair {", "test.prototxt: not a prototxt of Caffe's: "),
        (
            "train",
            '"num_domains": 3, "moving',
            '"num_domains": 4, "moving',
            "MDALayers have num_domains [4], but mda with k=2 and k_target=1 in experiment.json makes it [3]",
        ),
    ],
)
def test_preflight_sees_nets_that_are_not_what_the_description_says(file, old, new, message, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    edit(folder.path / f"{file}.prototxt", old, new)
    with pytest.raises(ProgramError) as error:
        preflight(folder)
    assert message in str(error.value) and f"{folder.path}/{file}.prototxt" in str(error.value)


@pytest.mark.parametrize("phase", ["train", "test", "domains"])
def test_preflight_misses_every_net(phase, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.net(phase).unlink()
    with pytest.raises(ProgramError, match=f"run/{phase}.prototxt is missing: write the run folder again"):
        preflight(folder)


def test_a_copied_folder_does_not_train_into_the_first(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    shutil.copytree(folder.path, tmp_path / "copy")
    preflight(folder)
    with pytest.raises(ProgramError, match=r"copy/solver.prototxt: train_net is .*run/train.*moved or copied"):
        preflight(RunFolder.load(tmp_path / "copy"))


def test_preflight_imports_every_layer_and_numba(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    (tmp_path / "numba.py").write_text("raise ImportError('no numba for you')")
    monkeypatch.setattr(
        "latent_domains.runs.preflight.environment",
        lambda threads: {**environment(threads), "PYTHONPATH": str(tmp_path)},
    )
    with pytest.raises(ProgramError, match="caffe_layers does not import: ImportError: no numba for you"):
        preflight(folder)


def test_preflight_without_caffe_on_the_path(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProgramError, match=re.escape("no caffe on PATH: run '. ./env.sh'")):
        preflight(folder)


# --- training


@pytest.mark.parametrize("method", METHODS)
def test_train_and_record(method, tiny_data, tmp_path):
    folder = write_run(small(method), tmp_path / "run", data=tiny_data)
    train_all([folder], threads=ONE)
    record = json.loads(folder.record.read_text())
    assert record["iteration"] == 6 and record["test_images"] == TEST
    assert (record["accuracy"] * TEST) % 1 == pytest.approx(0, abs=1e-9)
    assert record["experiment"] == json.loads(json.dumps(folder.experiment.to_json()))
    assert record["training"]["seconds"] > 0 and record["versions"]["caffe"]
    found = curves(folder.log.read_text().splitlines())
    assert np.isfinite([*found["train", "loss"].values()]).all()
    if method == "mda":
        usage = record["domain_usage"]
        assert usage["sources"] == ["mnist", "mnistm"] and usage["images"] == 96
        assert sum(usage["share"]) == pytest.approx(1)
    else:
        assert record["domain_usage"] is None


def test_accuracy_of_the_record_is_that_of_caffe_test(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    train_all([folder], threads=ONE)
    model = folder.latest_snapshot().model
    _, batches = folder.test_batches()["usps"]
    command = ["caffe", "test", "-model", folder.net("test"), "-weights", model, "-iterations", str(batches)]
    log = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "GLOG_minloglevel": "0"}
    ).stderr
    shown = float(re.findall(r"\] accuracy = (\S+)", log)[-1])
    assert json.loads(folder.record.read_text())["accuracy"] == pytest.approx(shown, abs=1e-5)


def test_same_seed_same_losses_another_seed_others(tiny_data, tmp_path):
    losses = []
    for name, seed in (("a", 3), ("b", 3), ("c", 4)):
        folder = write_run(small(seed=seed), tmp_path / name, data=tiny_data)
        train_all([folder], threads=ONE)
        losses.append(curves(folder.log.read_text().splitlines())["train", "loss"])
    assert losses[0] == losses[1] != losses[2]


def start_training(folder: RunFolder, *options: str, errors: int = subprocess.PIPE) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tools.train", "--threads", "1,1", *options, str(folder.path)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)


def wait_for(folder: RunFolder, text: str) -> None:
    wait_until(lambda: folder.log.exists() and text in folder.log.read_text(), repr(text))


def wait_for_evaluation(training: subprocess.Popen[str]) -> None:
    def evaluates() -> bool:
        with suppress(psutil.Error):  # a child may end while it is looked at
            return any("tools.evaluate" in child.cmdline() for child in psutil.Process(training.pid).children())
        return False

    wait_until(evaluates, "the evaluation")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_writes_a_snapshot_and_resume_goes_on(number, tiny_data, tmp_path):
    folder = write_run(small(iterations=100_000), tmp_path / "run", data=tiny_data)
    training = start_training(folder)
    wait_for(folder, "Iteration 10 (")
    with pytest.raises(ProgramError, match="run: it is being trained already"):
        train_all([folder], threads=ONE, resume=True)
    training.send_signal(number)
    _, errors = training.communicate(timeout=60)
    assert training.returncode == 130, errors
    assert "Traceback" not in errors
    reached = folder.latest_snapshot().iteration
    assert 10 <= reached < 100_000
    assert not folder.record.exists()

    with pytest.raises(ProgramError, match=f"was trained to iteration {reached}: pass --resume"):
        train_all([folder], threads=ONE)
    text = folder.solver.read_text()
    folder.solver.write_text(text.replace("max_iter: 100000", f"max_iter: {reached + 5}"))
    description = folder.path / "experiment.json"
    description.write_text(description.read_text().replace('"iterations": 100000', f'"iterations": {reached + 5}'))
    folder = RunFolder.load(folder.path)
    seconds = json.loads(folder.training.read_text())["seconds"]
    train_all([folder], threads=ONE, resume=True)
    record = json.loads(folder.record.read_text())
    assert record["iteration"] == reached + 5
    assert record["training"]["seconds"] > seconds
    assert "Resuming from " in folder.log.read_text()


def test_ctrl_c_in_the_evaluation_and_resume_evaluates(tiny_data, tmp_path):
    folder = write_run(small("dial"), tmp_path / "run", data=tiny_data)
    training = start_training(folder)
    wait_for_evaluation(training)  # it takes seconds to begin: the log's last line may be read when it has ended
    training.send_signal(signal.SIGINT)
    _, errors = training.communicate(timeout=60)
    assert training.returncode == 130 and "Traceback" not in errors, errors
    assert not folder.record.exists()
    log = folder.log.read_text()
    train_all([folder], threads=ONE, resume=True)
    assert folder.read_record().iteration == 6
    assert folder.log.read_text() == log


def test_a_progress_bar_nobody_reads_does_not_end_the_run(tiny_data, tmp_path):
    folder = write_run(small("dial", iterations=30), tmp_path / "run", data=tiny_data)
    reader, writer = os.pipe()
    training = start_training(folder, errors=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    shown, _ = training.communicate(timeout=120)
    assert training.returncode == 0
    assert shown.endswith("% on usps at the last iteration\n")


@pytest.fixture
def stubborn():
    """A process that ignores Ctrl-C."""
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); print(flush=True); signal.pause()"
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    child.stdout.readline()
    yield child
    child.kill()
    child.communicate()


def test_a_second_ctrl_c_kills_but_not_one_that_comes_at_once(stubborn, monkeypatch, capsys):
    children = Children()
    with children.take_signals(), children.watch(stubborn):
        for number in (signal.SIGINT, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            os.kill(os.getpid(), number)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        assert children.stopping
        monkeypatch.setattr(children, "SAME_SIGNAL", 0)
        os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(subprocess.TimeoutExpired):
            stubborn.wait(0.3)
        os.kill(os.getpid(), signal.SIGINT)
        assert stubborn.wait(10) == -signal.SIGKILL
    assert capsys.readouterr().err.splitlines() == [
        "stopping: each run writes a snapshot first (Ctrl-C again to kill)",
        "killed",
    ]


def test_an_error_kills_the_child(stubborn):
    with pytest.raises(RuntimeError), Children().watch(stubborn):
        raise RuntimeError
    assert stubborn.wait(10) == -signal.SIGKILL


def test_a_full_disk_is_told_with_the_name_of_the_log():
    message = "/dev/full: No space left on device; the run was stopped"
    with pytest.raises(ProgramError, match=message), train._appending(Path("/dev/full")) as write:
        write("line\n")


@pytest.mark.parametrize("jobs", ["0", "-1", "two"])
def test_jobs_must_be_a_number_of_runs(jobs, tmp_path):
    done = in_process("train", "--jobs", jobs, tmp_path)
    assert done.returncode == 2
    assert f"argument --jobs: got '{jobs}', expected a whole number of at least 1" in done.stderr


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"experiment": {}, "accuracy": null, "domain_usage": null}'])
def test_a_damaged_record_is_named(text, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.record.write_text(text)
    done = in_process("train", "--resume", "--threads", "1,1", folder.path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {folder.record}: ")
    assert done.stderr.endswith(f"; make it again with: python -m tools.evaluate {folder.path}\n")


def test_a_truncated_snapshot_is_passed_over(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.solver.write_text(folder.solver.read_text().replace("snapshot: 500", "snapshot: 2"))
    train_all([folder], threads=ONE)
    assert folder.latest_snapshot().iteration == 6
    model = folder.latest_snapshot().model
    model.write_bytes(model.read_bytes()[:1000])
    assert folder.latest_snapshot().iteration == 4
    (folder.snapshots / "model_iter_4.solverstate").write_bytes(b"")
    assert folder.latest_snapshot().iteration == 2


def test_a_run_begins_from_the_weights_of_another(tiny_data, tmp_path):
    first = write_run(small("dial", lambda_c=0.0), tmp_path / "first", data=tiny_data)
    train_all([first], threads=ONE)
    weights = first.latest_snapshot().model
    second = write_run(small("mda", iterations=1), tmp_path / "second", data=tiny_data)
    net = second.net("train")
    net.write_text(net.read_text().replace("lr_mult: 1 ", "lr_mult: 0 ").replace("lr_mult: 2 ", "lr_mult: 0 "))
    # D differs, so the statistics of DIAL do not fit: they are left out of the file.
    kept = tmp_path / "kept.caffemodel"
    model = caffe_pb2.NetParameter.FromString(weights.read_bytes())
    layers = [layer for layer in model.layer if layer.type != "Python"]
    del model.layer[:]
    model.layer.extend(layers)
    kept.write_bytes(model.SerializeToString())
    done = program("train", "--threads", "1,1", "--weights", kept, second.path)
    assert done.returncode == 0, done.stderr
    said = r"kept.caffemodel: loaded: conv1, conv1_scale, .*; begin anew: conv1_mda, .*domain_fc4; not used: none"
    assert re.search(said, done.stderr + done.stdout)
    after = caffe_pb2.NetParameter.FromString(second.latest_snapshot().model.read_bytes())
    blobs = {layer.name: layer.blobs[0].data for layer in after.layer if layer.name in ("conv2", "fc3")}
    for layer in layers:
        if layer.name in blobs:
            assert list(blobs[layer.name]) == list(layer.blobs[0].data), layer.name
    recorded = second.read_record().training.weights
    assert recorded.to_json() == {"file": "kept.caffemodel", "sha256": hashlib.sha256(kept.read_bytes()).hexdigest()}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda file: None, "w.caffemodel: no such file, expected a caffemodel"),
        (lambda file: file.write_bytes(b"no model"), "8 bytes that are no caffemodel"),
        (lambda file: file.write_bytes(caffe_pb2.NetParameter(name="x").SerializeToString()), "none of the layers"),
    ],
)
def test_weights_that_are_none_are_refused_before_training(make, message, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    make(tmp_path / "w.caffemodel")
    done = program("train", "--threads", "1,1", "--weights", tmp_path / "w.caffemodel", folder.path)
    assert done.returncode == 1 and message in done.stderr
    assert not folder.log.exists() and not list(folder.snapshots.iterdir())


def test_a_run_that_began_from_weights_does_not_begin_again_without_them(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.training.write_text(json.dumps({"seconds": 1.0, "weights": {"file": "w.caffemodel", "sha256": "0"}}))
    done = program("train", "--threads", "1,1", "--resume", folder.path)
    assert done.returncode == 1
    assert "it began from w.caffemodel and has no snapshot: pass --weights again" in done.stderr


def test_a_branch_of_another_number_of_domains_is_refused(tiny_data, tmp_path):
    first = write_run(small("mda", k=3, iterations=1), tmp_path / "first", data=tiny_data)
    train_all([first], threads=ONE)
    model = caffe_pb2.NetParameter.FromString(first.latest_snapshot().model.read_bytes())
    layers = [layer for layer in model.layer if layer.type != "Python"]
    del model.layer[:]
    model.layer.extend(layers)
    (tmp_path / "w.caffemodel").write_bytes(model.SerializeToString())
    second = write_run(small("mda"), tmp_path / "second", data=tiny_data)
    done = program("train", "--threads", "1,1", "--weights", tmp_path / "w.caffemodel", second.path)
    assert done.returncode == 1 and "blob 0 of layer domain_fc4 is 3×100, expected 2×100" in done.stderr


def test_weights_of_another_number_of_domains_are_refused(tiny_data, tmp_path):
    first = write_run(small("dial", iterations=1), tmp_path / "first", data=tiny_data)
    train_all([first], threads=ONE)
    second = write_run(small("mda"), tmp_path / "second", data=tiny_data)
    done = program("train", "--threads", "1,1", "--weights", first.latest_snapshot().model, second.path)
    assert done.returncode == 1
    assert "blob 0 of layer conv1_mda is 2×32, expected 3×32" in done.stderr


def test_a_failing_layer_is_named_and_the_log_kept(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    net = folder.net("train")
    net.write_text(net.read_text().replace('"first": 2', '"first": 3'))
    done = program("train", "--threads", "1,1", folder.path)
    assert done.returncode == 1
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith(f"error: {folder.path}: caffe train failed: exit code ")
    assert "ValueError: " in last and str(folder.log) in last
    assert not folder.record.exists()


def test_a_crash_in_one_run_does_not_take_the_other(tiny_data, tmp_path):
    good = write_run(small("dial"), tmp_path / "good", data=tiny_data)
    bad = write_run(small("mda"), tmp_path / "bad", data=tiny_data)
    bad.net("train").write_text(bad.net("train").read_text().replace('"Slice"', '"Slize"'))
    with pytest.raises(ProgramError, match="Unknown layer type: Slize"):
        train_all([bad, good], jobs=2)
    assert good.record.exists() and not bad.record.exists()


def test_every_failure_is_told(tiny_data, tmp_path, capsys):
    folders = [write_run(small("dial"), tmp_path / name, data=tiny_data) for name in ("a", "b")]
    for folder, wrong in zip(folders, ("Slize", "Slyce"), strict=True):
        edit(folder.net("train"), '"Slice"', f'"{wrong}"')
        folder.log.write_text("ValueError: what went wrong the last time\n")
    with pytest.raises(ProgramError, match=r"a: caffe train failed: .*Unknown layer type: Slize"):
        train_all(folders, threads=ONE)
    assert re.search(r"error: .*b: caffe train failed: .*Unknown layer type: Slyce", capsys.readouterr().err)


def test_evaluation_needs_the_data(tiny_data, tmp_path):
    shutil.copytree(tiny_data, tmp_path / "data")
    folder = write_run(small("source_only"), tmp_path / "run", data=tmp_path / "data")
    train_all([folder], threads=ONE)
    shutil.rmtree(tmp_path / "data" / "digits" / "usps_test")
    done = program("evaluate", folder.path)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: {tmp_path}/data/digits/usps_test: no LMDB there; build it with: ")


def test_evaluation_needs_the_last_iteration(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    done = program("evaluate", folder.path)
    assert done.returncode == 1
    assert f"{folder.path}: trained to iteration 0 of 6" in done.stderr


# --- suites


def test_a_suite_never_repeats_a_finished_run(tiny_data, tmp_path):
    experiments = [small("dial"), small("mda")]
    first = run_suite(experiments, tmp_path, data=tiny_data, jobs=2, threads=None)
    times = [folder.record.stat().st_mtime_ns for folder, _ in first]
    second = run_suite(experiments, tmp_path, data=tiny_data, jobs=2, threads=None)
    assert [folder.record.stat().st_mtime_ns for folder, _ in second] == times
    assert [record for _, record in first] == [record for _, record in second]
    longer = small("dial", iterations=7)
    shutil.copytree(tmp_path / experiments[0].name, tmp_path / longer.name)
    with pytest.raises(ProgramError, match=r"dial_\S*seed0 holds another experiment: iterations is 6 there, 7 here"):
        run_suite([longer], tmp_path, data=tiny_data, jobs=1, threads=None)
    with pytest.raises(ProgramError, match=r"seed0 holds another experiment: data is '.*' there, '.*other' here"):
        run_suite([small("dial")], tmp_path, data=tmp_path / "other", jobs=1, threads=None)


def test_committed_solver_as_typed_from_the_root(tiny_data, tmp_path):
    """caffe train -solver solvers/digits.prototxt, in a folder laid out as the repository, for 4 iterations."""
    for name in ("prototxt", "solvers"):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "data").symlink_to(tiny_data)
    (tmp_path / "runs").mkdir()
    solver = tmp_path / "solvers" / "digits.prototxt"
    solver.write_text(solver.read_text().replace("max_iter: 2000", "max_iter: 4"))
    command = ["caffe", "train", "-solver", "solvers/digits.prototxt"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, "GLOG_minloglevel": "0"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Optimization Done" in done.stderr
    command = ["caffe", "test", "-model", "prototxt/mnist/digits_test.prototxt", "-iterations", "1"]
    command += ["-weights", "runs/digits_iter_4.caffemodel"]
    tested = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert tested.returncode == 0, tested.stderr[-2000:]
    model = caffe_pb2.NetParameter.FromString((tmp_path / "runs" / "digits_iter_4.caffemodel").read_bytes())
    statistics = next(layer for layer in model.layer if layer.name == "conv1_mda").blobs
    divisor = np.array(statistics[2].data)
    expected = sum(0.95**i for i in range(4))
    np.testing.assert_allclose(divisor, expected, rtol=1e-5)
