"""Print and write a table of the paper from the records of its runs: our numbers and the paper's.

    python -m tools.tables digits                             tables/digits.md and .csv from runs/digits/*/record.json
    python -m tools.tables digits --records results/digits    print it from kept records, and write nothing
    python -m tools.tables digits --save results/digits       also keep records, table.csv and pictures there
    python -m tools.tables digits --write mda_k3_seed1        only write the folder of a run, runs/digits/mda_k3_seed1

NAME is a file of experiments/, or the path of another one. An empty cell names its reason; footnotes name
commits that are not in this history, and --save keeps no new records of them. This program trains nothing;
snakemake tables/NAME does.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.tables")

import argparse
import shutil
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import write_aside, write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.common.versions import known_commits
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.devices import add_mode_option
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_missing
from latent_domains.tables.csv_file import csv_text
from latent_domains.tables.definition import Table, data_folder, load, run_path
from latent_domains.tables.markdown import table_text
from latent_domains.tables.options import add_choice_options, definition_file
from latent_domains.tables.records import Records
from latent_domains.tables.results import results


def main() -> None:
    parser = program_parser("tools.tables", __doc__)
    parser.add_argument("name", metavar="NAME", help="a table of experiments/, or the path of another such file")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="folder of DATASET/RUN folders (default: runs)"
    )
    where.add_argument("--records", type=Path, metavar="DIR", help="read records that --save wrote there instead")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="DIR",
        help="folder for NAME.md and NAME.csv (default: tables; with --records nothing is written)",
    )
    parser.add_argument(
        "--save", type=Path, metavar="DIR", help="also save records, table.csv and the pictures of OUT/NAME there"
    )
    parser.add_argument(
        "--write", metavar="RUN", help="write only the folder of this run into --runs, unless it exists"
    )
    add_choice_options(parser)
    add_mode_option(parser)
    options = parser.parse_args()
    table = load(definition_file(options.name), seeds=options.seeds, iterations=options.iterations)
    if options.write:
        print(_write(table, options).path)
        return
    if options.records is not None and not options.records.is_dir():
        raise ProgramError(f"--records {options.records}: no such folder")
    out = options.out or (None if options.records else ROOT / "tables")
    records = Records(
        options.records or options.runs,
        options.data,
        in_one_file=options.records is not None,
        data_per_seed=table.data_per_seed,
        commits=known_commits(),
    )
    rows = results(table, records)
    markdown, values = table_text(table, rows), csv_text(table, rows)
    if options.save:
        count = records.keep(table, options.save)
        pictures = [] if options.records else sorted((out / table.name / "figures").glob("*.png"))
        for picture in pictures:
            with write_aside(options.save / "figures" / picture.name) as aside:
                shutil.copyfile(picture, aside)
        kept = Records(options.save, options.data, in_one_file=True)
        write_text(options.save / "table.csv", csv_text(table, results(table, kept)))  # of all that are kept there
    if out:
        write_text(out / f"{table.name}.md", markdown)
        write_text(out / f"{table.name}.csv", values)
    print(markdown)
    if options.records:
        print(f"from the records in {options.records}")
    if options.save:
        print(f"{options.save}: records of {count} of {len(table.runs)} runs, pictures: {len(pictures)}")


def _write(table: Table, options: argparse.Namespace) -> RunFolder:
    """Write a run's folder, the workflow's step before training. Refuses a folder with another experiment."""
    trained = {one.name: one for one in table.runs if isinstance(one, Experiment)}
    if options.write not in trained:
        raise ProgramError(f"{options.name}: it has no run {options.write!r}, expected one of {', '.join(trained)}")
    experiment = trained[options.write]
    data = data_folder(options.data, experiment.seed, per_seed=table.data_per_seed)
    return write_missing(experiment, options.runs / run_path(experiment), data=data, solver_mode=options.solver_mode)
