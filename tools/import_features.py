"""Convert published features to LMDBs: each domain is a .mat or .npz file of features and labels.

    python -m tools.import_features --domain amazon=amazon.mat --domain webcam=webcam.mat --normalise l1+z \\
        --out data/surf
    python -m tools.write_run --dataset data/surf/dataset.json --method mda runs/surf

OUT gets an LMDB for each domain and dataset.json. Pass this file to any program as --dataset, and OUT's parent folder
as --data. The last domain is the target; --targets chooses another one. The rows of an array are samples. The array of
features is named fts, feas, fea, features, feature, x or data, the array of labels labels, label, y or gnd, in upper or
lower case; --features and --labels set other names. Labels are whole numbers from 0 on, the same for all domains, in
the order of the classes. The program refuses Python objects in a file.

Existing LMDBs are not built again; LMDBs of other files or with other options are an error.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.import_features")

import argparse
import shlex
import sys
from pathlib import Path

from latent_domains.common.arguments import path, program_parser
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import count_of
from latent_domains.data.feature_files import NORMALISATIONS, number_classes, read_features
from latent_domains.data.image_list import read_classes
from latent_domains.data.names import safe_name
from latent_domains.experiment.imported import PROGRAM, build


def _options() -> argparse.Namespace:
    parser = program_parser(PROGRAM, __doc__)
    parser.add_argument(
        "--domain",
        type=_domain,
        action="append",
        required=True,
        metavar="NAME=FILE",
        dest="domains",
        help="name and file of a domain; give two or more",
    )
    parser.add_argument(
        "--out", type=Path, required=True, metavar="DIR", help="the dataset's folder, whose name is also the dataset's"
    )
    parser.add_argument("--features", metavar="NAME", help="array of the features")
    parser.add_argument("--labels", metavar="NAME", help="array of the labels")
    parser.add_argument("--classes", type=Path, metavar="FILE", help="names of the classes, one a line (default: none)")
    parser.add_argument(
        "--normalise",
        choices=NORMALISATIONS,
        default="none",
        help="l1, l2: divide each row by its norm; z: standardise each feature over all domains, after that "
        "(default: none)",
    )
    parser.add_argument("--force", action="store_true", help="replace LMDBs of other files or with other options")
    options = parser.parse_args()
    for number, what in enumerate(("name", "file")):
        given = [domain[number] for domain in options.domains]
        if twice := [one for one in given if given.count(one) > 1]:
            parser.error(f"argument --domain: {twice[0]} is given twice, expected each {what} once")
    if len(options.domains) < 2:
        parser.error(f"argument --domain: found {count_of(len(options.domains), 'domain')}, expected at least two")
    return options


def _domain(text: str) -> tuple[str, Path]:
    name, found, file = text.partition("=")
    if not found or not name or safe_name(name) != name:
        raise argparse.ArgumentTypeError(
            f"got {text!r}, expected NAME=FILE, with letters, digits, dots, dashes and underscores in NAME"
        )
    return name, path(file).resolve()


def main() -> None:
    options = _options()
    out = options.out
    if not out.name or safe_name(out.name) != out.name:
        raise ProgramError(f"--out {options.out}: expected a name of letters, digits, dots, dashes and underscores")
    names = tuple(read_classes(options.classes)) if options.classes else ()
    files = {name: read_features(file, options.features, options.labels) for name, file in options.domains}
    domains, classes, notes = number_classes(files, names)
    for name, rows in domains.items():
        print(f"{name}: {' × '.join(map(str, rows.features.shape))} features, {classes} classes")
    for note in notes:
        print(f"note: {note}")
    made_by = shlex.join(["python", "-m", PROGRAM, *sys.argv[1:]])
    description = build(out, domains, classes, names, options.normalise, made_by, force=options.force)
    print(f"{description}: for --dataset of tools.write_run and tools.baselines, with --data {out.parent}")
