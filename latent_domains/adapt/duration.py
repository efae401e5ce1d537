"""How long training will take on this machine's processor: measured before hours are spent."""

from latent_domains.runs.run_folder import RunFolder
from latent_domains.training.threads import milliseconds, share_of_cores


def measure_iteration(folder: RunFolder, threads: int | None) -> tuple[int, float]:
    """Return the number of threads (default: all cores) and the seconds of one training iteration."""
    threads = threads or share_of_cores(1)
    return threads, milliseconds(folder.net("train"), threads) * folder.experiment.iter_size / 1000


def estimate_seconds(folder: RunFolder, iterations: int, seconds: float) -> float:
    """Estimate the seconds of a run's last ``iterations``, at ``seconds`` each, with tests and evaluation.

    A test only goes forward, which takes a third of an iteration's time for the same number of images.
    """
    tested = sum(batch_size * batches for batch_size, batches in folder.test_batches().values())
    tests = -(-iterations // folder.experiment.data.recipe.test_interval) + 1
    each = seconds / (folder.experiment.iter_size * sum(folder.batch_rows().values()))
    return iterations * seconds + tests * tested * each / 3


def duration_text(seconds: float) -> str:
    """Format a duration: 40 s, 25 min, 2 h 48 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
