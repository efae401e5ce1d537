"""A small table and records for it, for tests."""

import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latent_domains.common.versions import known_commits
from latent_domains.tables.definition import EXPERIMENTS, BaselineRun, Run, Table, load
from latent_domains.tables.options import Config
from latent_domains.tables.pages import KeptTable
from latent_domains.tables.plan import Plan
from latent_domains.tables.records import Records

TEXT = """
title: "Small"
source: Table 9
dataset: digits
seeds: [0, 1, 2]
columns:
  - {name: U, sources: [mnist, mnistm], targets: [usps]}
  - {name: Mm, sources: [mnist, usps], targets: [mnistm]}
rows:
  - name: ours
    paper: {values: [80.0, 90.0], mean: 84.0}
    runs: {method: mda}
    note: a note
  - name: best
    paper: {missing: the paper has none}
    runs: {method: dial, best_single_source: true}
  - name: shallow
    paper: {values: [50, 60], mean: 55}
    baseline: {method: gong2013}
  - name: theirs
    paper: {values: [1.2, 2.2], mean: 1.9}
    cited: Somebody 2001
"""


def small_table(folder: Path, text: str = TEXT) -> Table:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(text)
    return load(folder / "small.yaml")


def plan(folder: Path, *tables: str, **config: Any) -> Plan:
    """What the workflow would do with these of our tables, and with data and runs below ``folder``."""
    experiments = folder / "experiments"
    experiments.mkdir(exist_ok=True)
    for table in tables:
        shutil.copy(EXPERIMENTS / f"{table}.yaml", experiments)
    return Plan(Config(data=folder / "data", runs=folder / "runs", experiments=experiments, **config))


def record_of(run: Run, accuracy: float, **changes: Any) -> dict[str, Any]:
    """What tables read of a record: of a commit of this history, where there is one."""
    if isinstance(run, BaselineRun):
        said = {"baseline": {**asdict(run), "sources": list(run.sources), "targets": list(run.targets)}}
    else:
        said = {"experiment": run.to_json()}
    tested = sum(map(run.data.test_count, run.targets))
    commit = min(known_commits() or [None])
    return {**said, "accuracy": accuracy, "targets": {}, "test_images": tested, "commit": commit, **changes}


def write_record(runs: Path, run: Run, accuracy: float, **changes: Any) -> Path:
    """Write a record where the run's folder is."""
    file = runs / run.dataset / run.name / "record.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record_of(run, accuracy, **changes)))
    return file


TARGETS = """
title: "Two targets"
source: Table 9
dataset: pacs_lite0
seeds: [0, 1]
reference: DIAL
columns:
  - {name: Photo, sources: [art_painting, sketch], targets: [photo]}
  - {name: Sketch, sources: [art_painting, photo], targets: [sketch]}
rows:
  - {name: DIAL, paper: {values: [80, 90], mean: 85}, runs: {method: dial}}
  - {name: mDA, paper: {values: [81, 92], mean: 86.5}, runs: {method: mda}}
  - {name: "mDA, centred logits", paper: {missing: ours}, runs: {method: mda, branch_norm: logits}}
  - {name: source only, paper: {missing: ours}, runs: {method: source_only}}
"""


def kept_targets(folder: Path) -> KeptTable:
    """Return a table of two targets and its records: mDA less DIAL is 4 and 1 by seed."""
    table = small_table(folder, TARGETS)
    accuracies = {
        "DIAL": ((0.80, 0.82), (0.60, 0.64)),
        "mDA": ((0.83, 0.83), (0.65, 0.65)),
        "mDA, centred logits": ((0.81, 0.83), (0.65, 0.69)),
    }
    for row in table.rows:
        for cell, of_cell in zip(row.cells, accuracies.get(row.name, ()), strict=False):
            for run, accuracy in zip(cell.candidates[0].runs, of_cell, strict=True):
                purity = (0.7, 0.8)[run.seed]
                usage = {
                    "sources": list(run.sources),
                    "images": 100,
                    "counts": [[50, 0], [20, 30]],
                    "share": [0.7, 0.3],
                }
                found = {"domain_usage": {**usage, "purity": purity, "nmi": 0.25}} if row.name == "mDA" else {}
                counts = [[8, 2, 0, 0, 0, 0, 0], [5, 5, 0, 0, 0, 0, 0], *[[0] * 7] * 5]
                targets = {run.targets[0]: {"accuracy": accuracy, "confusion": counts}}
                found |= {"targets": targets, "classes": ["dog", "elephant", *"abcde"]}
                write_record(folder / "runs", run, accuracy, **found)
    Records(folder / "runs", folder / "data").keep(table, folder / "kept")
    return KeptTable(table, folder / "kept")
