"""What the table of primitives says about equations."""

from typing import Any

from jax2onnx import _core

_ROWS = {row.name: row for row in _core.primitives()}

# What is known of primitives that need more than a model has.
BEYOND_MODELS = _core.beyond_models()


def has_rule(name: str) -> bool:
    """Whether a primitive has a lowering rule of this project."""
    return name in _ROWS


def called_by(eqn: Any) -> Any:
    """The jaxpr that an equation does nothing but call; None if it does something else."""
    row = _ROWS.get(eqn.primitive.name)
    params = row.calls if row is not None else ()
    return next((eqn.params[param] for param in params if param in eqn.params), None)


def control(eqn: Any) -> str | None:
    """How an equation runs the jaxprs in its parameters, if not once each."""
    row = _ROWS.get(eqn.primitive.name)
    return row.control if row is not None else None


def fills(eqn: Any) -> bool:
    """Whether an equation takes hardly more than the memory for its results."""
    row = _ROWS.get(eqn.primitive.name)
    return row is not None and row.fills
