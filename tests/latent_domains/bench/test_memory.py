"""What a layer adds to a process."""

import pytest

from latent_domains.bench import memory
from latent_domains.common.program import ProgramError

pytestmark = pytest.mark.program


def test_memory_of_a_layer_is_measured_in_a_process_of_its_own():
    # 64 channels of 64 rows are 0.3 MB of row sums for an x of 67 MB; twice that is room for the allocator.
    share = memory.added_share((64, 64, 64, 64))
    assert -0.005 < share < 0.02


def test_a_measuring_process_that_fails_is_an_error():
    with pytest.raises(ProgramError, match=r"(?s)latent_domains.bench.memory 4 failed: .*N×C×…"):
        memory.added_share((4,))
