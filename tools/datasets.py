"""What each dataset fixes: its domains, image geometry, network and the paper's training recipe (section 4.1)."""

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Recipe:
    """Training protocol: solver schedule, batch size per domain, loss weights of Eq. 7."""

    iterations: int
    batch_size: int
    base_lr: float
    weight_decay: float
    moving_average_fraction: float
    lambda_c: float
    lambda_d: float
    lambda_t: float
    test_interval: int
    snapshot_interval: int


@dataclass(frozen=True)
class Dataset:
    """A set of domains that share classes and geometry.

    ``shape`` is channels, height, width of the network's input; pixels enter as (value - ``mean``) * ``scale``.
    ``test_split`` says whether each domain has a test LMDB of its own (``<domain>_test``); where it is false the
    target is tested on the images it was trained on, without their labels (the transductive protocol).
    ``test_counts`` is the published number of images each domain is tested on.
    """

    name: str
    domains: tuple[str, ...]
    sources: tuple[str, ...]
    target: str
    classes: int
    network: str
    shape: tuple[int, int, int]
    mean: float
    scale: float
    test_split: bool
    test_counts: dict[str, int]
    recipe: Recipe

    def others(self, domain: str) -> tuple[str, ...]:
        """All domains but one: the sources when that one is the target."""
        return tuple(other for other in self.domains if other != domain)

    def train_lmdb(self, domain: str) -> str:
        """LMDB of a domain's training images, relative to the data folder."""
        return f"{self.name}/{domain}_train" if self.test_split else f"{self.name}/{domain}"

    def test_lmdb(self, domain: str) -> str:
        """LMDB of the images a domain is tested on, relative to the data folder."""
        return f"{self.name}/{domain}_test" if self.test_split else f"{self.name}/{domain}"


def test_batches(count: int) -> tuple[int, int]:
    """Batch size and number of batches that cover ``count`` test images exactly once.

    The batch size is the largest divisor of the number of images that is at most 600.
    """
    batch_size = max(size for size in range(1, min(count, 600) + 1) if count % size == 0)
    return batch_size, count // batch_size


# Ganin & Lempitsky give no number of iterations; 2,000 is where the curves of every method have been flat for long.
_DIGITS = Recipe(
    iterations=2000,
    batch_size=128,
    base_lr=0.01,
    weight_decay=5e-4,
    moving_average_fraction=0.95,
    lambda_c=0.1,
    lambda_d=0.1,
    lambda_t=0.5,
    test_interval=100,
    snapshot_interval=500,
)

_DEMO = replace(_DIGITS, iterations=500, batch_size=64, test_interval=25, snapshot_interval=250)

DATASETS = {
    data.name: data
    for data in (
        Dataset(
            name="digits",
            domains=("mnist", "mnistm", "usps"),
            sources=("mnist", "mnistm"),
            target="usps",
            classes=10,
            network="mnist",
            shape=(3, 28, 28),
            mean=127.5,
            scale=1 / 128,
            test_split=True,
            test_counts={"mnist": 10000, "mnistm": 10000, "usps": 2007},
            recipe=_DIGITS,
        ),
        Dataset(
            name="demo",
            domains=("plain", "photo", "handwritten"),
            sources=("plain", "photo"),
            target="handwritten",
            classes=10,
            network="mnist",
            shape=(3, 28, 28),
            mean=127.5,
            scale=1 / 128,
            test_split=False,
            test_counts={"plain": 6000, "photo": 6000, "handwritten": 1797},
            recipe=_DEMO,
        ),
    )
}
