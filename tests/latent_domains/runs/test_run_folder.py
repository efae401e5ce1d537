"""A run folder is read back, or what is wrong with it is named."""

import shutil

import caffe
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.runs.evaluate import evaluate
from latent_domains.runs.run_folder import RunFolder, find_runs
from latent_domains.runs.write import write_run
from tests.run_folders import edit, small
from tests.training import train_here


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda file: file.unlink(), "no experiment.json in it"),
        (lambda file: file.write_text("{"), "experiment.json: "),
        (lambda file: file.write_text(file.read_text().replace('"data": "', '"data": 5, "data2": "')), "data: found 5"),
        (lambda file: file.write_text(file.read_text().replace('"k": 2', '"k": "2"')), "k: found '2', expected"),
        (lambda file: file.write_text(file.read_text().replace('"k": 2', '"k": 0')), "k: found 0, expected"),
    ],
)
def test_run_folder_a_damaged_description_is_named(damage, message, tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    damage(folder.path / "experiment.json")
    with pytest.raises(ProgramError) as error:
        RunFolder.load(folder.path)
    assert message in str(error.value) and str(folder.path) in str(error.value)


def test_find_runs_what_is_written_aside_is_no_run(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    shutil.copytree(folder.path, tmp_path / ".run.ab12_xyz" / "new")
    assert find_runs(tmp_path) == [folder.path]


def test_training_writes_snapshots_of_later_iterations_alone(tiny_data, tmp_path):
    """Older ones may be links: they are only read."""
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    for name in ("model_iter_4.caffemodel", "model_iter_10.solverstate", "model_iter_x.caffemodel"):
        (folder.snapshots / name).touch()
    assert [file.name for file in folder.snapshots_after(4)] == ["model_iter_10.solverstate"]


@pytest.mark.parametrize(("finished", "advice"), [(False, r"train it .*--resume"), (True, "train another folder")])
def test_final_snapshot_what_to_do_without_the_last_snapshot(finished, advice, tiny_data, tmp_path):
    """--resume would leave a run with a record alone."""
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    if finished:
        folder.record_file.touch()
    with pytest.raises(ProgramError, match=advice):
        folder.final_snapshot()


@pytest.mark.program
def test_run_folder_a_record_of_another_experiment_is_told(trained, tmp_path):
    folder = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    edit(folder.record_file, '"seed": 5', '"seed": 6')
    with pytest.raises(ProgramError, match=r"record\.json: experiment: differs from experiment\.json"):
        folder.read_record()


@pytest.mark.program
def test_latest_snapshot_a_truncated_snapshot_is_passed_over(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    folder.solver.write_text(folder.solver.read_text().replace("snapshot: 500", "snapshot: 2"))
    train_here(folder)
    assert folder.latest_snapshot().iteration == 6
    model = folder.latest_snapshot().model
    model.write_bytes(model.read_bytes()[:1000])
    assert folder.latest_snapshot().iteration == 4
    (folder.snapshots / "model_iter_4.solverstate").write_bytes(b"")
    assert folder.latest_snapshot().iteration == 2


@pytest.mark.program
@pytest.mark.parametrize(
    ("options", "said"), [({"method": "source_only"}, "has no "), ({"k": 2}, "blob . of layer .*, expected")]
)
def test_run_folder_a_snapshot_of_another_run_is_told(options, said, trained, tiny_data, tmp_path):
    """Caffe would give layers that it lacks what they begin with, and say nothing; or end the process."""
    other = write_run(small(**options, iterations=4), tmp_path / "other", data=tiny_data)
    train_here(other)
    folder = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    shutil.copyfile(other.final_snapshot().model, folder.final_snapshot().model)
    message = rf"deploy\.prototxt is not the net of these weights: .*model_iter_4\.caffemodel: .*{said}"
    with pytest.raises(ProgramError, match=message):
        evaluate(folder)


@pytest.mark.program
def test_run_folder_a_net_that_was_edited_into_one_that_caffe_refuses(trained, tmp_path):
    folder = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    net = folder.net("domains")
    lines = net.read_text().splitlines()
    softmax = next(number for number, line in enumerate(lines) if '"Softmax"' in line)
    bottom = next(number for number in range(softmax, len(lines)) if "bottom:" in lines[number])
    net.write_text("\n".join(lines[:bottom] + lines[bottom + 1 :]))
    with pytest.raises(ProgramError, match=r"domains\.prototxt: Caffe refuses this net: .*takes 1 bottom blob"):
        folder.load_net("domains", caffe.TEST, folder.final_snapshot().model)
