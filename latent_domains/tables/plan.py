"""What the workflow needs to know: which runs can be made here, after what, by which commands.

Caffe is imported only to choose a GPU.
"""

import shlex
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from latent_domains.common.files import Digest
from latent_domains.common.program import ProgramError
from latent_domains.experiment.networks import NETWORKS
from latent_domains.tables.definition import BaselineRun, Run, Table, load, run_path
from latent_domains.tables.needs import Need, Needs
from latent_domains.tables.options import Config

BASELINE_MEMORY = 6000


@dataclass(frozen=True)
class Plan:
    """The tables and all that the Snakefile needs to know about them.

    The name of a job is its rule and what it makes: ``train/DATASET/NAME``, ``fetch/pacs``.
    """

    config: Config

    @cached_property
    def tables(self) -> dict[str, Table]:
        """All tables by name. Refuses two datasets of one name, since their runs would have the same folders."""
        files = sorted(self.config.experiments.glob("*.yaml"))
        if not files:
            raise ProgramError(f"{self.config.experiments}: found no NAME.yaml, expected the definitions of tables")
        chosen = {"seeds": self.config.seeds, "iterations": self.config.iterations}
        tables = {file.stem: load(file, **chosen) for file in files}
        named: dict[str, Table] = {}
        for table in tables.values():
            other = named.setdefault(table.data.name, table)
            if other.data != table.data:
                raise ProgramError(
                    f"{table.files[0]}: dataset: {table.dataset} describes another {table.data.name} than "
                    f"{other.dataset}, which {other.files[0]} names: give one of them another name"
                )
        return tables

    def table(self, name: str) -> Table:
        """Return the table of this name."""
        if name not in self.tables:
            raise ProgramError(f"tables/{name}: no such table, expected one of {', '.join(self.tables)}")
        return self.tables[name]

    @cached_property
    def runs(self) -> dict[str, Run]:
        """Every run of every table by DATASET/NAME; tables share runs."""
        return {run_path(run): run for table in self.tables.values() for run in table.runs}

    @cached_property
    def needs(self) -> Needs:
        """What the runs need."""
        per_seed = {run_path(run) for table in self.tables.values() if table.data_per_seed for run in table.runs}
        return Needs(self.config, self.runs, per_seed)

    def _of(self, table: Table) -> dict[str, Need]:
        """Return the record of each run of a table, existing or not."""
        return {run_path(run): self.needs.record(run) for run in table.runs}

    def records(self, table: Table) -> list[Path]:
        """List the existing records of a table."""
        return [record.paths[0] for record in self._of(table).values() if record.is_there()]

    def to_make(self, table: Table) -> list[str]:
        """List the jobs of runs that are not finished and can be made."""
        return [one.job for one in self._of(table).values() if not (one.is_there() or one.obstacle)]

    def contents(self, table: Table) -> str:
        """Return a hash of what a table is made of: its files, and which runs have a record or get one now.

        Times do not show that a file or a record came from elsewhere, since copies may keep older ones.
        """
        runs = [path for path, record in self._of(table).items() if not record.obstacle]
        return str(Digest([*((file.name, file.read_bytes()) for file in table.files), *((run, "") for run in runs)]))

    def obstacles(self, table: Table) -> list[str]:
        """List the reasons why runs cannot be made here, each once."""
        return list(dict.fromkeys(record.obstacle for record in self._of(table).values() if record.obstacle))

    def before_run(self, run: Run) -> list[str]:
        """List the jobs that make the missing needs of a run."""
        return [need.job for need in self.needs.of(run) if not need.is_there()]

    @cached_property
    def _missing(self) -> dict[str, Need]:
        """All missing needs of all runs, by job."""
        records = map(self.needs.record, self.runs.values())
        return {need.job: need for record in records for need in record.missing()}

    def before_need(self, job: str) -> list[str]:
        """List the jobs before one that makes data."""
        needs = self._missing[job].needs if job in self._missing else ()
        return [need.job for need in needs if not need.is_there()]

    def command(self, job: str, threads: int) -> list[str]:
        """Return the command line of a job that makes data.

        It does nothing if another call of the workflow has made them meanwhile.
        """
        return self._missing[job].command(threads) if job in self._missing else ["true"]

    def run_script(self, run: Run, threads: int) -> str:
        """Return a shell line that makes a run's record; it writes the folder from a table that has the run."""
        command = shlex.join(self.needs.record(run).command(threads))
        if isinstance(run, BaselineRun):
            return f"exec {command}"
        table = next(table for table in self.tables.values() if run in table.runs)
        options = ["--runs", str(self.config.runs), *self.config.choices, *self.config.mode]
        write = shlex.join(["python", "-m", "tools.tables", str(table.files[0]), "--write", run.name, *options])
        return f"{write} && exec python -m tools.on_free_gpu {command}"

    def gpus_of(self, run: Run) -> int | None:
        """Return the number of GPUs of a run; None for none, since some clusters read 0 as a request."""
        if isinstance(run, BaselineRun):
            return None
        from latent_domains.runs.devices import choose_mode  # it imports Caffe

        return 1 if choose_mode(self.config.solver_mode, run.recipe.solver_mode) == "GPU" else None

    def memory(self, run: Run) -> int:
        """Return the memory of a run in MB."""
        return BASELINE_MEMORY if isinstance(run, BaselineRun) else NETWORKS[run.data.network].megabytes
