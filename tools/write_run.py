"""Turn the description of an experiment into a run folder with its own nets and solver.

Example: python -m tools.write_run --dataset digits --method mda --k 3 --seed 7 runs/digits/mda_k3_seed7
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.write_run")

import shlex
from pathlib import Path

from latent_domains.common.arguments import add_data_option, program_parser
from latent_domains.common.program import ROOT
from latent_domains.experiment.options import add_experiment_options, experiment_from_options
from latent_domains.runs.devices import add_mode_option
from latent_domains.runs.write import write_run


def main() -> None:
    parser = program_parser("tools.write_run", __doc__)
    add_experiment_options(parser)
    parser.add_argument("folder", type=Path, nargs="?", help="run folder (default: runs/DATASET/NAME)")
    add_data_option(parser)
    add_mode_option(parser)
    parser.add_argument("--force", action="store_true", help="replace an existing run folder, snapshots included")
    options = parser.parse_args()
    experiment = experiment_from_options(options)
    folder = options.folder or ROOT / "runs" / experiment.dataset / experiment.name
    write_run(experiment, folder, data=options.data, solver_mode=options.solver_mode, force=options.force)
    print(f"wrote {folder}; train it with: python -m tools.train {shlex.quote(str(folder))}")
