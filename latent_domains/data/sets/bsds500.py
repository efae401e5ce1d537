"""The 500 photographs of the Berkeley segmentation data set, as patches for MNIST-M.

Source: Arbelaez, Maire, Fowlkes, Malik, "Contour Detection and Hierarchical Image Segmentation" (PAMI 2011). The
photographs lie in the archive's ``images/train``, ``val`` and ``test``; here all of them are one set.
"""

import shutil
import tarfile
import zlib
from pathlib import Path, PurePosixPath

import cv2
import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from latent_domains.common.files import build_folder_aside
from latent_domains.common.program import ProgramError
from latent_domains.data.published_file import check_hashes, download
from latent_domains.data.sets.urls import BSDS500_SUMS, BSDS500_URLS


def read_sums() -> dict[str, str]:
    """Return the pinned sha256 of each photograph by file name, sorted by name."""
    pairs = (line.split() for line in BSDS500_SUMS.read_text().splitlines())
    return dict(sorted((name, digest) for digest, name in pairs))


def load(downloads: Path, mirror: Path | None = None) -> list[NDArray[np.uint8]]:
    """Return the 500 photographs (H×W×3, BGR, uint8), sorted by file name.

    They are read from ``mirror``/bsds500 if it is given, else from ``downloads``/bsds500. If they are missing there,
    the archive is downloaded and unpacked.
    """
    folder, sums = (mirror or downloads) / "bsds500", read_sums()
    if mirror is None and not folder.exists():
        try:
            with build_folder_aside(folder) as aside:
                archive = aside / "BSR_bsds500.tgz"
                download(BSDS500_URLS, archive, lambda file: unpack(file, aside, sums))
                archive.unlink()
        except ProgramError:
            if not folder.exists():  # or another process has made it meanwhile
                raise
    photographs = []
    for name, digest in tqdm(sums.items(), desc="photographs", unit="photo"):
        file = folder / name
        if not file.is_file():
            raise ProgramError(f"{file}: not there, expected {len(sums)} photographs in {folder}")
        check_hashes(file, {"sha256": digest}, str(file))
        photographs.append(cv2.imread(str(file), cv2.IMREAD_COLOR))
    return photographs


def unpack(archive: Path, folder: Path, sums: dict[str, str]) -> None:
    """Copy the photographs named in ``sums`` out of a .tgz into ``folder``, each checked against its sha256.

    Only the last part of a member's path counts, so none can leave ``folder``. Refuses an archive in which a photograph
    is missing or differs.
    """
    missing = dict(sums)
    try:
        with tarfile.open(archive, "r:gz") as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                if member.isfile() and name in missing:
                    file = folder / name
                    with tar.extractfile(member) as stream, file.open("wb") as copy:
                        shutil.copyfileobj(stream, copy)
                    check_hashes(file, {"sha256": missing.pop(name)}, f"{archive.name}: {member.name}")
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        if getattr(error, "errno", None) is not None:  # the disk's fault
            raise
        raise ProgramError(f"{archive.name}: not a whole .tgz archive: {error}") from error
    if missing:
        raise ProgramError(
            f"{archive.name}: {len(missing)} of {len(sums)} photographs are not in it, {next(iter(missing))} among them"
        )
