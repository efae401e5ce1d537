"""From folders of the user's own images to a model, predictions and a report: ``python -m tools.adapt``."""
