"""What is to be made: is it there, what must be there before, and what makes it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any


class Artefact:
    """Files or folders that are made together, whole or not at all: LMDBs, weights, results.

    ``needs`` are what it is made of, and made before. Its recipe, the fields of subclasses, decides what it holds.
    """

    paths: Sequence[Path]
    needs: Sequence["Artefact"] = ()

    def is_there(self, *, force: bool = False) -> bool:
        """Say whether it was made before, by the same recipe as far as that is known.

        Raises ProgramError if there is something else in its place, unless ``force`` allows to replace it.
        """
        return all(path.exists() for path in self.paths)

    def make(self, *, force: bool = False) -> Any:
        """Make it; return None if another process has made it meanwhile.

        What only another program makes cannot be made here.
        """
        raise NotImplementedError

    def report(self, made: Any) -> None:
        """Print what :meth:`make` returned; None: it was there."""

    def missing(self) -> Iterator["Artefact"]:
        """Yield what it needs and itself, as far as it is not there, in the order in which it is made."""
        if not self.is_there():
            for need in self.needs:
                yield from need.missing()
            yield self


def make_missing(artefacts: Iterable[Artefact], *, force: bool = False) -> list[Any]:
    """Make those that are not there, after making sure that nothing else is in the place of any.

    Returns what each ``make`` returned; None for those that were there.
    """
    found = []
    for each, there in [(each, each.is_there(force=force)) for each in artefacts]:
        found.append(None if there else each.make(force=force))
        each.report(found[-1])
    return found
