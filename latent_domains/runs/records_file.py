"""The records of a table in one file: ``records.jsonl``, a line for each run, sorted by its name."""

import json
from collections.abc import Mapping
from pathlib import Path

from latent_domains.common.files import expect_file, read_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.runs.record import Record

FILE = "records.jsonl"


def read_records(file: Path) -> dict[str, Record]:
    """The records of a file by their runs' names. Raises ProgramError naming file and line if one is damaged."""
    expect_file(file, "records, a line of JSON each")
    try:
        lines = read_text(file).splitlines()
    except UnicodeDecodeError as error:
        raise ProgramError(f"{file}: {error}, expected records, a line of JSON each") from error
    records: dict[str, Record] = {}
    for number, line in enumerate(lines, 1):
        where = f"{file}: line {number}"
        try:
            entry = json.loads(line)
            name, record = entry["run"], entry["record"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ProgramError(f'{where}: found {line[:40]!r}, expected {{"run": NAME, "record": {{…}}}}') from error
        if not isinstance(name, str) or name in records:
            raise ProgramError(f"{where}: run: found {name!r}, expected a name that no other line has")
        records[name] = checked(Record, record, f"{where}: {name}")
    return records


def write_records(file: Path, records: Mapping[str, Record]) -> None:
    """Write records to a file, sorted by their runs' names."""
    lines = [json.dumps({"run": name, "record": records[name].to_json()}) for name in sorted(records)]
    write_text(file, "".join(f"{line}\n" for line in lines))
