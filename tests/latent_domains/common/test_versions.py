import pytest

from latent_domains.common.versions import hardware


@pytest.mark.program
def test_hardware_names_the_mode_and_the_gpu():
    on_cpu, on_gpu = hardware("CPU"), hardware("GPU", "NVIDIA H200")
    assert on_cpu["cores"] >= 1
    assert on_cpu["mode"] == "CPU"
    assert "gpu" not in on_cpu
    assert on_gpu == {**on_cpu, "mode": "GPU", "gpu": "NVIDIA H200"}
