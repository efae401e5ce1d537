"""What one MDALayer computes."""

from typing import NamedTuple


class Problem(NamedTuple):
    """N, C and S of x, and D; ε; what the running statistics keep; whether those are used, not the batch's."""

    samples: int
    channels: int
    size: int
    domains: int
    eps: float
    fraction: float
    fixed: bool

    @property
    def volume(self) -> tuple[int, int, int]:
        """x's shape as the backends see it, N×C×S."""
        return self[:3]
