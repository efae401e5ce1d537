"""Reading YAML files strictly: an unknown key, a key given twice or a value of another type is one clear error."""

from collections.abc import Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from latent_domains.common.program import ProgramError


class _Loader(yaml.SafeLoader):
    """YAML's plain values alone; a key that is given twice is an error, where SafeLoader takes the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if not isinstance(key, Hashable):
                continue  # refused below
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"found the key {key!r} twice, expected it once", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Value:
    """A value of a YAML file and where it stands, for messages."""

    where: str
    found: Any

    def error(self, expected: str) -> ProgramError:
        """The error that names the place, what was found there and what was expected."""
        return ProgramError(f"{self.where}: found {self.found!r}, expected {expected}")

    def keys(self, required: tuple[str, ...], optional: tuple[str, ...] = ()) -> dict[str, "Value"]:
        """The values of a mapping by key. Raises ProgramError for a missing or an unknown key."""
        known = ", ".join((*required, *optional))
        if not isinstance(self.found, dict):
            raise self.error(f"keys and values ({known})")
        for key in self.found:
            if key not in required + optional:
                raise ProgramError(f"{self.where}: found the key {key!r}, expected some of {known}")
        for key in required:
            if key not in self.found:
                raise ProgramError(f"{self.where}: found no {key}, expected {', '.join(required)}")
        return {key: Value(f"{self.where}: {key}", value) for key, value in self.found.items()}

    def text(self) -> str:
        """A text that is not empty."""
        if not isinstance(self.found, str) or not self.found.strip():
            raise self.error("a text")
        return self.found

    def flag(self) -> bool:
        if not isinstance(self.found, bool):
            raise self.error("true or false")
        return self.found

    def items(self) -> list["Value"]:
        """The values of a list that is not empty."""
        if not isinstance(self.found, list) or not self.found:
            raise self.error("a list of at least one")
        return [Value(f"{self.where}[{number}]", item) for number, item in enumerate(self.found)]

    def percent(self) -> float:
        """A number from 0 to 100."""
        if type(self.found) not in (int, float) or not 0 <= self.found <= 100:
            raise self.error("a number from 0 to 100")
        return float(self.found)

    def natural(self) -> int:
        """A whole number of at least 0."""
        if type(self.found) is not int or self.found < 0:
            raise self.error("a whole number of at least 0")
        return self.found


def read_yaml(path: Path) -> Value:
    """The contents of a YAML file. Raises ProgramError naming file and line if it is not valid."""
    try:
        return Value(str(path), _Loader(path.read_text(encoding="utf-8")).get_single_data())
    except UnicodeDecodeError as error:
        raise ProgramError(f"{path}: not a text in UTF-8: {error}") from error
    except RecursionError as error:
        raise ProgramError(f"{path}: nested too deeply, expected a table's definition") from error
    except yaml.MarkedYAMLError as error:
        line = f", line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ProgramError(f"{path}{line}: not valid YAML: {error.problem}") from error
    except (yaml.YAMLError, ValueError) as error:  # a control character; a date that is none
        raise ProgramError(f"{path}: not valid YAML: {' '.join(str(error).split())}") from error
