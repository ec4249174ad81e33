"""Properties of equations, from the table of primitives."""

from typing import Any

from jax2onnx import _core

_ROWS = {row.name: row for row in _core.primitives()}

# The primitives that need more than a model has, such as devices or Python, with their
# requirements.
BEYOND_MODELS = _core.beyond_models()


def has_rule(name: str) -> bool:
    """Returns `True` if a primitive has a lowering rule of this project."""
    return name in _ROWS


def called_by(eqn: Any) -> Any:
    """Returns the jaxpr of an equation that is a plain call, or None."""
    row = _ROWS.get(eqn.primitive.name)
    params = row.calls if row is not None else ()
    return next((eqn.params[param] for param in params if param in eqn.params), None)


def control(eqn: Any) -> str | None:
    row = _ROWS.get(eqn.primitive.name)
    return row.control if row is not None else None


def fills(eqn: Any) -> bool:
    """Returns `True` if an equation only fills its results."""
    row = _ROWS.get(eqn.primitive.name)
    return row is not None and row.fills
