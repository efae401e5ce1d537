"""The options of adapt beside its results: the same go on, others are refused."""

import pytest

from latent_domains.adapt.settings import keep
from latent_domains.common.program import ProgramError


def test_an_option_of_the_method_that_was_none_had_the_default_of_then(tmp_path):
    file = tmp_path / "out" / "settings.json"
    keep(file, {"--k-target": None, "--weights": None}, begun=False)
    keep(file, {"--k-target": 1, "--weights": None}, begun=True, by_default=["--k-target"])
    for changed in ({"--k-target": 1, "--weights": "w"}, {"--k-target": 2, "--weights": None}):
        with pytest.raises(ProgramError, match=r"was not given, is [w2]"):
            keep(file, changed, begun=True)
