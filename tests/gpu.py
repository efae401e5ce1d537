"""Whether there is a GPU to test with, and if not, why. ``make test-gpu`` (REQUIRE_GPU=1) needs one."""

import os

from latent_domains.common.gpus import why_no_layers_on_gpu

WHY_NO_GPU = why_no_layers_on_gpu()

if WHY_NO_GPU is not None and os.environ.get("REQUIRE_GPU") == "1":
    raise RuntimeError(f"the tests were asked to run on a GPU, but {WHY_NO_GPU}")
