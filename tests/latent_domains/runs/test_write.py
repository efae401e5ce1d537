"""Run folders as they are written."""

import pytest
from caffe.proto import caffe_pb2
from google.protobuf import text_format

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data import lmdb_io
from latent_domains.domains.pictures import choose_known
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs import write
from latent_domains.runs.preflight import preflight
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.fixtures import TEST
from tests.run_folders import small


def test_write_run_a_run_folder_holds_its_nets_solver_and_description(tiny_data, tmp_path):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    assert {path.name for path in folder.path.iterdir()} == {
        "experiment.json",
        "solver.prototxt",
        "initial.caffemodel",
        "snapshots",
        "train.prototxt",
        "test.prototxt",
        "deploy.prototxt",
        "domains.prototxt",
    }
    assert RunFolder.load(folder.path) == folder
    batch_size, batches = folder.test_batches()["usps"]
    assert batch_size * batches == TEST


@pytest.mark.program
def test_write_run_known_domain_labels_are_a_share_of_each_source(tiny_data, tmp_path):
    folder = write_run(small(known_share=0.25, seed=4), tmp_path / "run", data=tiny_data)
    for index, source in enumerate(("mnist", "mnistm")):
        labels = lmdb_io.read_labels(folder.domain_labels[source])
        assert set(labels) == {-1, index} and (labels == index).sum() == 12
        assert (labels == index).tolist() == choose_known([48, 48], 0.25, 4)[index].tolist()
    preflight(folder)


def test_write_run_nobody_trains_a_folder_while_it_is_replaced(tiny_data, tmp_path, monkeypatch):
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    draw, seen = write.draw_weights, []

    def drawn(*arguments):
        seen.append(folder.is_locked())
        draw(*arguments)

    monkeypatch.setattr(write, "draw_weights", drawn)
    write_run(small("dial"), folder.path, data=tiny_data, force=True)
    assert seen == [True] and not folder.is_locked()


def test_write_run_a_folder_that_another_process_writes_meanwhile_stays(tiny_data, tmp_path, monkeypatch):
    draw = write.draw_weights

    def drawn(*arguments):
        monkeypatch.setattr(write, "draw_weights", draw)
        write_run(small("dial"), tmp_path / "run", data=tiny_data)
        draw(*arguments)

    monkeypatch.setattr(write, "draw_weights", drawn)
    with pytest.raises(ProgramError, match="run: another process made it meanwhile"):
        write_run(small(), tmp_path / "run", data=tiny_data, force=True)
    assert RunFolder.load(tmp_path / "run").experiment.method.name == "dial"


def test_write_run_force_replaces_run_folders_alone(tiny_data, tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1").touch()
    with pytest.raises(ProgramError, match=r"thesis is not a run folder .* --force does not replace it"):
        write_run(small(), tmp_path / "thesis", data=tiny_data, force=True)
    assert (tmp_path / "thesis" / "chapter1").exists()
    folder = write_run(small(), tmp_path / "run", data=tiny_data)
    for force in (True, False):
        with folder.locked(), pytest.raises(ProgramError, match="run: it is being trained already") as error:
            write_run(small(), tmp_path / "run", data=tiny_data, force=force)
        assert "--force" not in str(error.value)
    write_run(small("dial"), tmp_path / "run", data=tiny_data, force=True)
    assert RunFolder.load(tmp_path / "run").experiment.method.name == "dial"


def test_write_run_a_comma_would_part_the_name_of_the_weights(tiny_data, tmp_path):
    with pytest.raises(ProgramError, match="a,b: expected a name without commas"):
        write_run(small(), tmp_path / "a,b", data=tiny_data)
    assert not list(tmp_path.iterdir())


def test_write_run_a_run_on_the_whole_set_has_the_committed_solver(tmp_path):
    """Where no LMDB is there yet, the published numbers count, as for the committed files."""
    run = write_run(make_experiment("office31", "mda"), tmp_path / "run", data=tmp_path / "data", solver_mode="GPU")
    committed = text_format.Parse((ROOT / "solvers/office31.prototxt").read_text(), caffe_pb2.SolverParameter())
    solver = run.read_solver()
    for field in ("train_net", "test_net", "snapshot_prefix", "weights"):
        solver.ClearField(field)
        committed.ClearField(field)
    assert solver == committed
