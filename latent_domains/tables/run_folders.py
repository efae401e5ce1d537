"""Where those of a table's runs lie that are there."""

from pathlib import Path

from latent_domains.common.program import ProgramError
from latent_domains.tables.definition import Table, place


def runs_of(table: Table, folder: Path) -> list[Path]:
    """Folders of those of the table's runs that are there. Raises ProgramError if none is."""
    places = [folder / place(one) for one in table.runs]
    found = [one for one in places if (one / "experiment.json").is_file() or (one / "record.json").is_file()]
    if not found:
        raise ProgramError(
            f"{folder / table.dataset}: none of the {len(places)} runs of {table.name} is there, expected some: train "
            f"them (snakemake tables/{table.name}) or name records"
        )
    return found
