"""The description beside a model's files, as JSON: the names of its classes, and how an image becomes its input."""

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

from annotated_types import MinLen
from pydantic import AfterValidator

from latent_domains.common.files import expect_file, json_text, read_json
from latent_domains.common.pixel_limit import most_pixels
from latent_domains.common.validation import checked
from latent_domains.data.preprocessing import Preprocessing


def _distinct(classes: tuple[str, ...]) -> tuple[str, ...]:
    if len(set(classes)) != len(classes):
        raise ValueError(f"found {list(classes)}, expected each name once")
    return classes


def _consistent(form: Preprocessing) -> Preprocessing:
    if math.prod(form.stored_shape[1:]) > most_pixels():
        raise ValueError(f"stored_shape: found {list(form.stored_shape)}, expected at most {most_pixels()} pixels")
    if (form.crop or 1) > min(form.stored_shape[1:]):
        raise ValueError(f"crop: found {form.crop} of images of {list(form.stored_shape)}, expected one that fits")
    if len(form.mean) not in (0, 1, form.stored_shape[0]):
        raise ValueError(f"mean: found {list(form.mean)}, expected one value, or one for each channel")
    return form


@dataclass(frozen=True)
class ModelDescription:
    """``name`` says where the model comes from; ``classes`` are named in the order of the net's outputs."""

    name: str
    classes: Annotated[tuple[str, ...], MinLen(1), AfterValidator(_distinct)]
    preprocessing: Annotated[Preprocessing, AfterValidator(_consistent)]

    def text(self) -> str:
        """The text of the file."""
        return json_text(asdict(self))


def description_file(prefix: Path) -> Path:
    """The file's name, beside PREFIX.prototxt and PREFIX.caffemodel."""
    return prefix.with_name(f"{prefix.name}.json")


def read_description(file: Path) -> ModelDescription:
    """Read the file. Raises ProgramError naming it if it is missing, damaged or contradicts itself."""
    expect_file(file, "the classes and the preprocessing of a model (python -m tools.export writes it)")
    return checked(ModelDescription, read_json(file), str(file))
