"""Tables as data: the committed files against the paper's tables, and one clear message for every mistake."""

import json
import re
from dataclasses import fields, replace

import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.experiment.baselines import BASELINES
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import SETTINGS, make_experiment
from latent_domains.nets.training_files import make_nets_and_solver
from latent_domains.tables import definition
from latent_domains.tables.definition import EXPERIMENTS, BaselineRun, Table, load
from tests.latent_domains.tables.tables import small_table

NAMES = sorted(file.stem for file in EXPERIMENTS.glob("*.yaml"))

# Typed from the paper's LaTeX tables, row after row, independently of the YAML files; the last number of a row of
# several columns is the printed mean.
PAPER = {
    "digits": "57.1 / 59.8 / 81.7 / 81.9 / 82.5 / 82.2 / 82.7 / 82.4 / 84.2 / - / - / - / -",
    "pacs": "60.1 92.9 74.7 72.4 75.0 / 66.8 97.0 87.3 85.5 84.2 / 69.6 97.0 87.7 86.9 85.3 / 71.6 96.6 87.5 87.0 85.7",
    "pacs_160": "60.1 72.4 74.7 92.9 75.0 / 66.8 85.5 87.3 97.0 84.2 / 69.6 86.9 87.7 97.0 85.3 / "
    "71.6 87.0 87.5 96.6 85.7 / - / - / -",
    "office31": "89.1 94.6 49.1 77.6 / 92.9 95.2 60.1 82.7 / 94.3 93.8 62.5 83.5 / 94.6 93.7 62.6 83.6 / "
    "95.8 94.8 62.9 84.5",
    "office31_known": "94.6 93.7 62.6 83.6 / - / - / - / - / - / - / 95.8 94.8 62.9 84.5",
    "office31_fc7": "24.8 42.7 12.8 26.8 / 29.3 43.6 13.3 28.7 / - / 91.8 94.6 48.9 78.4 / - / 93.1 94.3 64.2 83.9 / "
    "51.3 36.1 35.8 41.1 / 64.5 68.6 41.8 58.3 / 73.2 81.3 41.1 65.2",
    "office_caltech_fc7": "41.7 35.8 41.0 39.5 / 31.7 34.4 38.9 35.0 / 39.6 34.0 34.6 36.1 / 38.7 35.8 42.8 39.1 / "
    "42.6 35.5 44.6 40.9 / - / 87.8 87.9 93.6 89.8 / - / 93.5 88.2 93.7 91.8",
    "office_caltech_surf": "41.7 35.8 41.0 39.5 / 31.7 34.4 38.9 35.0 / 39.6 34.0 34.6 36.1 / 38.7 35.8 42.8 39.1 / "
    "42.6 35.5 44.6 40.9" + 20 * " / -",
}

TARGETS = {
    "digits": [("usps",)],
    "pacs": [("sketch",), ("photo",), ("art_painting",), ("cartoon",)],
    "pacs_160": [("sketch",), ("cartoon",), ("art_painting",), ("photo",)],
    "office31": [("webcam",), ("dslr",), ("amazon",)],
    "office31_known": [("webcam",), ("dslr",), ("amazon",)],
    "office31_fc7": [("webcam",), ("dslr",), ("amazon",)],
    "office_caltech_fc7": [("webcam", "dslr"), ("amazon", "caltech"), ("amazon",)],
    "office_caltech_surf": [("webcam", "dslr"), ("amazon", "caltech"), ("amazon",)],
}


def paper_numbers(table) -> str:
    rows = []
    for row in table.rows:
        values = [cell.paper for cell in row.cells] + ([row.paper.mean] if len(row.cells) > 1 else [])
        rows.append("-" if values[0] is None else " ".join(f"{value:.1f}" for value in values))
    return " / ".join(rows)


@pytest.mark.parametrize("name", PAPER)
def test_load_the_papers_numbers(name):
    assert paper_numbers(load(EXPERIMENTS / f"{name}.yaml")) == PAPER[name]


@pytest.mark.parametrize("name", NAMES)
def test_load_tables_of_the_paper_are_those_with_numbers_of_it(name):
    table = load(EXPERIMENTS / f"{name}.yaml")
    assert (name in PAPER) == (table.source != "not in the paper")
    assert table.in_paper == (name in PAPER and name != "pacs_160")  # at another size than the paper's


@pytest.mark.parametrize("name", PAPER)
def test_load_every_setting_trains_on_all_other_domains_of_it_with_five_seeds(name):
    table = load(EXPERIMENTS / f"{name}.yaml")
    assert table.seeds == (0, 1, 2, 3, 4)
    assert [column.targets for column in table.columns] == TARGETS[name]
    for column in table.columns:
        domains = {*column.sources, *column.targets}
        assert len(domains) == len(column.sources) + len(column.targets)
        assert domains == set(make_experiment(table.data, "dial").data.domains)
    assert len({run.name for run in table.runs}) == len(table.runs), "two runs would share a folder"


@pytest.mark.parametrize("name", NAMES)
def test_load_every_experiment_has_nets(name):
    """Of the first seed: the others differ in the solver's seed alone."""
    table = load(EXPERIMENTS / f"{name}.yaml", seeds=(0,))
    for run in table.runs:
        if isinstance(run, BaselineRun):
            assert run.method in BASELINES and run.data == table.data
            continue
        known = {part: f"labels/{part}" for part in run.task.source_inputs} if run.reads_domain_labels else {}
        records = {part: f"records/{part}" for part in run.task.source_inputs} if run.recipe.equal_classes else {}
        nets, solver = make_nets_and_solver(
            run,
            "data",
            lambda net: f"run/{net}.prototxt",
            "run/model",
            domain_label_lmdbs=known,
            record_files=records,
            solver_mode="CPU",
        )
        assert "train" in nets and f"max_iter: {run.recipe.iterations}\n" in solver


def test_load_the_rows_are_the_papers_methods():
    rows = {row.name: row for row in load(EXPERIMENTS / "office31.yaml").rows}
    methods = {name: row.cells[0].candidates[0].runs[0].method.name for name, row in rows.items()}
    assert methods == {
        "AlexNet": "plain",
        "AlexNet + BN": "source_only",
        "DIAL": "dial",
        "mDA": "mda",
        "Multi-source DA": "multi_source",
    }
    ours = next(row for row in load(EXPERIMENTS / "office_caltech_fc7.yaml").rows if row.name == "mDA")
    runs = [cell.candidates[0].runs[0] for cell in ours.cells]
    assert [(run.k, run.k_target) for run in runs] == [(2, 2), (2, 2), (3, 1)]
    known = load(EXPERIMENTS / "office31_known.yaml")
    shares = [row.cells[0].candidates[0].runs[0].method.known_share for row in known.rows[:-1]]
    assert shares == [0.0, 0.05, 0.1, 0.25, 0.5, 0.75, 1.0]


SEVERAL_TARGETS = """
title: "Targets"
source: Table 9
dataset: office_caltech_fc7
seeds: [0]
columns:
  - {name: two, sources: [amazon, caltech], targets: [webcam, dslr]}
  - {name: one, sources: [amazon, caltech], targets: [webcam]}
rows:
  - {name: none, paper: &none {missing: none}, runs: {method: source_only}}
  - {name: ours, paper: *none, runs: {method: mda}, note: latent}
  - {name: random, paper: *none, runs: {method: random_w}}
  - {name: shallow, paper: *none, baseline: {method: gong2013}}
"""


def notes(table: Table) -> dict[str, str | None]:
    return {row.name: row.note for row in table.rows}


def test_definition_rows_that_know_other_numbers_of_target_domains_say_so(tmp_path):
    alike = {"none": None, "ours": "latent", "random": None, "shallow": None}
    assert notes(small_table(tmp_path, SEVERAL_TARGETS)) == alike
    one = "  - {name: one target, paper: *none, runs: {method: mda, k_target: 1}}\n"
    told = {**alike, "ours": "latent; k_target 2, 1", "random": "k_target 2, 1"}
    assert notes(small_table(tmp_path, SEVERAL_TARGETS + one)) == {**told, "one target": "k_target 1, 1"}
    dial = "  - {name: DIAL, paper: *none, runs: {method: dial}}\n"
    assert notes(small_table(tmp_path, SEVERAL_TARGETS + dial)) == {**told, "DIAL": "k_target 1, 1"}


def test_load_best_single_source_has_a_group_of_runs_for_each_source():
    table = load(EXPERIMENTS / "digits.yaml", seeds=(3, 7), iterations=50)
    cell = table.rows[1].cells[0]
    assert [candidate.sources for candidate in cell.candidates] == [("mnist",), ("mnistm",)]
    assert [run.seed for run in cell.candidates[0].runs] == [3, 7]
    assert {run.recipe.iterations for run in table.runs} == {50}
    assert table.runs[0].seed == 3 and table.runs[-1].seed == 7 and len(table.runs) == 30


# --- the page about them


def test_load_the_pages_example_is_a_table_and_the_page_has_every_key(tmp_path):
    section = (ROOT / "docs" / "extending.md").read_text().partition("\n## A table\n")[2].partition("\n## ")[0]
    (tmp_path / "table.yaml").write_text(section.partition("```yaml\n")[2].partition("```")[0])
    table = load(tmp_path / "table.yaml")
    assert len(table.runs) == 6 and table.runs[1].recipe.lambda_d == 1e-4
    kinds = (
        definition.Table,
        definition.Row,
        definition.BaselineVariant,
        definition.Paper,
        definition.Column,
    )
    keys = {field.name for kind in kinds for field in fields(kind) if field.init}
    assert {key for key in keys if not re.search(rf"`{key}[`:]", section)} == set()


# --- what is wrong with a file

GOOD = """
title: T
source: Table 1
dataset: digits
seeds: [0, 1]
columns:
  - {name: U, sources: [mnist, mnistm], targets: [usps]}
  - {name: Mm, sources: [mnist, usps], targets: [mnistm]}
rows:
  - name: ours
    paper: {values: [1, 2.5], mean: 1.75}
    runs: {method: mda, k: 3}
  - name: theirs
    paper: {values: [1, 2], mean: 1.5}
    cited: Somebody 2001
"""


def broken(tmp_path, old: str, new: str) -> str:
    """The message for GOOD with ``old`` replaced; it begins with the file's name."""
    assert old in GOOD
    file = tmp_path / "table.yaml"
    file.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ProgramError) as error:
        load(file)
    message = str(error.value)
    assert message.startswith(str(file)) and "\n" not in message
    return message.removeprefix(str(file))


@pytest.mark.parametrize("number", ["1e-4", "+1E-04", "1.e-4", "0.1e-3", "1.0e-4", "0.0001"])
def test_load_a_number_may_have_an_exponent(number, tmp_path):
    (tmp_path / "table.yaml").write_text(GOOD.replace("k: 3", f"lambda_d: {number}"))
    assert load(tmp_path / "table.yaml").rows[0].cells[0].candidates[0].runs[0].recipe.lambda_d == 1e-4


@pytest.mark.parametrize(
    ("old", "new", "where"),
    [
        ("title: T", "titel: T", "found the key 'titel'"),
        ("dataset: digits", "dataset: digit", "dataset"),
        ("[0, 1]", "[0, 0]", "seeds"),
        ("[0, 1]", "[]", "seeds"),
        ("name: Mm,", "name: U,", "columns"),
        ("name: theirs", "name: ours", "rows"),
        ("columns:", "reference: our\ncolumns:", "reference"),
        ("targets: [usps]", "targets: [ups]", "rows[0] (ours), column 'U': targets"),
        ("targets: [usps]", "target: [usps]", "columns[0] (U): found the key 'target'"),
        ("targets: [usps]", "targets: [usps], shares: [80, 30]", "rows[0] (ours), column 'U': shares"),
        ("method: mda, k: 3", "method: mDA", "rows[0] (ours): runs: method"),
        ("k: 3", "kk: 3", "rows[0] (ours): runs: found the key 'kk'"),
        ("k: 3", "seed: 3", "rows[0] (ours): runs: found the key 'seed'"),
        ("k: 3", "k: 0", "rows[0] (ours), column 'U': k"),
        ("k: 3", "k: 3, known_share: 0.5", "rows[0] (ours), column 'U': k"),
        ("runs: {method: mda, k: 3}", "note: x", "rows[0] (ours): found none of them"),
        ("cited: Some", "runs: {method: mda}\n    cited: Some", "rows[1] (theirs): found runs and cited"),
        ("runs: {method: mda, k: 3}", "baseline: {method: gong}", "rows[0] (ours): baseline: method"),
        ("runs: {method: mda, k: 3}", "baseline: {method: svm, variant: all}", "rows[0] (ours): baseline: variant"),
        ("runs: {method: mda, k: 3}", "baseline: {method: svm, k: 3}", "rows[0] (ours): baseline: k: svm"),
        ("runs: {method: mda, k: 3}", "baseline: {method: svm, classifier: svm}", "rows[0] (ours): baseline"),
        ("runs: {method: mda, k: 3}", "baseline: {method: 1nn, dimension: 9}", "rows[0] (ours): baseline: dimension"),
        ("runs: {method: mda, k: 3}", "baseline: {method: gfk, variant: matching}", "rows[0] (ours): baseline"),
        ("values: [1, 2.5]", "values: [1]", "rows[0] (ours): paper: values"),
        ("values: [1, 2.5]", "values: [1, 250]", "rows[0] (ours): paper: values[1]"),
        (", mean: 1.75", "", "rows[0] (ours): paper: mean"),
        ("values: [1, 2.5]", "missing: why", "rows[0] (ours): paper"),
        ("{values: [1, 2], mean: 1.5}", "{missing: why}", "rows[1] (theirs): paper"),
    ],
)
def test_load_a_mistake_is_named(old, new, where, tmp_path):
    assert broken(tmp_path, old, new).startswith(f": {where}")


@pytest.mark.parametrize("setting", ["undivided: false", "shares: [50, 50]"])
def test_load_a_row_says_nothing_else_of_a_mixture_than_its_column(setting, tmp_path):
    """The column's word counted, and the row's runs were not what it said."""
    text = GOOD.replace("targets: [usps]}", "targets: [usps], shares: [80, 20]}")
    (tmp_path / "table.yaml").write_text(text.replace("k: 3", "undivided: true"))
    assert load(tmp_path / "table.yaml").rows[0].cells[0].candidates[0].runs[0].task.shares == (80, 20)
    (tmp_path / "table.yaml").write_text(text.replace("k: 3", setting))
    with pytest.raises(ProgramError, match=rf"rows\[0\] \(ours\), column 'U': {setting[:6]}\w*: found .* in the row"):
        load(tmp_path / "table.yaml")
    single = text.replace("method: mda, k: 3", "method: dial, best_single_source: true, undivided: false")
    (tmp_path / "table.yaml").write_text(single)
    runs = [each.runs[0] for each in load(tmp_path / "table.yaml").rows[0].cells[0].candidates]
    assert all(not run.task.undivided for run in runs) and len(runs) == 2


def test_load_a_table_may_be_like_another_one(tmp_path):
    (tmp_path / "table.yaml").write_text(GOOD.replace("title: T", "title: T\nimage_size: 28"))
    (tmp_path / "seven.yaml").write_text("like: table\nseeds: [7]\nimage_size: null")
    table, seven = load(tmp_path / "table.yaml"), load(tmp_path / "seven.yaml")
    assert (seven.name, seven.title, seven.seeds) == ("seven", table.title, (7,))
    assert (seven.columns, seven.image_size) == (table.columns, None)
    assert seven.files == (tmp_path / "seven.yaml", tmp_path / "table.yaml")
    (tmp_path / "office31.yaml").write_text("like: office31\nseeds: [7]")
    assert load(tmp_path / "office31.yaml").rows == load(EXPERIMENTS / "office31.yaml", seeds=(7,)).rows


def test_load_the_description_of_ones_own_dataset_is_a_file_of_the_table(tmp_path):
    """So the workflow makes the table again, and says which records are of other images, where it is a new one."""
    (tmp_path / "mine.json").write_text(json.dumps(replace(DATASETS["digits"], name="mine").to_json()))
    (tmp_path / "table.yaml").write_text(GOOD.replace("dataset: digits", "dataset: mine.json"))
    assert load(tmp_path / "table.yaml").files == (tmp_path / "table.yaml", tmp_path / "mine.json")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("table", "found 'table', expected the name of another table"),
        ("nothing", "found 'nothing', expected the name of another table"),
        ("office31_known", "found 'office31_known', expected a table that is like no other"),
        ("7", "found 7, expected a valid string"),
    ],
)
def test_load_a_table_that_another_cannot_be_like(name, expected, tmp_path):
    file = tmp_path / "table.yaml"
    file.write_text(f"like: {name}\ntitle: T")
    with pytest.raises(ProgramError, match=re.escape(f"{file}: like: {expected}")):
        load(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("k: 3", "k: 3, k: 4"),
        ("title: T", "title: !!python/object/apply:os.getcwd []"),
        ("title: T", "? {a: b}\n: c\ntitle: T"),
    ],
)
def test_load_yaml_that_is_not_strict_is_refused_with_its_line(old, new, tmp_path):
    assert re.match(r", line \d+: not valid YAML: ", broken(tmp_path, old, new))


@pytest.mark.parametrize(
    "name", sorted({*SETTINGS} - {"sources", "targets", "network", "image_size", "seed", "method"})
)
def test_load_a_row_takes_every_setting_that_is_not_the_tables_or_the_columns(name, tmp_path):
    default = make_experiment("digits", "mda")
    value = json.dumps(default.settings[name])
    (tmp_path / "table.yaml").write_text(GOOD.replace("k: 3", f"{name}: {value}"))
    assert load(tmp_path / "table.yaml").rows[0].cells[0].candidates[0].runs[0] == default
    assert f": rows[0] (ours): runs: {name}: found None" in broken(tmp_path, "k: 3", f"{name}: null")


@pytest.mark.parametrize(
    ("written", "message"),
    [
        (None, "{file}: no such file, expected the description of a dataset"),
        ('{"name": "mine"}', "{file}: dataset: found no "),
        (json.dumps(DATASETS["digits"].to_json()), "{file}: found the name 'digits', which is one of ours"),
    ],
)
def test_load_a_file_that_describes_no_dataset_of_ones_own_is_named(written, message, tmp_path):
    file = tmp_path / "mine.json"
    if written is not None:
        file.write_text(written)
    assert ": dataset: " + message.format(file=file) in broken(tmp_path, "dataset: digits", "dataset: mine.json")


SHARED = GOOD.replace("runs: {method: mda, k: 3}", "baseline: {method: svm}")


@pytest.mark.parametrize(
    ("text", "targets", "said"),
    [
        (GOOD, "usps", "usps without labels"),
        (GOOD, "usps, mnistm", None),  # the accuracy is that of mnistm
        (SHARED, "usps, mnistm", "usps without labels"),
    ],
)
def test_load_a_column_whose_accuracy_nobody_could_measure_is_an_error(text, targets, said, tmp_path):
    """Else the runs would be trained first, and their records be of no use."""
    data = replace(DATASETS["digits"], name="mine", unlabelled=("usps",))
    (tmp_path / "mine.json").write_text(json.dumps(data.to_json()))
    text = text.replace("dataset: digits", "dataset: mine.json").replace("[mnist, usps]", "[mnist]")
    text = text.replace("sources: [mnist, mnistm], targets: [usps]", f"sources: [mnist], targets: [{targets}]")
    (tmp_path / "table.yaml").write_text(text)
    if said is None:
        assert load(tmp_path / "table.yaml").runs
        return
    with pytest.raises(ProgramError, match=re.escape(f"rows[0] (ours), column 'U': targets: {said}, expected labels")):
        load(tmp_path / "table.yaml")


OF_FEATURES = SEVERAL_TARGETS.replace("\nseeds:", "\ndata_per_seed: true\nseeds:")
BILLION_LAUGHS = "a: &a [x]\n" + "".join(
    f"{name}: &{name} [{', '.join(10 * [f'*{before}'])}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (OF_FEATURES, ": data_per_seed: found true, expected false: features are"),
        (SHARED.replace("[usps]", "[usps], shares: [80, 20]"), ".*column 'U': shares: no baseline takes them"),
        *((text, "") for text in ("", "5", "[]", "a: b: c", "null")),
        ("title: \udcff", ": not valid YAML: "),
        (BILLION_LAUGHS, ": not valid YAML: it has more than 1,000,000 characters, aliases written out"),
    ],
)
def test_load_a_file_that_is_no_table_or_one_that_cannot_be(text, message, tmp_path):
    (tmp_path / "table.yaml").write_text(text, errors="surrogateescape")
    with pytest.raises(ProgramError, match=rf"table\.yaml{message}"):
        load(tmp_path / "table.yaml")


def test_load_a_file_that_is_not_there(tmp_path):
    (tmp_path / "table.yaml").touch()
    with pytest.raises(ProgramError, match=re.escape("other.yaml: no such file, expected one of table")):
        load(tmp_path / "other.yaml")
