"""Read YAML 1.2 files strictly: a key that is there twice is an error that names the line."""

import json
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML, YAMLError

from latent_domains.common.files import read_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import one_line

_LONGEST = 10**6
"""The most characters of a table as JSON: aliases of aliases make gigabytes of a few lines."""


def read_yaml(path: Path) -> Any:
    """The values in a YAML file, as JSON has them: a date is a text. Raises ProgramError naming file and line."""
    try:
        values = YAML(typ="safe", pure=True).load(read_text(path, "utf-8"))
        text = ""
        for part in json.JSONEncoder(default=str).iterencode(values):
            text += part
            if len(text) > _LONGEST:
                raise ValueError(f"it has more than {_LONGEST:,} characters, aliases written out")
        return json.loads(text)
    except (YAMLError, ValueError, TypeError, RecursionError) as error:  # no UTF-8, no date, no key of JSON's
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ProgramError(f"{path}{line}: not valid YAML: {one_line(problem)}") from error
