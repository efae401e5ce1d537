"""Caffemodels of a checkpoint, converted once: a note beside them has their hashes and the checkpoint's."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

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


def convert_once(
    network: Network, checkpoint: Path, out: Path, num_domains: Sequence[int], *, force: bool = False
) -> None:
    """Make OUT's caffemodels that a network's nets of these numbers of domains begin from (0: without mDA).

    They have no classifier. Those that are there and made of this checkpoint stay. Others are written over, after a
    comparison with the checkpoint's own net. Raises ProgramError if one was changed since it was made and ``force``
    does not allow to replace it.
    """
    of, noted = contents_sha256(checkpoint), _noted(out)
    wanted = [converted_file(out, number) for number in num_domains]
    if all([file.name in noted and is_made_of(file, out, of, force=force) for file in wanted]):
        return
    files = [converted_file(out, number) for number in dict.fromkeys((0, *num_domains))]  # that without mDA comes too
    for file in files:
        if file.is_file() and file.name not in noted and not force:
            remedy = "move it away, or pass --force of tools.get_weights"
            raise ProgramError(f"{file}: no note beside it says what it was made of: {remedy}")
    numbers, options = [number for number in num_domains if number], ConverterOptions(force=True)
    conversion.convert(checkpoint, out, options, head=False, num_domains=numbers, network=network)
    ours = {file.name: _Noted(sha256(file), of) for file in files}
    with suppress(OSError):  # of a folder that is only read
        write_text(_note(out), json_text({name: asdict(one) for name, one in {**noted, **ours}.items()}))


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
