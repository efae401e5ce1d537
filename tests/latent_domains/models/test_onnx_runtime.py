"""A model in ONNX Runtime: what it takes, what it gives, and failures in one line."""

import os
import subprocess
import sys

import numpy as np
import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.models.onnx_runtime import Runtime, with_outputs
from tests.onnx_models import CLASSES, TERMS, by_hand, model
from tests.programs import names
from tests.tolerance import rounding


def test_values_of_a_model():
    made = model(outputs=("features", "classes"))
    runtime = Runtime(made.SerializeToString())
    assert runtime.inputs == {"pixels": ("N", 3, 8, 8)} and list(runtime.outputs) == ["features", "classes"]
    pixels = np.random.default_rng(0).normal(size=(2, 3, 8, 8)).astype(np.float32)
    assert runtime.forward({"pixels": pixels})["classes"].shape == (2, CLASSES)
    inside = Runtime(with_outputs(made, ["two", "one"]).SerializeToString(), threads=1)
    found = inside.forward({"pixels": pixels[:1]})
    assert list(found) == ["two", "one"]
    for name, expected in zip(("one", "two"), by_hand(pixels[0]), strict=False):
        np.testing.assert_allclose(found[name][0], expected, rtol=0, atol=rounding(TERMS, expected))


def test_failures_are_one_message():
    with pytest.raises(ProgramError, match=r"^x\.onnx: ONNX Runtime refuses the model: .*$"):
        Runtime(b"no model", name="x.onnx")
    with pytest.raises(ProgramError, match=r"^ONNX Runtime fails on pixels 1×4: .*$"):
        Runtime(model().SerializeToString()).forward({"pixels": np.zeros((1, 4), np.float32)})


@pytest.mark.program
def test_nothing_is_told_to_the_makers_of_onnx_runtime(tmp_path):
    """It would lay an identifier of the machine and a database into the user's cache."""
    (tmp_path / "model.onnx").write_bytes(model().SerializeToString())
    (tmp_path / "home").mkdir()
    unset = ("ORT_DISABLE_TELEMETRY", "XDG_CACHE_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in unset}
    code = (
        "import sys; from latent_domains.common.start import prepare_libraries; prepare_libraries(); "
        "from latent_domains.models.onnx_runtime import Runtime; Runtime(open(sys.argv[1], 'rb').read())"
    )
    subprocess.run(
        [sys.executable, "-c", code, tmp_path / "model.onnx"],
        cwd=ROOT,
        env=environment | {"HOME": str(tmp_path / "home")},
        check=True,
    )
    assert names(tmp_path / "home") == []
