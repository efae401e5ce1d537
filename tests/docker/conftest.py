"""What tests of Caffe's layers share."""

from collections.abc import Iterator

import caffe
import pytest


@pytest.fixture
def on_gpu() -> Iterator[None]:
    """Caffe in GPU mode; afterwards in CPU mode again."""
    caffe.set_mode_gpu()
    yield
    caffe.set_mode_cpu()
