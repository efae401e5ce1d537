"""The commits of this checkout: whether others can check out the code that a result was made with."""

import shutil
import subprocess
from collections.abc import Collection
from functools import cache

from latent_domains.common.program import ROOT

CHANGES = "+changes"
"""What follows a commit whose tracked files were changed."""


@cache
def known_commits() -> frozenset[str] | None:
    """The commits of the checkout's history; None outside a git checkout, or without the whole history."""
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists() or (ROOT / ".git/shallow").exists():
        return None
    done = subprocess.run([git, "rev-list", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return frozenset(done.stdout.split()) if done.returncode == 0 else None


def doubts(commits: Collection[str | None], known: Collection[str] | None) -> list[str]:
    """Say which of a result's commits nobody can check out, one text for each.

    If the history is not ``known``, only changes are told.
    """
    if known is not None and not any(commits):
        return ["that names no commit"]
    texts = []
    for commit in sorted(filter(None, set(commits))):
        if commit.endswith(CHANGES):
            texts.append(f"of commit {commit[:8]} with changes that are not committed")
        elif known is not None and commit not in known:
            texts.append(f"of commit {commit[:8]}, which is not in this history")
    return texts
