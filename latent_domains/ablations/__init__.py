"""What is changed or measured to learn something about the method: studies, none of which a run needs."""
