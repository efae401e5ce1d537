"""Run folders that tests change."""

import re

from latent_domains.runs.run_folder import RunFolder


def lasting(folder: RunFolder, iterations: int) -> RunFolder:
    """Change how many iterations the training of a run folder has, whatever it has done so far."""
    description = folder.path / "experiment.json"
    for file, pattern in ((folder.solver, r"(max_iter: )\d+"), (description, r'("iterations": )\d+')):
        text, count = re.subn(pattern, rf"\g<1>{iterations}", file.read_text())
        assert count == 1
        file.write_text(text)
    return RunFolder.load(folder.path)
