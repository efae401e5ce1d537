"""A linear model of the domains of pictures, by their statistics: for pictures that were not there in training."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.files import expect_file, write_aside
from latent_domains.common.program import ProgramError

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LinearDomains:
    """Probabilities of k domains: the softmax of ``weights`` (k×f) times the statistics, and ``bias`` (k).

    ``made`` says how the backbone made the statistics.
    """

    weights: Floats
    bias: Floats
    made: str

    def probabilities(self, rows: Floats) -> Floats:
        """w (n×k) of statistics (n×f)."""
        return softmax(rows @ self.weights.T + self.bias, axis=1)

    def write(self, file: Path) -> None:
        """Write the file."""
        with write_aside(file) as aside, aside.open("wb") as stream:
            np.savez(stream, **vars(self))

    @classmethod
    def read(cls, file: Path, backbone: OnnxBackbone) -> "LinearDomains":
        """Read the file. Raises ProgramError if it is damaged, or is about statistics of another backbone."""
        expect_file(file, "the domains of a model, by python -m tools.adapt")
        try:
            with np.load(file) as arrays:
                found = cls(**{name: arrays[name] for name in cls.__dataclass_fields__})
        except Exception as error:  # what is raised for a damaged file depends on the damage
            raise ProgramError(f"{file}: not a whole file of a model's domains: {error}") from error
        if str(found.made) != (expected := made_by(backbone)):
            raise ProgramError(f"{file}: statistics of {found.made}, expected those of {expected}")
        return found


def made_by(backbone: OnnxBackbone) -> str:
    """How a backbone makes statistics, as the file says it."""
    return json.dumps(backbone.description, sort_keys=True)
