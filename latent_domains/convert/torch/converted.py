"""Caffemodels of a checkpoint, converted once: a note beside them has their hashes and the checkpoint's."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from latent_domains.common.artefact import Artefact
from latent_domains.common.files import json_text, read_json, sha256, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.convert.options import ConverterOptions
from latent_domains.convert.torch import conversion
from latent_domains.convert.torch.conversion import converted_file
from latent_domains.models.onnx_file import contents_sha256
from latent_domains.networks.network import Network


@dataclass(frozen=True)
class _Noted:
    """What is known of a caffemodel: its hash, and that of the checkpoint that it was made of."""

    sha256: str
    checkpoint: str


@dataclass(frozen=True)
class CaffeWeights(Artefact):
    """OUT's caffemodels that a network's nets of these numbers of domains begin from (0: without mDA).

    They have no classifier. A note beside them has their hashes and that of the checkpoint that they were made of.
    """

    network: Network
    checkpoint: Path
    out: Path
    num_domains: Sequence[int]

    @property
    def paths(self) -> list[Path]:
        return [converted_file(self.out, number) for number in self.num_domains]

    def is_there(self, *, force: bool = False) -> bool:
        of, noted = contents_sha256(self.checkpoint), _noted(self.out)
        if all([file.name in noted and is_made_of(file, self.out, of, force=force) for file in self.paths]):
            return True
        for file in self._written:
            if file.is_file() and file.name not in noted and not force:
                remedy = "move it away, or pass --force of tools.get_weights"
                raise ProgramError(f"{file}: no note beside it says what it was made of: {remedy}")
        return False

    def make(self, *, force: bool = False) -> None:
        """Write them, over older ones, after comparing them with the checkpoint's own net."""
        numbers, options = [number for number in self.num_domains if number], ConverterOptions(force=True)
        conversion.convert(self.checkpoint, self.out, options, head=False, num_domains=numbers, network=self.network)
        of = contents_sha256(self.checkpoint)
        noted = _noted(self.out) | {file.name: _Noted(sha256(file), of) for file in self._written}
        with suppress(OSError):  # of a folder that is only read
            write_text(_note(self.out), json_text({name: asdict(one) for name, one in noted.items()}))

    @property
    def _written(self) -> list[Path]:
        """The caffemodel without mDA comes with the others."""
        return [converted_file(self.out, number) for number in dict.fromkeys((0, *self.num_domains))]


def is_made_of(file: Path, out: Path, checkpoint: str, *, force: bool = False) -> bool:
    """Whether ``file``, one of OUT's caffemodels, is there and, by its note, was made of the checkpoint of this hash.

    A file that was changed since is an error (ProgramError); with ``force`` the answer is no.
    """
    noted = _noted(out).get(file.name)
    if not file.is_file() or noted is None:
        return file.is_file()
    if noted.sha256 != (found := sha256(file)):
        if force:
            return False
        raise ProgramError(
            f"{file}: sha256 {found}, expected {noted.sha256} as when it was converted: remove it, or pass --force of "
            "tools.get_weights"
        )
    return noted.checkpoint == checkpoint


def _note(out: Path) -> Path:
    return out.with_name(f"{out.name}.converted.json")


def _noted(out: Path) -> dict[str, _Noted]:
    """What the note says of OUT's caffemodels, by their names."""
    note = _note(out)
    return checked(dict[str, _Noted], read_json(note), str(note)) if note.is_file() else {}
