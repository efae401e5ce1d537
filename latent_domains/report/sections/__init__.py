"""The sections of a report: what is shown in each, what is said beside it, and what where something is missing."""
