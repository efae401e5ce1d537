"""Pictures of a suite of runs: what the domains look like, how training went, what the branch discovered."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")  # no display needed

import numpy as np
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from numpy.typing import NDArray

from tools.caffe_log import curves
from tools.files import write_aside
from tools.run_folder import RunFolder

# Okabe & Ito's colours: told apart by people who see colours differently.
METHOD_COLOURS = {
    "plain": "#56B4E9",
    "source_only": "#777777",
    "dial": "#0072B2",
    "mda": "#D55E00",
    "multi_source": "#009E73",
}


def mosaic(images: NDArray[np.uint8], columns: int) -> NDArray[np.uint8]:
    """Tile images (n×C×H×W, BGR) into one RGB picture with thin gaps, row by row."""
    n, _, height, width = images.shape
    rows = -(-n // columns)
    picture = np.full((rows * (height + 2) - 2, columns * (width + 2) - 2, 3), 255, np.uint8)
    for i, image in enumerate(images):
        y, x = divmod(i, columns)
        picture[y * (height + 2) :, x * (width + 2) :][:height, :width] = image[::-1].transpose(1, 2, 0)
    return picture


def draw_samples(path: Path, domains: Mapping[str, NDArray[np.uint8]]) -> None:
    """One panel per domain (title → images n×C×H×W), 8 images a row."""
    with _figure(path, len(domains), width=4.2, height=4.5) as axes:
        for axis, (title, images) in zip(axes, domains.items(), strict=True):
            axis.imshow(mosaic(images, 8), interpolation="nearest")
            axis.set_title(title)
            axis.axis("off")


def draw_learning_curves(path: Path, runs: Sequence[RunFolder]) -> None:
    """Accuracy on the target and on the sources' batches, and h_C, against iterations."""
    panels = [
        ("accuracy on the target (%)", "test", "accuracy", 100),
        ("accuracy on the sources' batches (%)", "train", "source_accuracy", 100),
        ("entropy of target classes $h_C$ (nats)", "train", "entropy_class", 1),
    ]
    logs = [curves(run.log.read_text(errors="replace").splitlines()) for run in runs]
    with _figure(path, len(panels), width=4.4, height=3.8) as axes:
        for axis, (title, phase, name, factor) in zip(axes, panels, strict=True):
            drawn: Counter[str] = Counter()
            for run, curve in zip(runs, logs, strict=True):
                method = run.experiment.method
                if values := curve.get((phase, name)):
                    axis.plot(
                        list(values),
                        [factor * value for value in values.values()],
                        ("-", "--", ":")[drawn[method] % 3],
                        color=METHOD_COLOURS[method],
                        label=run.experiment.title,
                        linewidth=1.6,
                    )
                    drawn[method] += 1
            axis.set_title(title)
            axis.set_xlabel("iteration")
            axis.grid(alpha=0.25)
        lines, labels = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(lines, labels, loc="outside lower center", ncols=len(lines), frameon=False)


@dataclass(frozen=True)
class Discovery:
    """What a branch made of the source images: ``usage`` as in the record, ``images[d]`` (n×C×H×W) some of domain d."""

    title: str
    usage: dict[str, Any]
    images: Sequence[NDArray[np.uint8]]


def draw_latent_domains(path: Path, discoveries: Sequence[Discovery]) -> None:
    """A row per run: true source domains against latent domains, then images of each latent domain."""
    panels = 1 + max(len(discovery.images) for discovery in discoveries)
    with _figure(path, panels, rows=len(discoveries), width=3.9, height=3.5) as axes:
        for row, discovery in enumerate(discoveries):
            matrix, *mosaics = axes[row * panels : (row + 1) * panels]
            _draw_matrix(matrix, discovery)
            for d, axis in enumerate(mosaics):
                axis.axis("off")
                if d < len(discovery.images):
                    share = discovery.usage["share"][d]
                    axis.set_title(f"latent domain $s_{d + 1}$: {100 * share:.1f} % of the images")
                    if len(discovery.images[d]):
                        axis.imshow(mosaic(discovery.images[d], 8), interpolation="nearest")
                    else:
                        axis.text(0.5, 0.5, "no image", ha="center", va="center", color="#777777")


def _draw_matrix(axis: Axes, discovery: Discovery) -> None:
    """Shares of each true domain's images, a row per true domain and a column per latent one."""
    usage = discovery.usage
    counts = np.array(usage["counts"], float)
    shares = counts / counts.sum(axis=1, keepdims=True)
    axis.imshow(shares, vmin=0, vmax=1, cmap="Blues", aspect="auto")
    for (row, column), share in np.ndenumerate(shares):
        colour = "white" if share > 0.55 else "black"
        axis.text(column, row, f"{100 * share:.1f} %", ha="center", va="center", color=colour)
    axis.set_xticks(range(shares.shape[1]), [f"$s_{d + 1}$" for d in range(shares.shape[1])])
    axis.set_yticks(range(shares.shape[0]), usage["sources"])
    axis.set_title(f"{discovery.title}\npurity {usage['purity']:.2f}, NMI {usage['nmi']:.2f}")


@contextmanager
def _figure(path: Path, panels: int, *, rows: int = 1, width: float, height: float) -> Iterator[list[Axes]]:
    """Rows of panels, saved as PNG when the block ends without an error; sizes in inches a panel."""
    size = (width * panels, height * rows)
    figure, axes = plt.subplots(rows, panels, figsize=size, squeeze=False, layout="constrained")
    try:
        yield list(axes.flat)
        with write_aside(path) as aside:
            figure.savefig(aside, dpi=130, format="png")
    finally:
        plt.close(figure)
