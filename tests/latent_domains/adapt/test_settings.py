"""The options of tools.adapt that a folder was begun with."""

import json

import pytest

from latent_domains.adapt.settings import LATER, keep
from latent_domains.common.program import ProgramError


def test_a_folder_that_was_begun_before_there_was_an_option_goes_on(tmp_path):
    file = tmp_path / "settings.json"
    file.write_text(json.dumps({"--k": 2}))
    keep(file, {"--k": 2, **LATER}, begun=True)
    with pytest.raises(ProgramError, match=r"begun with other options: --style-share was 0\.0, is 0\.5"):
        keep(file, {"--k": 2, **LATER, "--style-share": 0.5}, begun=True)
