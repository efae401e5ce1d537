"""Read YAML files strictly: duplicate keys and keys that are no text are errors that name the line."""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import one_line


class _Loader(yaml.SafeLoader):
    """SafeLoader, but duplicate keys are errors."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[str, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, str) or key in seen:
                expected = " twice, expected it once" if isinstance(key, str) else ", expected a text"
                said = f"found the key {key!r}{expected}"
                raise yaml.constructor.ConstructorError(None, None, said, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


# YAML 1.1, which PyYAML reads, takes 1e-4 for a text: it wants a point before an exponent, and the sign in it.
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$"), list("-+0123456789")
)


def read_yaml(path: Path) -> Any:
    """The values in a YAML file, as JSON has them: a date is a text. Raises ProgramError naming file and line."""
    try:
        values = _Loader(path.read_text(encoding="utf-8")).get_single_data()
        return json.loads(json.dumps(values, default=str))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, or a date that is none
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or error
        raise ProgramError(f"{path}{line}: not valid YAML: {one_line(problem)}") from error
