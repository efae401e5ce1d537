"""The records that fill a table: where they are, their contents, and why some are missing."""

from collections.abc import Collection
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from latent_domains.common.files import sha256, stamp
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import doubts
from latent_domains.common.wording import one_line
from latent_domains.data.lmdb_folder import noted_contents
from latent_domains.experiment.experiment import Experiment, differences, from_json
from latent_domains.experiment.networks import NETWORKS, whose
from latent_domains.runs.record import FILE, Matching, Record, note_on_domain_labels, read, read_records, write_records
from latent_domains.runs.run_folder import RunFolder, is_run_folder
from latent_domains.runs.run_state import State, state_of
from latent_domains.runs.write import check_holds
from latent_domains.tables.definition import BaselineRun, Run, Table, data_folder, run_path
from latent_domains.tables.needs import is_pretrained, why_missing


@dataclass(frozen=True)
class Records:
    """Records of runs: in run folders DATASET/NAME of ``folder`` or, if ``in_one_file``, in its records.jsonl.

    ``data`` is the folder of the LMDBs (with ``data_per_seed`` each seed has a folder in it). ``commits`` are those
    that records should have; None: any.
    """

    folder: Path
    data: Path
    in_one_file: bool = False
    data_per_seed: bool = False
    commits: Collection[str] | None = None

    @cached_property
    def _records(self) -> dict[str, Record]:
        return read_records(self.folder / FILE)

    def read(self, run: Run) -> Record | None:
        """Read the record of ``run``; None if there is none. Refuses a record of another run or of other LMDBs."""
        if self.in_one_file:
            if (record := self._records.get(run.name)) is not None:
                _check(f"{self.folder / FILE}: {run.name}", record, run)
            return record
        folder = self.folder / run_path(run)
        file = folder / "record.json"
        if not file.is_file():
            return None
        record = read(Record, file)
        _check(str(file), record, run)
        if isinstance(run, Experiment) and is_run_folder(folder):
            self._check_holds(RunFolder.load(folder), run)
        return record

    def find(self, run: Run) -> tuple[Record | None, str]:
        """Return the record of a run, or why there is none or it cannot be used."""
        try:
            record = self.read(run)
        except ProgramError as error:
            return None, one_line(f"its record cannot be used: {error}")
        return record, "" if record else self._why_none(run)

    def folders(self, table: Table) -> tuple[list[Path], list[str]]:
        """Return the existing folders of the table's runs, and a line for each that has another experiment.

        Refuses a table without any run.
        """
        found, left_out = [], []
        for run in table.runs:
            folder = self.folder / run_path(run)
            if isinstance(run, Experiment) and is_run_folder(folder):
                loaded = RunFolder.load(folder)
                try:
                    self._check_holds(loaded, run)
                except ProgramError as error:
                    left_out.append(str(error))
                    continue
            elif not (folder / "record.json").is_file():
                continue
            found.append(folder)
        if not found:
            raise ProgramError(
                f"{self.folder / table.data.name}: none of the {len(table.runs)} runs of {table.name} is there, "
                f"expected some: train them (snakemake tables/{table.name}) or name records"
                + "".join(f"; {line}" for line in left_out)
            )
        return found, left_out

    def keep(self, table: Table, folder: Path) -> int:
        """Copy the records of a table's runs to ``folder``, beside those of other runs; return their number.

        Refuses a new record whose commit is not in ``commits``. All are checked before anything is written.
        """
        found = {run.name: record for run in table.runs if (record := self.read(run)) is not None}
        file = folder / FILE
        kept = read_records(file) if file.exists() else {}
        for name, record in found.items():
            if kept.get(name) != record and (said := self._doubts(record)):
                expected = "expected one of a commit of this history: commit what was changed, and make the run again"
                raise ProgramError(f"{folder}: {name}: found a record {said[0]}, {expected}")
        write_records(file, {**kept, **found})
        return len(found)

    def remarks(self, run: Run, record: Record) -> list[str]:
        """List how a record's run differs from the paper's experiment, and from the present data folder."""
        remarks = remarks_on(record, run) + self._doubts(record)
        if self.in_one_file:
            return remarks
        training, data = record.training, data_folder(self.data, run.seed, per_seed=self.data_per_seed)
        known = record.lmdbs or (training and training.lmdbs) or {}
        changed = [name for name, before in known.items() if noted_contents(data / name) not in (None, before)]
        if changed:
            remarks.append(f"of other images than are now in {', '.join(changed)}")
        if training and (begun := training.weights) and begun.sha256:
            file = self.data / "weights" / begun.file
            if file.is_file() and _hash(file, stamp([file])) != begun.sha256:
                remarks.append(f"began from other weights than are now in {file.relative_to(self.data)}")
        return remarks

    def _doubts(self, record: Record) -> list[str]:
        """Describe the commits of a record that are not in ``commits``."""
        sessions = record.training.sessions if record.training else []
        return doubts([record.commit, *(session.commit for session in sessions)], self.commits)

    def _check_holds(self, folder: RunFolder, run: Experiment) -> None:
        """Raise ProgramError if the folder has another experiment, or names another data folder."""
        check_holds(folder, run, data_folder(self.data, run.seed, per_seed=self.data_per_seed))

    def _why_none(self, run: Run) -> str:
        if self.in_one_file:
            return "not among the records"
        folder, begun = self.folder / run_path(run), ""
        if isinstance(run, BaselineRun):
            begun = _last_error(folder / "log")
        elif folder.is_dir():
            begun = self._how_far(folder, run)
        return begun or why_missing(run, self.data, per_seed=self.data_per_seed) or "not run yet"

    def _how_far(self, folder: Path, run: Experiment) -> str:
        """Say how far the run in a folder is."""
        try:
            found = RunFolder.load(folder)
            self._check_holds(found, run)
            state = state_of(found)
            return "written, but not trained yet" if state.state == State.WRITTEN else one_line(state)
        except (ProgramError, OSError) as error:
            return one_line(error)


@cache
def _hash(file: Path, _stamp: str) -> str:
    """Return the hash of weights that many runs begin from."""
    return sha256(file)


def part_of_variant(run: Run, record: Record) -> Record | Matching | None:
    """Return the part of a record with the accuracy of the run's variant; None if it is missing."""
    return record.matching if isinstance(run, BaselineRun) and run.variant == "matching" else record


def _check(where: str, record: Record, run: Run) -> None:
    """Raise ProgramError unless the record is complete and of ``run``."""
    meant = part_of_variant(run, record)
    if meant is None or meant.accuracy is None:
        key = "accuracy" if record.accuracy is None else "matching"
        raise ProgramError(f"{where}: {key}: found None, expected a number from 0 to 1")
    kind = "experiment" if isinstance(run, Experiment) else "baseline"
    if getattr(record, kind) is None:
        raise ProgramError(f"{where}: it belongs to another run: found no {kind}")
    try:
        different = _differences(record, run)
    except ProgramError as error:
        raise ProgramError(f"{where}: {error}") from error
    if different:
        name, found, expected = different[0]
        found = f"no {name}" if found is None else f"{name} {found!r}"
        raise ProgramError(f"{where}: it belongs to another run: found {found}, expected {expected!r}")


def _differences(record: Record, run: Run) -> list[tuple[str, Any, Any]]:
    if isinstance(run, Experiment):
        return differences(from_json(record.experiment), run)
    wanted = {key: value for key, value in asdict(run).items() if value is not None or key in ("limit", "dimension")}
    del wanted["variant"]
    wanted |= {"dataset": run.data.name, "sources": list(run.sources), "targets": list(run.targets)}
    said = record.baseline
    return [(key, said.get(key), value) for key, value in wanted.items() if key not in said or said[key] != value]


def remarks_on(record: Record, run: Run) -> list[str]:
    """List how a record's run differs from the paper's experiment, and what its purity counts."""
    remarks = []
    begun = record.training and record.training.weights
    if is_pretrained(run) and not begun:
        remarks.append("began from random weights, not ImageNet's")
    elif begun and (found := whose(begun.file)) and found != NETWORKS[found.network].weights[0]:
        remarks.append(f"began from {found.title}")
    published = sum(map(run.data.test_count, run.targets))
    if incomplete := record.incomplete_data:  # of the training images too; baselines count those of the test
        remarks.append(f"not the published data: {incomplete}")
    elif record.test_images not in (None, published):
        remarks.append(f"tested on {record.test_images} images, the published set has {published}")
    usage = record.domain_usage
    if usage and isinstance(run, Experiment) and (told := note_on_domain_labels(run.method, usage)):
        remarks.append(f"purity and NMI: {told}")
    return remarks


def _last_error(log: Path) -> str:
    """Say how a program ended, from the last line of its log; empty without a log."""
    if not log.is_file():
        return ""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    if lines and lines[-1].startswith("error: "):
        return one_line(f"failed: {lines[-1].removeprefix('error: ')}")
    return f"begun, but not finished (log: {log})"
