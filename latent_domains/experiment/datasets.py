"""The datasets: domains, image geometry, network and the paper's training recipe (section 4.1).

docs/differences.md lists where the paper, the work it refers to and the authors' published files differ.
"""

from dataclasses import asdict, dataclass, field, replace
from typing import Annotated, Any

from annotated_types import Interval

from latent_domains.common.arguments import path
from latent_domains.common.files import expect_file, read_json
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import Natural, Number, Positive, Rate, checked
from latent_domains.common.wording import by, harmless
from latent_domains.data.preprocessing import USUAL, Preprocessing, Reading, check_size, fits, size_folder, stored_side
from latent_domains.data.sets.published import OFFICE31, OFFICE_CALTECH, OFFICE_HOME, PACS
from latent_domains.experiment.networks import ANY_FEATURES, NETWORKS
from latent_domains.experiment.recipe import Recipe
from latent_domains.networks.network import Network

SMALLEST_TEST_BATCH = 16
"""Fewest images of a test batch, if there are as many: smaller batches leave most threads idle."""

PICTURE_SHAPE = (3, 256, 256)
"""The shape of stored pictures in our datasets, and of the pictures that backbones take."""

STYLE_IS_OF = f"they are made of pictures of {by(PICTURE_SHAPE)}"
"""Explains why there may be no statistics of style."""

STYLE = "style"
"""Name of the features by which latent domains of pictures are found before training."""

_MOST_CLASSES = 100_000
"""With more classes a classifier may have more weights than Caffe's 32 bits can count."""


@dataclass(frozen=True)
class Features:
    """Records that are features: ``backbone`` makes them from the images of the dataset ``images``.

    ``images`` is None if only the features are known. The last ``early`` numbers of a record are statistics of the
    backbone's early blocks.
    """

    images: str | None
    backbone: str
    early: Natural = 0


@dataclass(frozen=True)
class Dataset:
    """A set of domains that share classes and geometry.

    ``stored_shape`` is channels, height, width of the records; ``crop`` the side of the square that the network sees (a
    random one in training, the central one in tests; None: all of it), mirrored at random in training if ``mirror``.
    Pixels enter as (value - ``mean``) * ``scale``, with one mean for each channel (B, G, R).

    ``test_split`` says whether each domain has its own test LMDB (``<domain>_test``); if not, the target is tested on
    the images it was trained on, without their labels (the transductive protocol). ``counts`` and ``test_counts`` are
    the published numbers of training and test images of each domain. ``usage_images`` limits the images of each domain
    on which domain usage is measured; ``test_batch_limit`` limits the memory of a test pass.

    ``made_by`` is a command that builds the LMDBs. Comparisons ignore it: equivalent commands can be written
    differently. ``unlabelled`` are domains without labels: they can be targets, but no accuracy is measured on them.
    ``features`` describes records that are not images. ``folder`` is the folder of the LMDBs in a data folder if images
    are stored in another size (None: the name). ``reading`` decides how files became pixels.
    """

    name: str
    domains: tuple[str, ...]
    sources: tuple[str, ...]
    targets: tuple[str, ...]
    classes: Annotated[int, Interval(ge=2, le=_MOST_CLASSES)]
    network: str
    stored_shape: tuple[int, int, int]
    mean: tuple[Number, ...]
    counts: dict[str, Positive] = field(hash=False)
    recipe: Recipe
    made_by: str = field(compare=False)
    crop: Positive | None = None
    mirror: bool = False
    scale: Rate = 1.0
    test_split: bool = False
    test_counts: dict[str, Positive] | None = field(default=None, hash=False)
    usage_images: Positive = 1000
    test_batch_limit: Positive = 64
    unlabelled: tuple[str, ...] = ()
    features: Features | None = None
    folder: str | None = None
    reading: Reading = USUAL

    @property
    def lmdbs(self) -> str:
        """The folder of the LMDBs in a data folder."""
        return self.folder or self.name

    @property
    def images(self) -> str:
        """The dataset of the images: this one, or the one whose images the features were made from."""
        return (self.features and self.features.images) or self.name

    @property
    def style(self) -> str:
        """The folder, in a data folder, of the images' statistics of style: it has an LMDB for each LMDB of images."""
        return f"{self.images}_{STYLE}"

    @property
    def style_made_by(self) -> str:
        """The command that makes those statistics; empty if there are none, as for images that are not pictures."""
        images = DATASETS.get(self.images, self)
        # Features of a set that is not known here, and images of another size, may come from pictures.
        if images.name == self.images and not images.folder and images.stored_shape != PICTURE_SHAPE:
            return ""
        own = "DIR" if self.extracted else "FILE.json"
        return f"python -m tools.extract_features {self.images if self.images in DATASETS else own} --style"

    @property
    def extracted(self) -> bool:
        """Whether the records are features that are extracted from images."""
        return self.features is not None and self.features.images is not None

    @property
    def learner(self) -> str:
        """The network that is trained, or the backbone of its features, for messages."""
        return f"features of {self.features.backbone}" if self.features else self.network

    @property
    def early(self) -> int:
        """How many numbers at the end of a record are statistics of a backbone's early blocks."""
        return self.features.early if self.features else 0

    @property
    def preprocessing(self) -> Preprocessing:
        """How an image becomes the network's input in tests."""
        return Preprocessing(self.stored_shape, self.crop, self.mean, self.scale, self.reading)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width of the network's input."""
        return self.preprocessing.shape

    def train_lmdb(self, domain: str) -> str:
        """Return the LMDB of the training images of a domain, or of a mixture ``a+b``, relative to the data folder."""
        return f"{self.lmdbs}/{domain}_train" if self.test_split else f"{self.lmdbs}/{domain}"

    def test_lmdb(self, domain: str) -> str:
        """Return the LMDB of a domain's test images, relative to the data folder."""
        return f"{self.lmdbs}/{domain}_test" if self.test_split else f"{self.lmdbs}/{domain}"

    def test_count(self, domain: str) -> int:
        """Return the published number of a domain's test images."""
        return (self.test_counts or self.counts)[domain]

    def test_batches(self, count: int) -> tuple[int, int]:
        """Return batch size and number of batches of a test pass during training over ``count`` images.

        Caffe's passes have whole batches. The size is the one from SMALLEST_TEST_BATCH to ``test_batch_limit`` that
        omits the fewest images: none if a size divides ``count``; else the next pass begins with the images that this
        one omitted. The record's accuracy always uses all images.
        """
        largest = min(count, self.test_batch_limit)
        sizes = range(min(SMALLEST_TEST_BATCH, largest), largest + 1)
        batch_size = min(sizes, key=lambda size: (count % size, -size))
        return batch_size, count // batch_size

    def to_json(self) -> dict[str, Any]:
        """Return all that :func:`from_json` needs."""
        return asdict(self)


# Ganin & Lempitsky give no number of iterations; 2,000 is where the curves of every method have been flat for long.
# They are four epochs of MNIST and 35 of USPS, whose LMDBs are shuffled already.
_DIGITS = Recipe(
    iterations=2000,
    batch_size=128,
    batch_split="per_domain",
    base_lr=0.01,
    lr_policy="inv",
    weight_decay=5e-4,
    lambda_c=0.1,
    lambda_d=0.1,
    lambda_t=0.5,
    test_interval=100,
    snapshot_interval=500,
    data_order="stored",
    solver_mode="CPU",
)

_DEMO = replace(_DIGITS, iterations=300, batch_size=64, test_interval=30, snapshot_interval=150, data_order="shuffled")

# The paper refers to AutoDIAL: 60 epochs, the learning rate scaled by 0.1 after 54. A batch shared out by size makes
# an epoch one of all domains: 4,110 images of Office-31 are 16 batches, 2,533 of Office-Caltech are 10.
_OFFICE31 = Recipe(
    iterations=960,
    batch_size=256,
    batch_split="by_size",
    base_lr=0.001,
    lr_policy="step",
    lr_step=0.9,
    weight_decay=5e-4,
    lambda_c=0.2,
    lambda_d=0.2,
    lambda_t=0.5,
    test_interval=96,
    snapshot_interval=480,
)

_OFFICE_CALTECH = replace(_OFFICE31, iterations=600, test_interval=60, snapshot_interval=300)

_PACS = Recipe(
    iterations=1200,
    batch_size=48,
    batch_split="equally",
    base_lr=0.001,
    lr_policy="step",
    lr_step=0.75,
    weight_decay=1e-6,
    lambda_c=0.1,
    lambda_d=0.0001,
    lambda_t=0.5,
    test_interval=200,
    snapshot_interval=300,
)

HEADS: dict[str, dict[str, Any]] = {
    # Ours: chosen on sources that were held out (results/head).
    "linear": {
        "iterations": 600,
        "batch_size": 192,
        "batch_split": "per_group",
        "base_lr": 0.001,
        "lr_step": 0.75,
        "weight_decay": 0.01,
        "lambda_c": 0.1,
        "lambda_m": 0.1,
    },
    # That of the paper on PACS, with a batch as on fc7 features.
    "paper": {"iterations": 1200, "batch_size": 256, "batch_split": "equally", "weight_decay": 1e-6, "lambda_m": 0.0},
}
"""Changes of a recipe for features with another head than the dataset's."""


def with_head(recipe: Recipe, head: str) -> Recipe:
    """Return a recipe for features with another head. It tests only after the last iteration."""
    if recipe.head == head:
        return recipe
    changed = replace(recipe, head=head, **HEADS[head])
    return replace(changed, test_interval=changed.iterations, snapshot_interval=changed.iterations // 2)


_LITE0 = with_head(replace(_PACS, solver_mode="CPU"), "linear")
"""Our recipe for Lite0's features of any pictures."""

_MEAN = (104.0, 117.0, 123.0)
"""Mean of ImageNet's pixels, B, G, R, as Caffe's models subtract it."""


_OFFICE31_DATA = Dataset(
    name="office31",
    domains=OFFICE31.domains,
    sources=("amazon", "dslr"),
    targets=("webcam",),
    classes=len(OFFICE31.classes),
    network="alexnet",
    stored_shape=PICTURE_SHAPE,
    crop=227,
    mean=_MEAN,
    counts=OFFICE31.images,
    recipe=_OFFICE31,
    made_by="python -m tools.get_data office31 --images DIR",
)

_OFFICE_CALTECH_DATA = replace(
    _OFFICE31_DATA,
    name="office_caltech",
    domains=OFFICE_CALTECH.domains,
    sources=("amazon", "caltech"),
    targets=("webcam", "dslr"),
    classes=len(OFFICE_CALTECH.classes),
    counts=OFFICE_CALTECH.images,
    recipe=_OFFICE_CALTECH,
    made_by="python -m tools.get_data office_caltech --images DIR",
)

_PACS_DATA = Dataset(
    name="pacs",
    domains=PACS.domains,
    sources=("art_painting", "cartoon", "photo"),
    targets=("sketch",),
    classes=len(PACS.classes),
    network="resnet18",
    stored_shape=PICTURE_SHAPE,
    crop=224,
    mirror=True,
    mean=_MEAN,
    counts=PACS.images,
    recipe=_PACS,
    made_by="python -m tools.get_data pacs --images DIR",
)


def as_features(images: Dataset, kind: str, network: str, size: int, features: Features, **changes: Any) -> Dataset:
    """Return the same domains as records of ``size`` features of a ``kind``, named IMAGES_KIND."""
    return replace(
        images,
        **{
            "name": f"{images.name}_{kind}",
            "network": network,
            "stored_shape": (size, 1, 1),
            "crop": None,
            "mirror": False,
            "mean": (),
            "scale": 1.0,
            "usage_images": 10_000,
            "test_batch_limit": 600,
            "features": features,
            **changes,
        },
    )


def _fc7(images: Dataset) -> Dataset:
    """Return the same domains as AlexNet's fc7 features, before its ReLU, of the central crop."""
    made_by = f"python -m tools.extract_features {images.name} --weights FILE"
    return as_features(images, "fc7", "alexnet_fc7", 4096, Features(images.name, "alexnet"), made_by=made_by)


def on_lite0(images: Dataset, recipe: Recipe, made_by: str | None = None) -> Dataset:
    """Return the same domains as EfficientNet-Lite0's features of the central crop and statistics of early blocks."""
    made_by = made_by or f"python -m tools.extract_features {images.name} --backbone lite0"
    features = Features(images.name, "lite0", early=80)
    return as_features(images, "lite0", ANY_FEATURES, 1280 + 80, features, recipe=recipe, made_by=made_by)


_DIGITS_DATA = Dataset(
    name="digits",
    domains=("mnist", "mnistm", "usps"),
    sources=("mnist", "mnistm"),
    targets=("usps",),
    classes=10,
    network="mnist",
    stored_shape=(3, 28, 28),
    mean=(127.5,),
    scale=1 / 128,
    test_split=True,
    counts={"mnist": 60000, "mnistm": 60000, "usps": 7291},
    test_counts={"mnist": 10000, "mnistm": 10000, "usps": 2007},
    recipe=_DIGITS,
    made_by="python -m tools.get_data digits",
    usage_images=10_000,
    test_batch_limit=600,
)

DATASETS = {
    data.name: data
    for data in (
        _DIGITS_DATA,
        # Ours: MNIST with inverted contrast for harder mixtures, USPS by other interpolations.
        replace(
            _DIGITS_DATA,
            name="digits_hard",
            domains=("mnist", "mnistm", "usps", "inverted", "usps_bicubic", "usps_nearest"),
            sources=("mnist", "inverted"),
            counts={**_DIGITS_DATA.counts, "inverted": 60000, "usps_bicubic": 7291, "usps_nearest": 7291},
            test_counts={**_DIGITS_DATA.test_counts, "inverted": 10000, "usps_bicubic": 2007, "usps_nearest": 2007},
            made_by="python -m tools.get_data digits_hard",
        ),
        replace(
            _DIGITS_DATA,
            name="demo",
            domains=("plain", "photo", "handwritten"),
            sources=("plain", "photo"),
            targets=("handwritten",),
            counts={"plain": 5000, "photo": 5000, "handwritten": 1197},
            test_counts={"plain": 1000, "photo": 1000, "handwritten": 600},
            recipe=_DEMO,
            made_by="python -m tools.get_data demo",
        ),
        _OFFICE31_DATA,
        _fc7(_OFFICE31_DATA),
        _OFFICE_CALTECH_DATA,
        _fc7(_OFFICE_CALTECH_DATA),
        on_lite0(_OFFICE_CALTECH_DATA, _LITE0),
        as_features(
            _OFFICE_CALTECH_DATA,
            "surf",
            ANY_FEATURES,
            800,
            Features(None, "surf"),
            recipe=replace(_OFFICE_CALTECH, test_interval=600, solver_mode="CPU"),
            made_by="python -m tools.get_data office_caltech_surf",
        ),
        _PACS_DATA,
        on_lite0(_PACS_DATA, _LITE0),
        # Not in the paper, with its recipe for PACS.
        replace(
            _PACS_DATA,
            name="office_home",
            domains=OFFICE_HOME.domains,
            sources=("art", "clipart", "product"),
            targets=("real_world",),
            classes=65,
            counts=OFFICE_HOME.images,
            made_by="python -m tools.get_data office_home --images DIR",
        ),
    )
}


def named(name: str) -> Dataset:
    """Return the dataset of the paper with this name."""
    if name not in DATASETS:
        raise ProgramError(f"dataset: got {name!r}, expected one of {', '.join(DATASETS)}, or FILE.json")
    return DATASETS[name]


def find_dataset(text: str) -> Dataset:
    """Return the dataset of this name, or the one that this file describes."""
    if not text.endswith(".json"):
        return named(text)
    file = path(text)
    expect_file(file, "the description of a dataset")
    values = read_json(file)
    try:
        return from_json(values)
    except ProgramError as error:
        raise ProgramError(f"{text}: {error}") from error


def of_network(network: str) -> Dataset:
    """Return the dataset whose images fit a network, adapted to that network."""
    return _entering(DATASETS[NETWORKS[network].images], network)


def input_of(network: Network) -> Preprocessing:
    """Return how images become a network's input, at its usual size."""
    return network.pixels or DATASETS[network.images].preprocessing


def _entering(data: Dataset, network: str) -> Dataset:
    """Return a dataset for another network, with the preprocessing of that network."""
    form = input_of(NETWORKS[network])
    return replace(data, network=network, crop=form.crop, mean=form.mean, scale=form.scale)


def adapted(data: Dataset, network: str | None, image_size: int | None) -> Dataset:
    """Return a dataset for a network (None: its own) that sees squares of side ``image_size`` (None: the usual one).

    Images of another size are in separate LMDBs, stored smaller or larger in the same proportion.
    """
    if network not in (None, *NETWORKS):
        raise ProgramError(f"network: found {network!r}, expected one of {', '.join(NETWORKS)}")
    if network not in (None, data.network):
        found, usual = by(data.stored_shape), of_network(network).stored_shape
        if data.stored_shape != usual:
            raise ProgramError(
                f"network: got {network!r}, expected one for {found} ({data.name}), it takes {by(usual)}"
            )
        data = _entering(data, network)
    if image_size in (None, data.shape[-1]):
        return data
    known = DATASETS.get(data.name)
    if not NETWORKS[data.network].any_size or known is None or known.stored_shape != data.stored_shape:
        raise ProgramError(f"image_size: got {image_size} for {data.network} on {data.name}, expected {data.shape[-1]}")
    check_size(image_size)
    side = stored_side(image_size)
    return replace(
        data,
        stored_shape=(data.stored_shape[0], side, side),
        crop=image_size,
        folder=size_folder(data.name, image_size),
        made_by=f"{data.made_by} --image-size {image_size}",
    )


def from_json(values: Any) -> Dataset:
    """Return the dataset that :meth:`Dataset.to_json` described. Refuses values that contradict each other."""
    data = checked(Dataset, values, "dataset")
    _check(data)
    return data


def is_folder_name(name: str) -> bool:
    """Say whether a folder can have this name, and a terminal can print it."""
    return name not in ("", ".", "..") and "/" not in name and harmless(name) == name


def _check(data: Dataset) -> None:
    """Raise ProgramError if a description contradicts itself or fits no network."""
    domains = set(data.domains)
    expectations = [
        ("name", is_folder_name(data.name), data.name, "a folder's name"),
        ("folder", is_folder_name(data.lmdbs), data.folder, "a folder's name"),
        ("domains", all(map(is_folder_name, data.domains)), data.domains, "folders' names"),
        ("network", data.network in NETWORKS, data.network, f"one of {', '.join(NETWORKS)}"),
        ("domains", len(domains) == len(data.domains) > 0, data.domains, "each domain once"),
        ("sources", set() < set(data.sources) <= domains, data.sources, "some of the domains"),
        ("targets", set() < set(data.targets) <= domains, data.targets, "some of the domains"),
        ("unlabelled", set(data.unlabelled) <= domains, data.unlabelled, "some of the domains"),
        ("counts", set(data.counts) == domains, data.counts, "the number of images of each domain"),
        ("test_counts", set(data.test_counts or domains) == domains, data.test_counts, "a number for each domain"),
        ("mean", len(data.mean) in (0, 1, data.stored_shape[0]), data.mean, "one value, or one for each channel"),
    ]
    for name, holds, found, expected in expectations:
        if not holds:
            raise ProgramError(f"dataset: {name}: got {found!r}, expected {expected}")
    reference = of_network(data.network)
    shape = reference.shape
    if (data.features is None) != (reference.features is None):
        found, expected = ("features", "images") if data.features else ("images", "features")
        raise ProgramError(f"dataset: records that are {found}, expected {expected}, which {data.network} takes")
    if NETWORKS[data.network].any_size and fits(data.crop or 0):
        shape = (shape[0], data.crop, data.crop)
    if data.network == ANY_FEATURES:
        shape = (max(data.early + 1, data.shape[0]), 1, 1)
    elif data.features and data.features.backbone != reference.features.backbone:
        raise ProgramError(
            f"dataset: features: found those of {data.features.backbone}, expected those of "
            f"{reference.features.backbone}, which {data.network} takes"
        )
    if data.shape != shape or min(data.stored_shape) < 1 or (data.crop or 1) > min(data.stored_shape[1:]):
        raise ProgramError(
            f"dataset: stored_shape {data.stored_shape} and crop {data.crop}: expected what gives the {shape} of "
            f"{data.network}"
        )
