"""What is changed or measured to learn something about the method: ``python -m tools.ablate_…``."""
