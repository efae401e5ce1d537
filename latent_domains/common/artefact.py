"""Something to be made: whether it exists, what it needs first, and how it is made."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


class Artefact:
    """Files or folders that are made together, all or none: LMDBs, weights, results.

    ``needs`` are made first. The recipe, which is the fields of subclasses, decides the contents.
    """

    paths: Sequence[Path]
    needs: Sequence["Artefact"] = ()

    def is_there(self, *, force: bool = False) -> bool:
        """Say whether it was made before, by the same recipe as far as the recipe is known.

        Refuses to replace anything else at its place, unless ``force`` is true.
        """
        return all(path.exists() for path in self.paths)

    def make(self, *, force: bool = False) -> Any:
        """Make it; return None if another process has made it meanwhile.

        Not implemented for an artefact that only another program can make.
        """
        raise NotImplementedError

    def report(self, made: Any) -> None:
        """Print what :meth:`make` returned; None means that it existed already."""

    def missing(self) -> Iterator["Artefact"]:
        """Yield the needs that do not exist, then itself if it does not exist: the order in which they are made."""
        if not self.is_there():
            for need in self.needs:
                yield from need.missing()
            yield self


def make_missing(artefacts: Iterable[Artefact], *, force: bool = False) -> list[Any]:
    """Make those that do not exist, after checking that nothing else is at the place of any of them.

    Returns what each ``make`` returned; None for those that existed.
    """
    found = []
    for each, there in [(each, each.is_there(force=force)) for each in artefacts]:
        found.append(None if there else each.make(force=force))
        each.report(found[-1])
    return found
