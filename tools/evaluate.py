"""Evaluate a trained run at its last iteration, never at its best, and write RUN/record.json.

The record contains the experiment, versions, hardware and times, the accuracy and the confusion counts on the target's
test images, and the last values of the loss terms. If a branch predicts domains, it also compares them with the true
ones, for each snapshot, on held-out source images if there are any. You may make the record of a finished run again at
any time.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.evaluate")

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import json_text, write_text
from latent_domains.runs.devices import add_mode_option
from latent_domains.runs.evaluate import domains_summary, evaluate, summary
from latent_domains.runs.run_folder import RunFolder


def main() -> None:
    parser = program_parser("tools.evaluate", __doc__)
    parser.add_argument("run", type=Path, metavar="RUN", help="run folder, trained to its last iteration")
    add_mode_option(parser)
    options = parser.parse_args()
    folder = RunFolder.load(options.run.resolve())
    record = evaluate(folder, solver_mode=options.solver_mode)
    write_text(folder.record_file, json_text(record.to_json()))
    print(f"{options.run}: {summary(folder, record)}")
    for domains in domains_summary(folder, record):
        print(f"{options.run}: {domains}")
