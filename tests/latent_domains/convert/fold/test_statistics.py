"""Running statistics as the layers take them, empty ones too; what cannot be statistics is refused."""

import numpy as np
import pytest

from latent_domains.common.program import ProgramError
from latent_domains.convert.fold.fold import fold
from tests.latent_domains.convert.fold.models import DATA, layer, mda, trained, tried


@pytest.mark.parametrize("text", [layer("norm", "BatchNorm", "data", "norm"), mda("norm", "data", "norm", 2)])
def test_divisor_zero_is_mean_and_variance_zero_and_is_said(text: str) -> None:
    model = trained(DATA + text)
    model.blobs["norm"][2][...] = 0
    done = tried(model)
    factor, offset = done.folded.model.blobs["norm"]
    np.testing.assert_allclose(factor, 1e-5**-0.5, rtol=1e-5)
    assert not offset.any()
    (note,) = done.folded.notes
    whose = "norm: no running statistics " + ("of domain 1 " if "MDA" in text else "") + "(divisor 0)"
    assert note.startswith(whose) and note.endswith("was the model trained?")


def test_other_domains_may_be_empty() -> None:
    model = trained(DATA + mda("norm", "data", "norm", 2))
    model.blobs["norm"][2][0] = 0
    assert tried(model).folded.notes == ()


def test_eps_and_divisor_count() -> None:
    model = trained(DATA + mda("norm", "data", "norm", 2, ', "eps": 0.5'), divisor=7)
    factor, offset = tried(model).folded.model.blobs["norm"]
    mean, variance = model.blobs["norm"][0][1] / 7, model.blobs["norm"][1][1] / 7
    np.testing.assert_allclose(factor, (variance + 0.5) ** -0.5, rtol=1e-6)
    np.testing.assert_allclose(offset, -mean * (variance + 0.5) ** -0.5, rtol=1e-5)


@pytest.mark.parametrize("text", [layer("norm", "BatchNorm", "data", "norm"), mda("norm", "data", "norm", 2)])
def test_impossible_variances_are_refused(text: str) -> None:
    model = trained(DATA + text, divisor=1)
    model.blobs["norm"][1][..., 2] = -3
    with pytest.raises(ProgramError, match="layer norm: its smallest variance is -3, expected at least 0"):
        fold(model)
