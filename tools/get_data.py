"""Build the LMDBs of an experiment.

    python -m tools.get_data digits          MNIST, MNIST-M, USPS: downloaded, or from a mirror folder
    python -m tools.get_data digits_hard     the same, MNIST with inverted contrast, USPS resized in two other ways
    python -m tools.get_data demo            rendered and handwritten digits from the installed packages, no download
    python -m tools.get_data office31        Office-31, from your unpacked archive: --images DIR
    python -m tools.get_data office_caltech  Office-Caltech-10, likewise
    python -m tools.get_data pacs            PACS, likewise
    python -m tools.get_data office_home     Office-Home, likewise
    python -m tools.get_data office_caltech_surf  its SURF histograms: downloaded, or from a mirror folder

Pictures are stored for nets with 224×224 inputs; --image-size 160 builds pacs_160 for 160×160.

LMDBs for another seed: digits --seed 3 --out data/seed3 --downloads data/downloads.

Existing LMDBs are not built again. An LMDB of another seed or of other images is an error (--force replaces it). Images
are compared by names, labels and contents. The program reads them all only if the times of files have changed.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.get_data")

import argparse
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

from latent_domains.common.arguments import add_image_options, natural, program_parser
from latent_domains.common.artefact import make_missing
from latent_domains.common.program import ROOT
from latent_domains.data.lmdb_plans import PlannedLmdb
from latent_domains.data.preprocessing import SEEN, STORED
from latent_domains.data.sets import demo, digits, image_sets, office_caltech_surf
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.data.sets.urls import OFFICE_CALTECH_SURF


def _options() -> argparse.Namespace:
    parser = program_parser("tools.get_data", __doc__)
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--out", type=Path, default=ROOT / "data", metavar="DIR", help="data folder (default: data)")
    common.add_argument("--seed", type=natural, default=0, help="seed of all random numbers (default: 0)")
    common.add_argument("--force", action="store_true", help="replace LMDBs of other seeds, options or images")
    names = (*digits.DOMAINS, "demo", *IMAGE_SETS, office_caltech_surf.NAME)
    which = parser.add_subparsers(required=True, metavar=f"{{{','.join(names)}}}")

    def add(name: str, lmdbs: str, plans: Callable[..., list[PlannedLmdb]]) -> argparse.ArgumentParser:
        """Add a command; ``plans`` gets its other options."""
        one = which.add_parser(name, parents=[common], help=lmdbs, description=f"Build OUT/{name}: {lmdbs}.")
        one.set_defaults(plans=plans)
        return one

    for name, domains in digits.DOMAINS.items():
        lmdbs = f"two LMDBs for each of {', '.join(domains)}"
        _add_downloads(
            add(name, lmdbs, partial(digits.plans, dataset=name)), "mnist/*.gz, usps/zip.*.gz and bsds500/*.jpg"
        )
    add("demo", "six LMDBs of the demo's three domains", demo.plans)
    for name, image_set in IMAGE_SETS.items():
        lmdbs = f"an LMDB of {STORED}x{STORED} images for each of {', '.join(image_set.domains)}"
        _add_images(add(name, lmdbs, partial(image_sets.plans, image_set)), name)
    lmdbs = f"an LMDB of Office-Caltech-10's SURF histograms for each of {', '.join(OFFICE_CALTECH_SURF)}"
    surf = add(office_caltech_surf.NAME, lmdbs, office_caltech_surf.plans)
    _add_downloads(surf, f"{office_caltech_surf.NAME}/*.mat")
    return parser.parse_args()


def _add_downloads(parser: argparse.ArgumentParser, files: str) -> None:
    parser.add_argument(
        "--mirror",
        type=Path,
        default=os.environ.get("DATA_MIRROR") or None,
        metavar="DIR",
        help=f"read {files} here instead of downloading (default: environment variable DATA_MIRROR)",
    )
    parser.add_argument("--downloads", type=Path, metavar="DIR", help="keep downloads here (default: OUT/downloads)")


def _add_images(parser: argparse.ArgumentParser, name: str) -> None:
    parser.add_argument(
        "--images",
        type=Path,
        required=True,
        metavar="DIR",
        help="folder of the domains: DOMAIN/CLASS/*.jpg or DOMAIN/images/CLASS/*.jpg",
    )
    parser.add_argument(
        "--image-size",
        type=natural,
        default=SEEN,
        metavar="SIDE",
        help=f"build OUT/{name}_SIDE, for write_run --image-size SIDE, with images of side SIDE × {STORED} / {SEEN}",
    )
    add_image_options(parser)
    parser.add_argument(
        "--allow-incomplete",
        action="store_true",
        help="build LMDBs even if the numbers of images differ from the published ones",
    )


def main() -> None:
    options = vars(_options())
    plans, force = options.pop("plans"), options.pop("force")
    make_missing(plans(**options), force=force)
