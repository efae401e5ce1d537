"""One experiment as data: dataset, sources, targets, method, settings."""
