"""A folder goes on with the options that it was begun with, and with no others."""

import pytest

from latent_domains.adapt.settings import keep
from latent_domains.common.program import ProgramError

THERE = {"--source": ["a", "b"], "--k": None}


def test_other_options_are_refused_once_training_has_begun(tmp_path):
    file = tmp_path / "settings.json"
    keep(file, {"--source": ["c"], "--k": 3}, begun=False)
    keep(file, THERE, begun=False)
    keep(file, THERE, begun=True)
    with pytest.raises(ProgramError, match="other options: --source was a b, is c; --k was not given, is 3"):
        keep(file, {"--source": ["c"], "--k": 3}, begun=True)
