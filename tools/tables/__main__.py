"""Print and write a table of the paper from the records of its runs: ours beside the paper's numbers.

    python -m tools.tables digits                             tables/digits.md and .csv from runs/digits/*/record.json
    python -m tools.tables digits --records results/digits    the same from records that were kept
    python -m tools.tables digits --save results/digits       and keep records, table, CSV and pictures there

NAME is a file of experiments/, or the path of another one. A cell without data says why. Nothing is trained here:
snakemake tables/NAME does that.
"""

import argparse
import shutil
from pathlib import Path

from tools.arguments import natural, positive
from tools.files import json_text, write_aside, write_text
from tools.program import ROOT, ProgramError, run
from tools.tables.csv_file import csv_text
from tools.tables.definition import EXPERIMENTS, Table, load
from tools.tables.markdown import table_text
from tools.tables.records import Records
from tools.tables.results import results


def definition_file(name: str) -> Path:
    """The file that defines a table: a name of experiments/ or a path."""
    return Path(name) if name.endswith(".yaml") else EXPERIMENTS / f"{name}.yaml"


def seed_list(text: str) -> tuple[int, ...]:
    """The value of ``--seeds``: 0,1,2."""
    return tuple(natural(part) for part in text.split(","))


def add_choice_options(parser: argparse.ArgumentParser) -> None:
    """The options that choose a part of a table's runs, or shorter ones."""
    parser.add_argument("--seeds", type=seed_list, metavar="N,N,…", help="these seeds (default: the table's)")
    parser.add_argument("--iterations", type=positive, metavar="N", help="runs of N iterations (default: the recipe's)")
    parser.add_argument("--data", type=Path, default=ROOT / "data", help="folder of the LMDBs (default: data)")


def save(table: Table, records: Records, report: Path, folder: Path) -> str:
    """Copy to ``folder`` the records of a table's runs, a file NAME.json each, and the pictures of its report.

    Returns what was copied, in words. Raises ProgramError, before anything is written, if a record is damaged.
    """
    found = {one.name: record for one in table.runs if (record := records.read(one)) is not None}
    for name, record in found.items():
        write_text(folder / f"{name}.json", json_text(record))
    pictures = sorted((report / "figures").glob("*.png"))
    for picture in pictures:
        with write_aside(folder / "figures" / picture.name) as aside:
            shutil.copyfile(picture, aside)
    return f"records of {len(found)} of {len(table.runs)} runs, pictures: {len(pictures)}"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.tables", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", metavar="NAME", help="a table of experiments/, or the path of another such file")
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="folder of DATASET/RUN folders (default: runs)"
    )
    where.add_argument("--records", type=Path, metavar="DIR", help="take records that --save kept there instead")
    parser.add_argument(
        "--out", type=Path, default=ROOT / "tables", metavar="DIR", help="for NAME.md and NAME.csv (default: tables)"
    )
    parser.add_argument("--save", type=Path, metavar="DIR", help="keep records, table and pictures there")
    add_choice_options(parser)
    options = parser.parse_args()
    table = load(definition_file(options.name), seeds=options.seeds, iterations=options.iterations)
    if options.records is not None and not options.records.is_dir():
        raise ProgramError(f"--records {options.records}: no such folder")
    records = Records(options.records or options.runs, options.data, kept=options.records is not None)
    rows = results(table, records)
    markdown, values = table_text(table, rows), csv_text(table, rows)
    if options.save:
        kept = save(table, records, options.out / table.name, options.save)
    for folder, name in ((options.out, table.name), *([(options.save, "table")] if options.save else [])):
        write_text(folder / f"{name}.md", markdown)
        write_text(folder / f"{name}.csv", values)
    print(markdown)
    if options.save:
        print(f"{options.save}: {kept}")
    return 0


if __name__ == "__main__":
    run(main)
