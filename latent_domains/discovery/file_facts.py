"""What pictures differ in by themselves: size, bytes, format, colour, sharpness. A domain may be no more than that."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
from numpy.typing import NDArray

SAMPLE = 100
"""Pictures of each domain that are looked at."""

APART = 0.9
"""Domains differ in a number if a picture of the one so often has a larger one than a picture of the other."""

GRAY = 2
"""Channels that differ by so much at most, in the mean, are those of a gray picture."""

SHARE_APART = 0.5
"""Domains differ in their formats, or in gray, if the shares do by so much."""


@dataclass(frozen=True)
class FileFacts:
    """Facts of some pictures of one domain; an array has one number for each picture."""

    side: NDArray[np.float64]
    """The root of the number of pixels."""
    kilobytes: NDArray[np.float64]
    gray: NDArray[np.float64]
    """1 for a gray picture, 0 for one in colours."""
    sharpness: NDArray[np.float64]
    """The deviation of the Laplacian: how much neighbouring pixels differ."""
    formats: Counter[str]

    @property
    def cells(self) -> list[str]:
        """A cell for each of HEADER."""
        if not len(self.side):
            return ["–"] * len(HEADER)
        median = [f"{np.median(values):.0f}" for values in (self.side, self.kilobytes, self.sharpness)]
        formats = ", ".join(f"{name} {100 * n / len(self.side):.0f} %" for name, n in self.formats.most_common(3))
        return [f"{median[0]}²", median[1], formats, f"{100 * self.gray.mean():.0f}", median[2]]


HEADER = ["#pixels", "#kB", "format", "#gray (%)", "#sharpness"]
"""Medians, and shares."""


def file_facts(files: Sequence[Path]) -> FileFacts:
    """Facts of up to SAMPLE of the files, drawn evenly; one that is gone, or that OpenCV cannot read, is left out."""
    numbers, formats = [], Counter[str]()
    for place in np.unique(np.linspace(0, len(files) - 1, SAMPLE).astype(int)) if files else ():
        data = files[place].read_bytes() if files[place].is_file() else b""
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR) if data else None
        if image is None:
            continue
        spread = float((image.max(axis=2) - image.min(axis=2)).mean())
        sharpness = float(cv2.Laplacian(cv2.cvtColor(image, cv2.COLOR_BGR2GRAY), cv2.CV_64F).std())
        numbers.append([np.sqrt(image.shape[0] * image.shape[1]), len(data) / 1000, spread <= GRAY, sharpness])
        formats[files[place].suffix.lower().lstrip(".").replace("jpeg", "jpg") or "none"] += 1
    side, kilobytes, gray, sharpness = np.array(numbers, np.float64).reshape(-1, 4).T
    return FileFacts(side, kilobytes, gray, sharpness, formats)


def what_differs(facts: Sequence[FileFacts], names: Sequence[str]) -> list[str]:
    """What tells domains apart by itself, in words, by facts of each domain; one without pictures is left out."""
    there = [(one, name) for one, name in zip(facts, names, strict=True) if len(one.side)]
    if len(there) < 2:
        return []
    facts, names = zip(*there, strict=True)
    said = []
    for title, unit, values in (
        ("size", "² pixels", [one.side for one in facts]),
        ("bytes", " kB", [one.kilobytes for one in facts]),
        ("sharpness", "", [one.sharpness for one in facts]),
    ):
        medians = [float(np.median(of)) for of in values]
        low, high = int(np.argmin(medians)), int(np.argmax(medians))
        if _above(values[high], values[low]) >= APART:
            said.append(
                f"{title} (median {medians[low]:.0f}{unit} in {names[low]}, {medians[high]:.0f} in {names[high]})"
            )
    for kind in sorted({name for one in facts for name in one.formats}):
        _add_share(said, kind, [one.formats[kind] / len(one.side) for one in facts], names)
    _add_share(said, "gray", [float(one.gray.mean()) for one in facts], names)
    return said


def _above(high: NDArray[np.float64], low: NDArray[np.float64]) -> float:
    """How often a number of the one is larger than one of the other, from 0 to 1 (the area under the ROC curve)."""
    difference = high[:, np.newaxis] - low
    return float((difference > 0).mean() + (difference == 0).mean() / 2)


def _add_share(said: list[str], title: str, shares: list[float], names: Sequence[str]) -> None:
    low, high = int(np.argmin(shares)), int(np.argmax(shares))
    if shares[high] - shares[low] >= SHARE_APART:
        said.append(f"{title} ({100 * shares[low]:.0f} % of {names[low]}, {100 * shares[high]:.0f} % of {names[high]})")
