"""What is told of the latent domains."""

import numpy as np
import pytest
from matplotlib.figure import Figure

from latent_domains.experiment.experiment import make_experiment
from latent_domains.report import domains
from latent_domains.report.comparison import group_runs
from latent_domains.report.page import TableBlock, Text
from latent_domains.report.runs import load_runs
from latent_domains.runs.record import DomainUsage
from tests.latent_domains.report.records import write_record


def usage(counts, iteration=0):
    counts = np.array(counts)
    share = (counts.sum(axis=0) / counts.sum()).tolist()
    return DomainUsage(
        sources=["a", "b"],
        images=int(counts.sum()),
        counts=counts.tolist(),
        share=share,
        purity=0.5,
        nmi=0.0 if max(share) > 0.9 else 0.8,
        iteration=iteration,
    )


def test_describe_usage_a_collapsed_branch_is_told():
    collapsed = usage([[10, 0], [10, 0]], iteration=90)
    history = [usage([[5, 5], [7, 3]]), collapsed]
    told = domains.describe_usage(collapsed, history)
    assert "100.0 % went to s₁, 0.0 % went to s₂" in told
    assert "The domains collapsed" in told and "the initialisation put 60 % of them into one domain" in told
    drawn, axes = domains.history_chart(history), Figure().subplots()
    assert drawn.alt.endswith(" from iteration 0 to 90: s₁ from 60 to 100 %, s₂ from 40 to 0 %.")
    drawn.draw(axes)
    assert [(area.get_label(), area.get_datalim(axes.transData).y0) for area in axes.collections] == [
        ("s₁", pytest.approx(0)),
        ("s₂", pytest.approx(60)),
    ]
    found = domains.describe_usage(usage([[10, 0], [0, 10]]), [])
    assert "collapsed" not in found and "largely are the true ones" in found and "initialisation" not in found
    mostly = domains.describe_usage(usage([[9, 1], [0, 10]]).model_copy(update={"nmi": 0.66}), [])
    assert "something of the true ones" in mostly
    unlike = usage([[5, 5], [5, 5]]).model_copy(update={"nmi": 0.0})
    assert "branch" not in domains.describe_usage(unlike, [])  # clusters of style have none


def test_matrix_chart_matrices_hold_their_numbers():
    drawn = domains.matrix_chart(usage([[30, 10], [0, 0]]))
    axes = Figure().subplots()
    drawn.draw(axes)
    found = {text.get_position(): text.get_text() for text in axes.texts}  # column, row
    assert found == {(0, 0): "75.0 %", (1, 0): "25.0 %", (0, 1): "0.0 %", (1, 1): "0.0 %"}
    assert "a: 75.0 % in s₁, 25.0 % in s₂" in drawn.alt


def test_shares_chart_long_names_leave_room_for_the_cells():
    name = 3 * "05501_Plantae_Tracheophyta_"
    drawn = domains.shares_chart("Classes", np.array([[3, 1]]), [name], "{0:.0f} %", height=100)
    axes = Figure().subplots()
    drawn.draw(axes)
    assert [label.get_text() for label in axes.get_yticklabels()] == ["05501_Plantae…"]
    assert drawn.alt == f"{name}: 75.0 % in s₁, 25.0 % in s₂"


def test_matrix_chart_matrices_of_many_latent_domains_can_be_read():
    told = {}
    for k in (4, 8, 40):
        axes = Figure().subplots()
        domains.matrix_chart(usage([[30] * k, [0] * (k - 1) + [10]])).draw(axes)
        names = [label.get_text() for label in axes.get_xticklabels()]
        told[k] = {text.get_text() for text in axes.texts}, [name for name in names if name]
    assert told[4] == ({"25.0 %", "0.0 %", "100.0 %"}, ["s₁", "s₂", "s₃", "s₄"])
    assert told[8][0] == {"12", "0", "100"} and len(told[8][1]) == 8
    assert told[40][0] == set() and told[40][1][:2] == ["s₁", "s₄"]


def test_discovery_section_of_one_source_there_is_no_nmi(tmp_path):
    for sources, nmi in ((("mnist",), "–"), (("mnist", "mnistm"), "0.00")):
        experiments = [make_experiment("digits", "mda", sources=sources, k=2, seed=seed) for seed in (0, 1)]
        files = [write_record(tmp_path / f"{len(sources)}{run.seed}.json", run, 0.5) for run in experiments]
        section = domains.discovery_section(group_runs(load_runs(files)[0]), [])
        (table,) = (block for block in section.blocks if isinstance(block, TableBlock))
        assert [row[2:] for row in table.rows] == [[nmi, "100.0, 0.0"]] * 2


def test_discovery_section_names_runs_whose_branch_saw_domains(tmp_path):
    experiments = [make_experiment("digits", "mda", k=2, known_share=share) for share in (0, 0.25)]
    files = [write_record(tmp_path / f"{run.name}.json", run, 0.5) for run in experiments]
    section = domains.discovery_section(group_runs(load_runs(files)[0]), [])
    (named,) = (block.text for block in section.blocks if isinstance(block, Text) and "branch saw" in block.text)
    assert named == f"{files[1].stem}: in training the branch saw the domain of about 25 % of these images."
