"""What do a part's own statistics in every BN of EfficientNet-Lite0 bring, without any training?

For trained run folders of mDA on its features, whose branches say what the latent domains are, one for each target and
seed. The sources' pictures are taken as one part, by their true domains, by the latent ones, and in random parts; every
BN is recomputed for each part, and for the target. A linear classifier of the sources' features is tested on the
target's. Prints a table, over the seeds, and writes the accuracies of every run to --out as JSON.
"""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from latent_domains.ablations.bn import Pictures, check_apart, measure, table_of
from latent_domains.common.arguments import positive, program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ProgramError, run
from latent_domains.runs.run_folder import RunFolder


def main() -> None:
    parser = program_parser("tools.ablate_bn", __doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="trained run folders of mda on pacs_lite0")
    for option, default in (("source", 100), ("target", 400)):
        told = f"pictures of each {option} (default: %(default)s)"
        parser.add_argument(f"--of-{option}", type=positive, default=default, metavar="N", help=told)
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    options = parser.parse_args()
    folders = [RunFolder.load(path) for path in options.runs]
    pictures = Pictures(folders[0].experiment.data, folders[0].data_folder)
    if other := [folder for folder in folders if folder.experiment.dataset != folders[0].experiment.dataset]:
        raise ProgramError(f"{other[0].path}: a run on {other[0].experiment.dataset}, expected one dataset for all")
    check_apart(folders)
    results: list[dict[str, Any]] = []
    for folder in tqdm(folders, unit="run"):
        results.append(measure(folder, pictures, options.of_source, options.of_target))
        if options.out:
            write_text(options.out, json_text(results))
    print(table_of(results))


if __name__ == "__main__":
    run(main)
