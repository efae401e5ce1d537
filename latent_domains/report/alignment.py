"""Features in two dimensions, before and after alignment: whether domains lie apart, and whether classes do."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.path import Path as Outline
from matplotlib.textpath import TextPath
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from latent_domains.common.program import ProgramError
from latent_domains.report.chart import Chart
from latent_domains.report.legend import Key
from latent_domains.report.page import Block, Charts, Heading, Section, Text, missing
from latent_domains.report.palette import MARKS, PARTS
from latent_domains.report.runs import LoadedRun
from latent_domains.report.text import printable
from latent_domains.runs.features import AlignedFeatures, aligned_features

FIGURES = 10
"""Classes up to which each has its own figure as a mark; with more, colours and marks repeat."""

NEIGHBOURS = 5
"""Nearest neighbours of each image that are asked for their domain and their class."""


def embed(features: NDArray[np.float32]) -> NDArray[np.float32]:
    """Points (n×2): the 50 first principal components of ``features`` (n×p), then t-SNE begun from the first two."""
    from sklearn.manifold import TSNE  # a second to import

    reduced = _principal(features)
    perplexity = min(30.0, (len(reduced) - 1) / 3)
    # So few points are slower on several threads, and many times so beside other processes.
    begin = "pca" if reduced[:, 0].std() > 0 else "random"
    with threadpool_limits(1):
        return TSNE(perplexity=perplexity, init=begin, max_iter=500, random_state=0).fit_transform(reduced)


def _principal(features: NDArray[np.float32]) -> NDArray[np.float32]:
    from sklearn.decomposition import PCA

    components = min(50, *features.shape)
    return PCA(
        components, svd_solver="randomized" if components < min(features.shape) else "full", random_state=0
    ).fit_transform(features)


def neighbours_alike(features: NDArray[np.float32], groups: NDArray[np.int64]) -> float:
    """Share of the images' nearest neighbours that are of their own group (domain or class)."""
    from sklearn.neighbors import NearestNeighbors

    reduced = _principal(features)
    near = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(reduced).kneighbors(return_distance=False)
    return float((groups[near] == groups[:, np.newaxis]).mean())


def by_chance(groups: NDArray[np.int64]) -> float:
    """Share of neighbours of the own group that images would have which were mixed perfectly."""
    _, counts = np.unique(groups, return_counts=True)
    n = len(groups)
    return float((counts * (counts - 1)).sum() / (n * (n - 1)))


def _domain_keys(names: Sequence[str]) -> list[Key]:
    """Legend of the charts by domain."""
    return [Key(name, PARTS[i % len(PARTS)], MARKS[i % len(MARKS)]) for i, name in enumerate(names)]


def _class_keys(names: Sequence[str]) -> list[Key]:
    """Legend of the charts by class, where each has a figure of its own that is not its name already."""
    if len(names) > FIGURES or list(names) == [str(label) for label in range(len(names))]:
        return []
    return [Key(name, PARTS[label % len(PARTS)], str(label)) for label, name in enumerate(names)]


def _embedding_charts(
    features: AlignedFeatures, classes: Sequence[str], prefix: str, early: str, last: str
) -> list[Chart]:
    """What the first normalisation gets (titled ``early``) and what the classifier gets, by domain and by class."""
    charts = []
    for stage, blob, values in (
        (early, features.before_blob, features.before),
        (last, features.after_blob, features.after),
    ):
        if values is None:
            continue
        points = embed(values)
        known = features.labels >= 0
        groupings = [("domains", features.domains, features.names, np.full(len(points), True))]
        if known.sum() > NEIGHBOURS:
            groupings.append(("classes", features.labels, classes, known))
        for kind, groups, names, among in groupings:
            one = kind.removesuffix("s").removesuffix("e")
            alike = neighbours_alike(values[among], groups[among])
            told = (
                f"{100 * alike:.0f} % of the {NEIGHBOURS} nearest neighbours are of the own {one} "
                f"({100 * by_chance(groups[among]):.0f} % if they were mixed)"
            )
            name, title = f"{prefix}-{blob}-{kind}", f"{stage} ({blob}), by {one}"
            charts.append(_scatter(points[among], groups[among], names, name, title, told))
    return charts


def _scatter(
    points: NDArray[np.float32], groups: NDArray[np.int64], names: Sequence[str], name: str, title: str, told: str
) -> Chart:
    """A dot for each image: a mark and a colour for each domain; a figure for each class where ten are enough."""
    present = np.unique(groups)
    by_class = name.endswith("classes")

    def draw(axes: Axes) -> None:
        for group in present:
            chosen = points[groups == group]
            figure = by_class and len(names) <= FIGURES
            axes.plot(
                *chosen.T,
                linestyle="none",
                marker=_figure(group) if figure else MARKS[group % len(MARKS)],
                markersize=5.5 if figure else 3.8,
                color=PARTS[group % len(PARTS)],
                markeredgewidth=0,
                alpha=0.9,
                label=printable(names[group]) if not by_class or _class_keys(names) else None,
            )
        axes.set_xticks([])
        axes.set_yticks([])
        axes.margins(0.03)
        for spine in axes.spines.values():
            spine.set_visible(True)

    alt = f"{len(points)} images in two dimensions. {told}."
    return Chart(name, title, alt, draw, width=300, height=280, caption=f"{told}.")


def _figure(number: int) -> Outline:
    """A number as a mark, in the middle of its place."""
    path = TextPath((0, 0), str(number), size=1)
    return Outline(path.vertices - path.get_extents().get_points().mean(axis=0), path.codes)


def alignment_section(shown: Sequence[LoadedRun], quick: bool, images: int, step: Callable[[], None]) -> Section:
    """Features of the shown runs in two dimensions, before and after the alignment."""
    blocks: list[Block] = []
    if quick:
        return Section("alignment", "Features before and after alignment", [Text("Left out (--quick).", note=True)])
    for run in shown:
        blocks.append(Heading(f"{run.experiment.title}: {run.name}"))
        try:
            features, labels = aligned_features(*run.trained(), images), run.classes
        except ProgramError as error:
            blocks.append(missing("No features", error))
            continue
        sees_target = run.experiment.sees_target
        early, last = ("Before alignment", "After alignment") if sees_target else ("Early features", "Last features")
        charts = _embedding_charts(features, labels, f"embedding-{run.name}", early, last)
        if sees_target:
            how = (
                "Before alignment is what the first mDA layer gets; after alignment is what the classifier gets, each "
                "batch aligned with its own statistics, as in training."
            )
        elif features.before is None:
            how = (
                "This net has never seen the target and normalises nothing. Last features are those of the classifier."
            )
        else:
            how = (
                "This net has never seen the target: its last features are normalised with the sources' statistics. "
                "Early features are what the first normalisation gets, last features what the classifier gets."
            )
        many = " More than ten classes: colours and marks repeat." if len(labels) > FIGURES else ""
        blocks.append(Charts(charts, how + many, [*_domain_keys(features.names), *_class_keys(labels)]))
        step()
    if any(isinstance(block, Charts) for block in blocks):
        blocks.insert(
            0,
            Text(
                "Training images, placed so that neighbours in the net's features lie close together (PCA, then "
                "t-SNE); axes and distances between groups mean nothing. Aligned domains lie upon one another, and "
                "useful features keep the classes apart. Target labels serve the pictures alone."
            ),
        )
    return Section("alignment", "Features before and after alignment", blocks)
