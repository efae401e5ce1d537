"""The valid inputs of a session of tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

from latent_domains.models import model
from tests.contracts.inputs import Inputs


@pytest.fixture(scope="session")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    return Inputs(tmp_path_factory.mktemp("valid"))


@pytest.fixture
def place(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Copies inputs to a folder that becomes the current one, and makes an empty ``out`` in it."""

    def placed(words: str) -> Path:
        (tmp_path / "out").mkdir()
        inputs.place(words, tmp_path)
        monkeypatch.chdir(tmp_path)
        monkeypatch.setattr(model, "check_loads", lambda *_: None)  # a process for each net
        return tmp_path

    return placed
