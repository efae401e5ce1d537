"""Does mDA on the digits use other domains if its branch is changed in a way that no setting says?

Each variant changes the nets of the experiment that the options describe: the domain classifier drawn and learning as
in the authors' larger nets, or the branch behind a plain BN. Prints for each the share of the commonest latent domain,
purity and NMI with the true domains, NMI with the classes and the accuracy on the target; writes the records to --out.
"""

from pathlib import Path

from latent_domains.ablations.domains import VARIANTS, ablate, table_of
from latent_domains.common.arguments import add_data_option, program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import run
from latent_domains.experiment.options import add_experiment_options, experiment_from_options
from latent_domains.runs.record import Record


def main() -> None:
    parser = program_parser("tools.ablate_domains", __doc__)
    add_experiment_options(parser)
    add_data_option(parser)
    parser.add_argument("--out", type=Path, help="write the records there as JSON, by variant")
    options = parser.parse_args()
    experiment = experiment_from_options(options)
    records: dict[str, Record] = {}
    for variant in VARIANTS:
        records[variant] = ablate(variant, experiment, options.data)
        if options.out:
            write_text(options.out, json_text({name: record.to_json() for name, record in records.items()}))
    print(table_of(records))


if __name__ == "__main__":
    run(main)
