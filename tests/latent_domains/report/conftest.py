"""A few real runs on the tiny digits, for all tests of the report."""

import shutil
from pathlib import Path

import pytest

from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.training.train import train_all


@pytest.fixture(scope="session")
def runs(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Source only, and two seeds of mDA with a fifth of the domain labels, of four iterations and two snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    data = tmp_path_factory.mktemp("report") / "data"
    shutil.copytree(tiny_data, data)
    (data / "digits" / "usps_test" / "classes.txt").write_text("".join(f"<{i}>\n" for i in range(10)))
    chosen = {"source_only": ("source_only", {}), "mda": ("mda", {}), "mda seed 1": ("mda", {"seed": 1})}
    found = {}
    for name, (method, options) in chosen.items():
        if method == "mda":
            options = {**options, "known_share": 0.2}
        experiment = make_experiment("digits", method, batch_size=8, iterations=4, **options)
        found[name] = write_run(experiment, folder / name, data=data)
        solver = found[name].solver
        text = solver.read_text().replace("test_interval: 100", "test_interval: 2").replace("display: 10", "display: 1")
        solver.write_text(text.replace("snapshot: 500", "snapshot: 2"))
    train_all(list(found.values()), jobs=2, threads=1)
    return found
