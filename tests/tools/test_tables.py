"""The workflow's step before training: a run folder of a table, unless it stands."""

from latent_domains.runs.run_folder import RunFolder
from tests.latent_domains.tables.tables import TEXT, small_table
from tests.programs import names, program


def write(tmp_path, data, *arguments: object):
    here = ("--runs", tmp_path / "runs", "--data", data, "--solver-mode", "CPU")
    return program("tables", tmp_path / "small.yaml", "--write", *arguments, *here)


def test_tables_a_run_folder_is_written_once(tmp_path, tiny_data):
    table = small_table(tmp_path)
    folder = tmp_path / "runs" / "digits" / "mda_k2_seed1"
    folder.mkdir(parents=True)  # as Snakemake leaves it before a job
    done = write(tmp_path, tiny_data, "mda_k2_seed1")
    assert (done.returncode, done.stdout) == (0, f"{folder}\n"), done.stderr
    assert RunFolder.load(folder).experiment in table.runs and RunFolder.load(folder).experiment.seed == 1
    (folder / "train.log").write_text("kept")
    assert write(tmp_path, tiny_data, "mda_k2_seed1").returncode == 0
    assert (folder / "train.log").read_text() == "kept"
    assert names(folder.parent) == ["mda_k2_seed1"]


def test_tables_runs_read_the_lmdbs_of_their_seed(tmp_path, tiny_data):
    small_table(tmp_path, TEXT.replace("seeds:", "data_per_seed: true\nseeds:"))
    for seed in (0, 1):
        (tmp_path / "data" / f"seed{seed}").mkdir(parents=True)
        (tmp_path / "data" / f"seed{seed}" / "digits").symlink_to(tiny_data / "digits")
        assert write(tmp_path, tmp_path / "data", f"mda_k2_seed{seed}").returncode == 0
        run = RunFolder.load(tmp_path / "runs" / "digits" / f"mda_k2_seed{seed}")
        assert run.data_folder == tmp_path / "data" / f"seed{seed}"
        sources = [layer.data_param.source for layer in run.read_net("train").layer if layer.type == "Data"]
        assert len(sources) == 3 and all(f"/seed{seed}/digits/" in source for source in sources)


def test_tables_a_folder_of_another_experiment_is_not_touched(tmp_path, tiny_data):
    small_table(tmp_path)
    folder = tmp_path / "runs" / "digits" / "mda_k2_seed0"
    assert write(tmp_path, tiny_data, "mda_k2_seed0").returncode == 0
    before = (folder / "experiment.json").read_text()
    (folder / "experiment.json").write_text(before.replace('"seed": 0', '"seed": 5'))
    done = write(tmp_path, tiny_data, "mda_k2_seed0")
    assert done.returncode == 1 and f"error: {folder} holds another experiment: seed is 5 there, 0 here" in done.stderr


def test_tables_seeds_and_iterations_choose_the_run(tmp_path, tiny_data):
    small_table(tmp_path)
    done = write(tmp_path, tiny_data, "mda_k2_iterations7_seed9", "--seeds", "9", "--iterations", "7")
    assert done.returncode == 0, done.stderr
    found = RunFolder.load(tmp_path / "runs" / "digits" / "mda_k2_iterations7_seed9").experiment
    assert (found.seed, found.recipe.iterations) == (9, 7)
