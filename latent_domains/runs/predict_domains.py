"""The domains of new pictures, as a trained model tells them apart."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path

import caffe
import numpy as np
from numpy.typing import NDArray

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.program import ProgramError
from latent_domains.data.image_datum import Format, make_readable
from latent_domains.data.image_list import Entry
from latent_domains.data.preprocessing import Reading
from latent_domains.domains.statistics import LinearDomains, statistics_of
from latent_domains.experiment.datasets import PICTURE_SHAPE
from latent_domains.experiment.networks import BACKBONES
from latent_domains.models.classifier import BATCH
from latent_domains.models.model import feed
from latent_domains.runs.predict import prefix_of
from latent_domains.runs.run_folder import RunFolder, is_run_folder

Backbone = Callable[[Sequence[str] | None], OnnxBackbone]
"""Makes EfficientNet-Lite0 with statistics of these blocks, or (None) of those that its datasets of features have."""


def predict_domains(
    model: Path, entries: Sequence[Entry], backbone: Backbone, middle: Sequence[str], *, reading: Reading, jobs: int
) -> Mapping[Entry, NDArray[np.floating]]:
    """The probabilities of the source domains (k) for each picture that can be read, as ``model`` tells them apart.

    By the linear model beside it, of statistics of the ``middle`` blocks; or by the branch of its run: ``model`` is the
    run folder, or one of tools.adapt. Raises ProgramError if there is neither.
    """
    prefix = model.parent / "model" if is_run_folder(model) else prefix_of(model)
    file, run = prefix.with_name(f"{prefix.name}.domains.npz"), model if is_run_folder(model) else prefix.parent / "run"
    if file.is_file():
        made = backbone(middle)
        linear = LinearDomains.read(file, made)
        rows = statistics_of(entries, made, reading=reading, jobs=jobs, skip_unreadable=True)
        return {entry: linear.probabilities(row[np.newaxis])[0] for entry, row in rows}
    folder = RunFolder.load(run) if is_run_folder(run) else None
    if folder is None or not folder.experiment.method.has_branch:
        raise ProgramError(
            f"{model}: it tells no domains apart, expected a run with a branch (mda), or a model that tools.adapt "
            "trained on clusters of style or on domains of a file"
        )
    return dict(_by_branch(folder, entries, backbone, reading, jobs))


def _by_branch(
    folder: RunFolder, entries: Sequence[Entry], backbone: Backbone, reading: Reading, jobs: int
) -> Iterator[tuple[Entry, NDArray[np.float32]]]:
    data = folder.experiment.data
    of_features = data.features is not None
    if of_features and data.features.backbone not in BACKBONES:
        raise ProgramError(
            f"{folder.path}: domains by features of {data.features.backbone}, expected those of pictures"
        )
    made = backbone(None) if of_features else None
    channels, *size = PICTURE_SHAPE if of_features else data.preprocessing.stored_shape
    form = Format(tuple(size), gray=channels == 1, reading=reading)
    net = folder.load_net("domains", caffe.TEST, folder.final_snapshot().model)
    readable = make_readable(entries, form, jobs, skip=True)
    while batch := list(islice(readable, BATCH)):
        pictures = [one.planes for _, one in batch]
        if made is None:
            inputs = data.preprocessing.inputs(pictures)
        else:
            inputs = np.stack([made.features(picture) for picture in pictures])[:, :, np.newaxis, np.newaxis]
        feed(net, inputs)
        for (entry, _), row in zip(batch, net.forward()["domain_prob"].copy(), strict=True):
            yield entry, row
