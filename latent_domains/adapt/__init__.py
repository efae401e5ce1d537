"""From folders of one's own images to a model, predictions and a report: ``python -m tools.adapt``."""
