"""How much of a source-only accuracy on USPS is the way its 16×16 images become 28×28?

The paper does not say how it resized them. Runs of the digits that never saw the target (source_only, plain) need no
training anew: their last iteration is tested on USPS's test images resized in several ways. Prints the accuracies, mean
and standard deviation over the seeds, and writes those of every run to --out as JSON.
"""

from pathlib import Path
from typing import Any

from tqdm import tqdm

from latent_domains.ablations.resizing import accuracies, table_of
from latent_domains.common.arguments import add_data_option, add_mirror_option, program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import run
from latent_domains.data.sets import pinned_file, usps
from latent_domains.data.sets.urls import USPS_TEST
from latent_domains.runs.run_folder import RunFolder


def main() -> None:
    parser = program_parser("tools.ablate_resizing", __doc__)
    parser.add_argument("runs", type=Path, nargs="+", metavar="RUN", help="trained run folders, source_only on digits")
    add_mirror_option(parser, "usps/zip.test.gz")
    add_data_option(parser, "data folder, with downloads/ in it")
    parser.add_argument("--out", type=Path, help="write the results there as JSON")
    options = parser.parse_args()
    folders = [RunFolder.load(path.resolve()) for path in options.runs]
    unpacked = pinned_file.unpacked(USPS_TEST, options.data / "downloads", options.mirror)
    images, labels = usps.parse(USPS_TEST.path, unpacked, usps.TEST_COUNTS)
    results: list[dict[str, Any]] = []
    by_name: dict[str, list[dict[str, float]]] = {}
    for folder in tqdm(folders, unit="run"):
        found = accuracies(folder, images, labels)
        results.append({"experiment": folder.experiment.to_json(), "accuracy": found})
        by_name.setdefault(folder.experiment.name_without_seed, []).append(found)
    print(table_of(by_name))
    if options.out:
        write_text(options.out, json_text(results))


if __name__ == "__main__":
    run(main)
