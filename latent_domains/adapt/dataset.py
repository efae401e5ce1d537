"""The description of a task's dataset and the recipe that suits it."""

from collections.abc import Mapping
from dataclasses import replace

from latent_domains.adapt.trees import Images
from latent_domains.experiment.datasets import DATASETS, Dataset, of_network
from latent_domains.experiment.experiment import SOURCE_ONLY
from latent_domains.experiment.networks import NETWORKS

CHOICES = tuple(name for name, network in NETWORKS.items() if network.recipe)
"""The networks that there is a recipe for."""

FEWEST_ROWS = 8
"""Images of each domain in a batch, also of one that has fewer (they come again): batch statistics need some."""


def describe(
    name: str,
    images: Images,
    network: str,
    method: str,
    *,
    iterations: int | None,
    counts: Mapping[str, int],
    made_by: str,
) -> Dataset:
    """The dataset of ``images``, of which ``counts`` are stored for each domain, for a network of CHOICES.

    A batch holds as many images of each domain as the recipe says, fewer where the domains are small. Tests and
    snapshots come four times in a training at least.
    """
    data, recipe = of_network(network), DATASETS[NETWORKS[network].recipe].recipe
    sources, target = tuple(source.name for source in images.sources), images.target.name
    seen = sources if method in SOURCE_ONLY else (*sources, target)
    rows = recipe.batch_size if recipe.batch_split == "per_domain" else recipe.batch_size // len(seen)
    rows = max(FEWEST_ROWS, min(rows, *(counts[domain] for domain in seen)))
    iterations = iterations or recipe.iterations
    return replace(
        data,
        name=name,
        domains=(*sources, target),
        sources=sources,
        targets=(target,),
        unlabelled=() if images.labelled else (target,),
        classes=len(images.classes),
        counts=dict(counts),
        test_split=False,
        test_counts=None,
        usage_images=max(counts.values()),
        made_by=made_by,
        recipe=replace(
            recipe,
            iterations=iterations,
            batch_size=rows if recipe.batch_split == "per_domain" else rows * len(seen),
            test_interval=min(recipe.test_interval, max(1, iterations // 4)),
            snapshot_interval=min(recipe.snapshot_interval, max(1, iterations // 4)),
            solver_mode="GPU",
        ),
    )
