"""What the model layer refuses."""


class ModelRefused(Exception):
    """This model cannot be served, or not exactly; the message names it, the reason and what to do."""
