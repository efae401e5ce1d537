"""Write the run folder of one run of a table, unless it exists: the workflow's step before training.

    python -m tools.tables.write digits mda_k3_seed1    # runs/digits/mda_k3_seed1

A folder of the same name that holds another experiment is an error.
"""

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.program import ROOT, ProgramError, run
from latent_domains.experiment.experiment import Experiment
from latent_domains.runs.devices import add_mode_option
from latent_domains.runs.write import write_missing
from latent_domains.tables.definition import data_folder, load, run_path
from latent_domains.tables.options import add_choice_options, definition_file


def main() -> None:
    parser = program_parser("tools.tables.write", __doc__)
    parser.add_argument("table", metavar="TABLE", help="a table of experiments/, or the path of another such file")
    parser.add_argument("name", metavar="RUN", help="name of one of its runs")
    parser.add_argument(
        "--runs", type=Path, default=ROOT / "runs", metavar="DIR", help="folder of DATASET/RUN folders (default: runs)"
    )
    add_choice_options(parser)
    add_mode_option(parser)
    options = parser.parse_args()
    table = load(definition_file(options.table), seeds=options.seeds, iterations=options.iterations)
    trained = {one.name: one for one in table.runs if isinstance(one, Experiment)}
    if options.name not in trained:
        raise ProgramError(f"{options.table}: it has no run {options.name!r}, expected one of {', '.join(trained)}")
    experiment = trained[options.name]
    folder = options.runs / run_path(experiment)
    data = data_folder(options.data, experiment.seed, per_seed=table.data_per_seed)
    print(write_missing(experiment, folder, data=data, solver_mode=options.solver_mode).path)


if __name__ == "__main__":
    run(main)
