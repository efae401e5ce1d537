"""Features in two dimensions, before and after alignment: are domains apart, are classes?"""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from latent_domains.common.program import ProgramError
from latent_domains.report.chart import GROUP_COLOURS, MARKS, Chart, in_legend
from latent_domains.report.page import Block, Charts, Heading, Section, missing
from latent_domains.report.runs import LoadedRun
from latent_domains.runs.outputs import AlignedFeatures, aligned_features

NAMED = 10
"""Up to this many domains or classes are named, each with its own colour and mark."""

IMAGES = 384
"""Images in a picture, of all domains together."""

NEIGHBOURS = 5
"""This many nearest neighbours of each image are compared with it by domain and class."""


def principal(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the 50 first principal components of ``features`` (n×p), or fewer."""
    from sklearn.decomposition import PCA  # a second to import

    components = min(50, *features.shape)
    solver = "randomized" if components < min(features.shape) else "full"
    return PCA(components, svd_solver=solver, random_state=0).fit_transform(features)


def embed(components: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return points (n×2) of principal components, by t-SNE that begins with the first two."""
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(components) - 1) / 3)
    begin = "pca" if components[:, 0].std() > 0 else "random"
    # So few points take longer on several threads, and many times as long beside other processes.
    with threadpool_limits(1):
        return TSNE(perplexity=perplexity, init=begin, max_iter=500, random_state=0).fit_transform(components)


def neighbours_alike(components: NDArray[np.float32], groups: NDArray[np.int64]) -> float:
    """Return the share of nearest neighbours in the image's own group (domain or class)."""
    from sklearn.neighbors import NearestNeighbors

    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(components).kneighbors(return_distance=False)
    return float((groups[near] == groups[:, np.newaxis]).mean())


def alike_by_chance(groups: NDArray[np.int64]) -> float:
    """Return the share of neighbours in the image's own group if groups were mixed at random."""
    _, counts = np.unique(groups, return_counts=True)
    n = len(groups)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


def _embedding_charts(
    features: AlignedFeatures, classes: Sequence[str], early: str, last: str
) -> dict[str, list[Chart]]:
    """Draw the inputs of the first normalisation (``early``) and of the classifier (``last``), by domain and class.

    Domains and classes share marks and colours, so each has its own charts and its own legend.
    """
    charts: dict[str, list[Chart]] = {}
    for stage, blob, values in (
        (early, features.before_blob, features.before),
        (last, features.after_blob, features.after),
    ):
        if values is None:
            continue
        components = principal(values)
        points = embed(components)
        known = features.labels >= 0
        groupings = [("domain", features.domains, features.names, np.full(len(points), True))]
        if known.sum() > NEIGHBOURS:
            groupings.append(("class", features.labels, classes, known))
        for kind, groups, names, among in groupings:
            alike = neighbours_alike(components[among], groups[among])
            title = (
                f"{stage} ({blob}), by {kind}. Of {NEIGHBOURS} nearest neighbours {100 * alike:.0f} % are of the own "
                f"{kind}, {100 * alike_by_chance(groups[among]):.0f} % by chance"
            )
            charts.setdefault(kind, []).append(_scatter(points[among], groups[among], names, title))
    return charts


def _scatter(points: NDArray[np.float32], groups: NDArray[np.int64], names: Sequence[str], title: str) -> Chart:
    """Return a mark for each image, with a shape and colour for each domain or class. Many groups are not named."""

    def draw(axes: Axes) -> None:
        for group in np.unique(groups):
            axes.plot(
                *points[groups == group].T,
                linestyle="none",
                marker=MARKS[group % len(MARKS)],
                markersize=4,
                color=GROUP_COLOURS[group % len(GROUP_COLOURS)],
                markeredgewidth=0,
                alpha=0.9,
                label=in_legend(names[group]) if len(names) <= NAMED else None,
            )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.03)
        for spine in axes.spines.values():
            spine.set_visible(True)

    return Chart(title, f"{len(points)} images in two dimensions", draw, width=300, height=310)


def _not_named(groups: str, names: Sequence[str]) -> str:
    return f"{groups} are too many to be named: colours and marks repeat." if len(names) > NAMED else ""


def alignment_section(pictured: Sequence[LoadedRun]) -> Section:
    """Return features of the runs to picture in two dimensions, before and after the alignment."""
    blocks: list[Block] = []
    for run in pictured:
        blocks.append(Heading(f"{run.experiment.title}: {run.name}"))
        try:
            features, labels = aligned_features(*run.trained(), IMAGES), run.classes
        except ProgramError as error:
            blocks.append(missing("No features", error))
            continue
        sees_target = run.experiment.method.sees_target
        early, last = ("Before alignment", "After alignment") if sees_target else ("Early features", "Last features")
        never = "" if sees_target else "This net has never seen the target. "
        captions = {"domain": never + _not_named("Domains", features.names), "class": _not_named("Classes", labels)}
        for kind, charts in _embedding_charts(features, labels, early, last).items():
            blocks.append(Charts(f"features-by-{kind}-{run.name}", charts, captions[kind].strip()))
    return Section("alignment", "Features before and after alignment", blocks)
