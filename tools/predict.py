"""Classify an image, or those of a folder, with a trained model: a CSV file of path, class and probability.

    python -m tools.predict runs/mine/model photos --out photos.csv
    python -m tools.predict runs/digits/mda_k2_seed0 seven.png

MODEL is a run folder, a folder of python -m tools.adapt, or the prefix of an exported model's files (python -m
tools.export): MODEL.prototxt, MODEL.caffemodel and MODEL.json, which describes how an image becomes the input. Export a
run on features first. On a CPU, ONNX Runtime runs MODEL.onnx if it exists; give MODEL.caffemodel to use Caffe. The
program skips unreadable images and prints their names.

--domains adds the number of the source domain that is most like the image, and its probability. They come from the
run's branch, or from model.domains.npz, which tools.adapt writes beside the model for clusters of style and domains of
a file.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.predict")

import sys
from pathlib import Path

from latent_domains.common.arguments import add_image_options, add_reading_options, program_parser
from latent_domains.common.files import check_free
from latent_domains.common.wording import count_of
from latent_domains.convert.torch.backbone import style_backbone
from latent_domains.data.image_list import folder_entries
from latent_domains.data.inspection import chosen_reading
from latent_domains.models.classifier import predict, write_predictions
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.devices import add_mode_option, choose_mode
from latent_domains.runs.predict import open_classifier, predict_domains


def main() -> None:
    parser = program_parser("tools.predict", __doc__)
    parser.add_argument("model", type=Path, metavar="MODEL", help="run folder, or prefix of a model's file names")
    parser.add_argument("images", type=Path, metavar="IMAGES", help="folder of images, at any depth, or one image")
    parser.add_argument(
        "--out",
        type=Path,
        default=Path("predictions.csv"),
        metavar="FILE",
        help="CSV file to write (default: %(default)s)",
    )
    parser.add_argument(
        "--domains", action="store_true", help="also write the source domain that is most like each image"
    )
    parser.add_argument("--force", action="store_true", help="replace FILE if it exists")
    add_image_options(parser)
    add_reading_options(parser, "as in training")
    add_mode_option(parser)
    options = parser.parse_args()
    entries, found = folder_entries(options.images)
    read = [entry.file for entry in entries] if options.out.exists() else []
    check_free(options.out, force=options.force, inputs=read)
    print(f"{options.images}: {found.counted()}", *found.left_out(), sep="\n", file=sys.stderr)
    classifier = open_classifier(options.model, choose_mode(options.solver_mode, "GPU"))
    reading = chosen_reading(options, entries, classifier.description.preprocessing.reading)
    found = None
    if options.domains:
        how = {"reading": reading, "jobs": options.jobs}
        found = predict_domains(options.model, entries, style_backbone, LITE0.backbone.middle, **how)
    predictions = predict(classifier, entries, reading=reading, jobs=options.jobs)
    images = write_predictions(options.out, predictions, classifier.description.classes, domains=found)
    left_out = f", {len(entries) - images} left out" if images < len(entries) else ""
    print(f"{options.out}: {count_of(images, 'image')}{left_out}")
