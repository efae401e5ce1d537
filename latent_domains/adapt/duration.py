"""How long training will take on this machine's processor: measured before hours are spent."""

import re

from latent_domains.common.caffe_process import ending, read_log, start
from latent_domains.common.program import ProgramError
from latent_domains.runs.run_folder import RunFolder
from latent_domains.training.train import share_of_cores

_AVERAGE = re.compile(r"Average Forward-Backward: (\S+) ms")


def measure_iteration(folder: RunFolder, threads: int | None) -> tuple[int, float]:
    """Return the number of threads (default: all cores) and the seconds of one training iteration by ``caffe time``."""
    threads, net = threads or share_of_cores(1), folder.net("train")
    with start(["time", "-model", str(net.resolve()), "-iterations", "3"], threads) as child:
        log = read_log(child)
    match = _AVERAGE.search(log)
    if child.returncode or not match:
        raise ProgramError(f"{net}: caffe time failed: {ending(child.returncode, log)}")
    return threads, float(match[1]) * folder.experiment.recipe.iter_size / 1000


def estimate_seconds(folder: RunFolder, iterations: int, seconds: float) -> float:
    """Estimate the seconds of a run's last ``iterations``, at ``seconds`` each, with tests and evaluation.

    A test only goes forward, which takes a third of an iteration's time for the same number of images.
    """
    tested = sum(batch_size * batches for batch_size, batches in folder.test_batches().values())
    tests = -(-iterations // folder.experiment.recipe.test_interval) + 1
    each = seconds / (folder.experiment.recipe.iter_size * sum(folder.batch_rows().values()))
    return iterations * seconds + tests * tested * each / 3


def duration_text(seconds: float) -> str:
    """Format a duration: 40 s, 25 min, 2 h 48 min."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 100 else f"{minutes // 60} h {minutes % 60} min"
