"""Write a report of one run, of several, or of a table of the paper, as one HTML file that loads nothing.

    python -m tools.report runs/digits/mda_k2_seed0                          runs/digits/mda_k2_seed0/report.html
    python -m tools.report runs/digits --out report.html                     all runs in it side by side
    python -m tools.report runs/digits/mda* --out report.html                these
    python -m tools.report --table digits                                    Table 1, from its runs in runs/
    python -m tools.report --table digits results/digits/records.jsonl       the same from records that were kept

A RUN is a run folder, finished or not, a folder of run folders, or only a record. If a run lacks log, snapshots or
LMDBs, the report says so instead of showing the figures.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.report")

import sys
from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import ROOT
from latent_domains.common.wording import harmless
from latent_domains.report.build import build
from latent_domains.report.runs import is_folder_of_runs
from latent_domains.tables.definition import load
from latent_domains.tables.options import add_choice_options, definition_file
from latent_domains.tables.records import Records


def main() -> None:
    parser = program_parser("tools.report", __doc__)
    parser.add_argument(
        "runs",
        type=Path,
        nargs="*",
        metavar="RUN",
        help="run folders, folders of them, or records (default: the table's in --runs-folder)",
    )
    parser.add_argument("--table", metavar="NAME", help="a table of experiments/, or the path of another such file")
    parser.add_argument(
        "--out",
        type=Path,
        metavar="FILE",
        help="file to write (default: report.html in the run's folder, or in tables/NAME for a table)",
    )
    parser.add_argument(
        "--show",
        action="append",
        metavar="RUN",
        help="name of a run to show in pictures (domains, features, classes); may be repeated (default: a run of "
        "mDA and one without adaptation)",
    )
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also save every chart in this folder, as SVG and PNG"
    )
    parser.add_argument(
        "--runs-folder",
        type=Path,
        default=ROOT / "runs",
        metavar="DIR",
        help="folder of a table's runs, DATASET/NAME (default: runs)",
    )
    add_choice_options(parser)
    options = parser.parse_args()
    table = None
    if options.table:
        table = load(definition_file(options.table), seeds=options.seeds, iterations=options.iterations)
    elif options.seeds or options.iterations:
        parser.error("--seeds and --iterations choose runs of a table: pass --table")
    paths = options.runs
    if not paths:
        if table is None:
            parser.error("expected a RUN, or --table")
        records = Records(options.runs_folder, options.data, data_per_seed=table.data_per_seed)
        paths, left_out = records.folders(table)
        for line in left_out:
            print(f"left out: {line}", file=sys.stderr)
    out = options.out
    if out is None and table:
        out = ROOT / "tables" / table.name / "report.html"
    elif out is None:
        if len(paths) > 1 or paths[0].is_file() or is_folder_of_runs(paths[0]):
            parser.error("expected --out FILE for several runs, or for a record alone")
        out = paths[0] / "report.html"
    page = build(paths, out, table=table, pictured=options.show, figures=options.figures)
    for note in page.notes:
        print(harmless(f"note: {note}"), file=sys.stderr)
    print(f"report: {out}")
