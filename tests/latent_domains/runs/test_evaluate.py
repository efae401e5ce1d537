"""The accuracy of a trained run, beside that of the real caffe binary."""

import os
import re
import shutil
import subprocess

import numpy as np
import pytest

from latent_domains.common.program import ROOT, ProgramError
from latent_domains.data.lmdb_io import read_labels
from latent_domains.runs.evaluate import domains_summary, evaluate
from latent_domains.runs.record import DomainUsage
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.programs import program
from tests.run_folders import edit, small, spoil
from tests.training import train_here


@pytest.mark.program
def test_evaluate_accuracy_of_the_record_is_that_of_caffe_test(trained):
    model = trained.latest_snapshot().model
    _, batches = trained.test_batches()["usps"]
    command = ["caffe", "test", "-model", trained.net("test"), "-weights", model, "-iterations", str(batches)]
    log = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=True, env={**os.environ, "GLOG_minloglevel": "0"}
    ).stderr
    shown = float(re.findall(r"\] accuracy = (\S+)", log)[-1])
    record = trained.read_record()
    assert record.accuracy == pytest.approx(shown, abs=1e-5)
    labels = read_labels(trained.test_lmdbs["usps"])
    assert np.sum(record.targets["usps"].confusion, axis=1).tolist() == np.bincount(labels, minlength=10).tolist()


@pytest.mark.program
def test_evaluate_the_test_images_are_those_that_the_record_names(trained, tmp_path):
    """Whatever the test net says, which was trained with."""
    folder = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    edit(folder.net("test"), "usps_test", "mnist_test")
    assert evaluate(folder).targets == trained.read_record().targets


@pytest.mark.program
def test_evaluate_a_record_names_the_images_that_the_net_was_trained_on(trained, tmp_path):
    """``caffe train`` takes other LMDBs than those of experiment.json, which the record repeats."""
    folder = RunFolder.load(shutil.copytree(trained.path, tmp_path / "run"))
    edit(folder.net("train"), "mnistm_train", "mnist_train")
    with pytest.raises(ProgramError, match=r"train\.prototxt: layer data_mnistm reads .*mnist_train, expected"):
        evaluate(folder)


@pytest.mark.program
def test_evaluate_what_became_of_the_domains_is_told_in_a_line(trained):
    usage = trained.read_record().domain_usage
    done = program("evaluate", trained.path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[1] == (
        f"{trained.path}: latent domains of 60 held-out source images: largest share {100 * max(usage.share):.1f} %; "
        f"purity {usage.purity:.3f} (of one domain: 0.500), NMI {usage.nmi:.3f} with the true domains; "
        f"NMI {usage.nmi_classes:.3f} with the classes"
    )


@pytest.mark.program
def test_domains_summary_a_source_of_unknown_domains_has_no_purity(trained):
    usage = DomainUsage(sources=["a+b"], images=1200, counts=[[900, 300]], share=[0.75, 0.25], purity=1.0, nmi=0.0)
    record = trained.read_record()
    told = domains_summary(trained, record.model_copy(update={"domain_usage": usage}))
    assert told == ["latent domains of 1,200 training images of the sources: largest share 75.0 %"]
    assert domains_summary(trained, record.model_copy(update={"domain_usage": None})) == []
    _, told = domains_summary(trained, record.model_copy(update={"target_domain_usage": record.domain_usage}))
    assert told.startswith("latent domains of 60 images of the targets: largest share ")


@pytest.mark.program
def test_evaluate_a_run_that_diverged_has_no_record(tiny_data, tmp_path):
    """Its target may have no labels, so that no score shows it."""
    folder = write_run(small("source_only"), tmp_path / "run", data=tiny_data)
    train_here(folder)
    folder.record_file.unlink()
    spoil(folder.final_snapshot().model, "conv2")
    with pytest.raises(
        ProgramError, match=r"caffemodel: layer conv2 holds values that are not finite: the training di"
    ):
        evaluate(folder)
    assert not folder.record_file.exists()
