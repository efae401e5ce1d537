"""Pages whose numbers come from kept records: what stands between two comments is written by ``make pages``.

A figure in a sentence names a row, a column if it is not the mean of all, and a template of ``tables/figures.py``:

    on Sketch <!-- from results/pacs: DIAL; Sketch; {accuracy} -->64.9<!-- end --> %

With the column ``*`` it is each column's, "a, b, c and d". A row with ``*`` or ``?`` stands for all rows of such names,
and the figure goes from the least to the most of them; "ROW less ROW" is a row with the one that ``{less}`` is from.

A table's marker stands alone on a line. Heading and first cells are yours; the other cells are filled:

    <!-- from results/pacs: {accuracy} ({class mean}); {accuracy}; {less DIAL over targets} -->
    | seed 0 | Sketch | Photo | mean | less DIAL |
    | --- | --- | --- | --- | --- |
    | mDA | … | … | … | … |
    <!-- end -->

The first cell names a row; a comment in it, ``| ours <!-- mDA --> |``, names one that readers shall see otherwise. The
headings that are the table's columns share a template, each other heading has its own, which is on the mean. If the
marker names a row before its templates, the first cells are columns; if it names a column, all cells are of it.

``results/NAME`` and ``results/archive/NAME`` have the table experiments/NAME.yaml; ``results/NAME of OTHER`` has that
of OTHER, and ``results/NAME, seeds 4 to 9`` is of these alone. What is not run is –, what a row does not have is blank.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.tables.figures import MEAN, PAPER, RESULTS, Kept, Place
from latent_domains.tables.results import NOTHING

_MARKER = re.compile(r"<!--\s*from\s+results/([^:>]*):(.*?)-->(.*?)<!--\s*end\s*-->", re.DOTALL)
_BEGIN = re.compile(r"<!--\s*from\s+results/")
_TABLE = re.compile(r"([\w/-]+)(?: of (\w+))?(?:, seeds (\d+) to (\d+))?")
_LINE_START = re.compile(r"\s*((>|[*+-]|\d+\.)\s+)*")
_COMMENT = re.compile(r"<!--\s*(.*?)\s*-->")


def pages() -> list[Path]:
    """List the pages of docs/ and those of results/."""
    return [*sorted((ROOT / "docs").glob("*.md")), *sorted(RESULTS.rglob("*.md"))]


def kept_table(name: str) -> Kept:
    """Load the table that a marker names: NAME, NAME of TABLE, or NAME, seeds N to N."""
    if not (found := _TABLE.fullmatch(name)):
        raise ProgramError(f"found 'from results/{name}', expected NAME, NAME of TABLE, or NAME, seeds N to N")
    folder, definition, first, last = found.groups()
    seeds = tuple(range(int(first), int(last) + 1)) if first else None
    return Kept.load(RESULTS / folder, seeds, definition)


def filled(page: Path, load: Callable[[str], Kept] = kept_table) -> str:
    """Return the text of a page with the figures of the records, of tables that ``load`` finds by a marker's name.

    Raises ProgramError naming page and line for a marker that cannot be read or filled.
    """
    text = page.read_text(encoding="utf-8")
    begun, marked = len(_BEGIN.findall(text)), len(_MARKER.findall(text))
    if begun != marked:
        raise ProgramError(f"{page}: found {begun} markers 'from results/', {marked} of them with ':' and 'end'")

    def marker(match: re.Match[str]) -> str:
        name, arguments, body = match.groups()
        before = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        try:
            body = _body(before, load(" ".join(name.split())), arguments, body)
        except ProgramError as error:
            line = text.count("\n", 0, match.start()) + 1
            raise ProgramError(f"{page}, line {line}: {error}") from error
        return text[match.start() : match.start(3)] + body + text[match.end(3) : match.end()]

    return _MARKER.sub(marker, text)


def figure(marker: str, load: Callable[[str], Kept] = kept_table) -> str:
    """Return what stands after a marker in a sentence: of "pacs: mDA; Sketch; {accuracy}", say."""
    name, _, arguments = marker.partition(":")
    return _sentence(load(name), *_names_and_templates(arguments))


def _body(before: str, kept: Kept, arguments: str, body: str) -> str:
    """Write what stands between a marker and its end; ``before`` is what its line begins with."""
    names, templates = _names_and_templates(arguments)
    if body.lstrip(" ").startswith("\n"):
        return _table(kept, names, templates, body)
    if _LINE_START.fullmatch(before):
        raise ProgramError("found it at the beginning of a line, where GitHub takes the line for HTML: move a word")
    text = _sentence(kept, names, templates)
    return body if body.split() == text.split() else text


def _names_and_templates(arguments: str) -> tuple[list[str], list[str]]:
    parts = [" ".join(part.split()) for part in arguments.split(";")]
    names = [part for part in parts if "{" not in part]
    templates = parts[len(names) :]
    if not templates or names != parts[: len(names)]:
        raise ProgramError(f"found {'; '.join(parts)!r}, expected names, then templates with {{…}}")
    return names, templates


def _sentence(kept: Kept, names: Sequence[str], templates: Sequence[str]) -> str:
    """Write a figure, or those of several rows or columns."""
    if len(templates) > 1 or not 1 <= len(names) <= 2:
        raise ProgramError(f"found {len(names)} names and {len(templates)} templates, expected ROW; COLUMN; {{…}}")
    row, column = names[0], names[1] if len(names) > 1 else MEAN
    rows = [each for each in kept.rows if fnmatchcase(each, row)] if set(row) & set("*?") else [row]
    places = [_place(kept, each, other) for each in rows for other in (kept.columns if column == "*" else [column])]
    texts = [place.text(templates[0]) for place in places]
    if not texts or None in texts:
        raise ProgramError(f"{row}; {column}: found no records that say {templates[0]}")
    if len(rows) > 1:
        return _least_to_most(texts)
    return " and ".join(filter(None, [", ".join(texts[:-1]), texts[-1]]))


def _least_to_most(texts: Sequence[str]) -> str:
    try:
        least, *_, most = sorted(texts, key=lambda text: float(text.replace("−", "-")))
    except ValueError as error:
        raise ProgramError(f"found {texts[0]!r} of several rows, expected a number of each") from error
    return f"{least} to {most}"


def _place(kept: Kept, row: str, column: str) -> Place:
    """The place of a row, or of "ROW less ROW", in a column or on the mean."""
    first, less, other = row.partition(" less ")
    if column not in (*kept.columns, MEAN):
        raise ProgramError(f"{kept.table.name}: found column {column!r}, expected {', '.join(kept.columns)} or {MEAN}")
    number = kept.columns.index(column) if column in kept.columns else None
    return Place(kept, kept.row(first), number, kept.row(other) if less else None)


def _table(kept: Kept, names: Sequence[str], templates: Sequence[str], body: str) -> str:
    """Fill the lines of a table below its heading."""
    lines = body.split("\n")
    numbers = [number for number, line in enumerate(lines) if line.lstrip().startswith("|")]
    if len(numbers) < 3 or len(names) > 1:
        raise ProgramError("expected a table with a heading below it, and at most one name before the templates")
    headings = _cells(lines[numbers[0]])[1:]
    given = names[0] if names else None
    columns = kept.columns if given is None else []
    of_headings = list(_of_headings(headings, templates, columns))
    for number in numbers[2:]:
        first = _cells(lines[number])[0]
        alias = _COMMENT.search(first)
        name = alias[1] if alias else first
        cells = [first]
        for heading, template in zip(headings, of_headings, strict=True):
            if given is None:
                place = _place(kept, name, heading if heading in columns else MEAN)
            else:
                place = _place(kept, name, given) if given in kept.columns else _place(kept, given, name)
            cells.append(_cell(place, template))
        indent = lines[number].partition("|")[0]
        lines[number] = f"{indent}| {' | '.join(cells)} |"
    return "\n".join(lines)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _of_headings(headings: Sequence[str], templates: Sequence[str], columns: Sequence[str]) -> Iterator[str]:
    """Give each heading its template: those that are columns share one."""
    shared = [heading for heading in headings if heading in columns]
    expected = len(headings) - len(shared) + bool(shared)
    if len(templates) != expected:
        raise ProgramError(f"found {len(templates)} templates, expected {expected}: {'; '.join(headings)}")
    remaining, of_columns = iter(templates), None
    for heading in headings:
        if heading in columns:
            of_columns = of_columns or next(remaining)
            yield of_columns
        else:
            yield next(remaining)


def _cell(place: Place, template: str) -> str:
    text = place.text(template)
    if text is None and (template == f"{{{PAPER}}}" or not place.result.n):
        return NOTHING
    return text or ""
