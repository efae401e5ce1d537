"""Which direction does h_D amplify in a branch, and what does that direction split?

For run folders of mDA, before training and at the last snapshot if there is one: the first eigenvector of the second
moment of what enters the domain classifier, its first principal component, the cosine of both with the gradient of h_D,
where h_D alone leads a classifier of the same features, and how well a linear probe tells the true domains. Prints two
tables, means over the seeds with the least and the most, and writes the numbers of every run to --out as JSON.
"""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from latent_domains.ablations.directions import directions, tables
from latent_domains.common.arguments import positive, program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import run
from latent_domains.runs.run_folder import RunFolder


def main() -> None:
    parser = program_parser("tools.domain_directions", __doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="run folders of mda, trained or not")
    parser.add_argument("--images", type=positive, default=1000, help="of each source (default: %(default)s)")
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    options = parser.parse_args()
    results: list[dict[str, Any]] = []
    for folder in tqdm([RunFolder.load(path) for path in options.runs], unit="run"):
        results += directions(folder, options.images)
    print(tables(results))
    if options.out:
        write_text(options.out, json_text(results))


if __name__ == "__main__":
    run(main)
