"""Shares of domains in a mixture, in percent: 80:20."""

from collections.abc import Iterable, Sequence

from latent_domains.common.program import ProgramError


def shares_text(shares: Iterable[int | None]) -> str:
    """Shares as they are written."""
    return ":".join(map(str, shares))


def check_shares(shares: Sequence[int], domains: int) -> None:
    """Raise ProgramError unless there is a percentage of at least 1 for each domain and they add up to 100."""
    if len(shares) != domains or min(shares) < 1 or sum(shares) != 100:
        raise ProgramError(
            f"shares: got {shares_text(shares)}, expected {domains} percentages of at least 1 that add up to 100"
        )


def mixture_counts(counts: Sequence[int], shares: Sequence[int]) -> list[int]:
    """Records of each domain in the largest mixture with these shares, out of ``counts``; all without shares.

    The domain that limits it is used whole; the others' records are rounded down, but to 1 at least.
    """
    if not shares:
        return list(counts)
    count, share = min(zip(counts, shares, strict=True), key=lambda pair: pair[0] / pair[1])
    return [max(1, count * other // share) for other in shares]
