"""Finds layers that a function runs in training mode: they draw random numbers or normalise by the
batch.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from jax2onnx import _frameworks, _jax
from jax2onnx._tracing.user_frames import location, user_frame
from jax2onnx.errors import InvalidInputError

# The treatment of layers in training mode.
Training = Literal["warn", "error", "allow"]
TRAINING = ("warn", "error", "allow")

# Primitives that turn a key into random numbers.
_DRAWS = ("random_bits", "threefry2x32", "rng_bit_generator")
# Layers of frameworks compute statistics of the batch with this primitive, in training mode only.
_SUM = "reduce_sum"

_BATCH_NORM = re.compile(r"batch_?norm", re.IGNORECASE)
_DROPOUT = re.compile(r"dropout", re.IGNORECASE)

# Advice for random numbers outside the layers of a framework.
_KEY_AS_INPUT = "make the random key an input of the function"

# The dependence of a value: on inputs, and on arrays that the function holds.
_INPUT, _HELD = 1, 2


@dataclass(frozen=True)
class TrainingLayer:
    """A call in training mode.

    Attributes:
        does: The effect of training mode.
        module: The path of the module, or an empty string.
        place: `file:line in function`, or an empty string.
        help: Advice on switching to inference.
    """

    does: str
    module: str
    place: str
    help: str

    def __str__(self) -> str:
        """Returns a line that names the module and the line."""
        where = f"`{self.module}` " if self.module else ""
        return f"{where}{self.does}" + (f"\n    --> {self.place}" if self.place else "")


def training_layers(closed: Any) -> list[TrainingLayer]:
    """Returns the layers that run in training mode, each line and module once.

    A function that makes its own key from a number chooses that number, so its draws do not count
    unless a dropout layer makes them. Nor do draws from keys that are inputs.
    """
    known: dict[int, tuple[bool, bool]] = {}
    draws, sums = _kinds(closed.jaxpr, known)
    found: list[TrainingLayer] = []
    if sums:
        found += _batch_norms(closed.jaxpr, (), known)
    if draws:
        held = [_HELD if _jax.is_key(_jax.unwrapped(const)) else 0 for const in closed.consts]
        values = dict(zip(closed.jaxpr.constvars, held, strict=True))
        values |= dict.fromkeys(closed.jaxpr.invars, _INPUT)
        draw = _Draws()
        draw.visit(closed.jaxpr, values, ())
        found += draw.found
    return list(dict.fromkeys(found))


def training_error(layers: Sequence[TrainingLayer]) -> InvalidInputError:
    """Returns the error for layers in training mode, which may also be a warning."""
    lines = [f"  {line}" for layer in layers for line in str(layer).splitlines()]
    advice = list(dict.fromkeys(layer.help for layer in layers))
    return InvalidInputError(
        "training-mode",
        "the function runs layers in training mode",
        "\n".join(lines),
        help="; ".join([*advice, 'if this is intended, pass training="allow"']),
    )


def _kinds(jaxpr: Any, known: dict[int, tuple[bool, bool]]) -> tuple[bool, bool]:
    """Returns `True` for draws and for sums of batch norms if there are any in a jaxpr."""
    if id(jaxpr) not in known:
        known[id(jaxpr)] = (False, False)
        draws = sums = False
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            draws |= name in _DRAWS
            sums |= name == _SUM
            for inner in _jax.bodies_of(eqn):
                more = _kinds(_jax.open_jaxpr(inner), known)
                draws, sums = draws | more[0], sums | more[1]
        known[id(jaxpr)] = (draws, sums)
    return known[id(jaxpr)]


def _batch_norms(
    jaxpr: Any, callers: tuple[Any, ...], known: dict[int, tuple[bool, bool]]
) -> Iterator[TrainingLayer]:
    for eqn in jaxpr.eqns:
        if eqn.primitive.name == _SUM:
            if layer := _layer((eqn, *callers), _BATCH_NORM):
                yield _described((eqn, *callers), "normalises by the batch", layer)
            continue
        for inner in _jax.bodies_of(eqn):
            body = _jax.open_jaxpr(inner)
            if known[id(body)][1]:
                yield from _batch_norms(body, (eqn, *callers), known)


class _Draws:
    """Finds draws of random numbers that are the same in each run of the model."""

    def __init__(self) -> None:
        self.found: list[TrainingLayer] = []

    def visit(self, jaxpr: Any, values: dict[Any, int], callers: tuple[Any, ...]) -> list[int]:
        """Visits the equations of a jaxpr. Returns the dependence of its results."""

        def of(atom: Any) -> int:
            return 0 if _jax.is_literal(atom) else values.get(atom, 0)

        for eqn in jaxpr.eqns:
            operands = [of(atom) for atom in eqn.invars]
            every = 0
            for operand in operands:
                every |= operand
            if eqn.primitive.name in _DRAWS:
                self._note((eqn, *callers), every)
            results = [every] * len(eqn.outvars)
            for inner in _jax.bodies_of(eqn):
                body = _jax.open_jaxpr(inner)
                given = _operands(eqn, inner, operands, every)
                consts = [_HELD if _jax.is_key(c) else 0 for c in getattr(inner, "consts", ())]
                inside = dict(zip(body.constvars, consts, strict=False))
                inside |= dict(zip(body.invars, given, strict=True))
                out = self.visit(body, inside, (eqn, *callers))
                if len(out) == len(results) and len(given) == len(operands):
                    results = out
            values |= dict(zip(eqn.outvars, results, strict=True))
        return [of(atom) for atom in jaxpr.outvars]

    def _note(self, chain: tuple[Any, ...], dependence: int) -> None:
        if dependence & _INPUT:
            return
        layer = _layer(chain, _DROPOUT)
        if layer or dependence & _HELD:
            self.found.append(_described(chain, "draws the same random numbers in each run", layer))


def _operands(eqn: Any, inner: Any, operands: list[int], every: int) -> list[int]:
    """Returns the dependence of the arguments of a jaxpr inside an equation."""
    count = len(_jax.open_jaxpr(inner).invars)
    if count == len(operands):
        return operands
    if eqn.primitive.name == "cond":
        return operands[1:]
    if eqn.primitive.name == "while":
        of_condition, of_body = eqn.params["cond_nconsts"], eqn.params["body_nconsts"]
        carried = operands[of_condition + of_body :]
        is_condition = inner is eqn.params["cond_jaxpr"]
        first = operands[:of_condition] if is_condition else operands[of_condition:][:of_body]
        return [*first, *carried]
    return [every] * count


def _frames(chain: Sequence[Any]) -> Iterable[Any]:
    return (frame for eqn in chain for frame in _jax.frames_of(eqn))


def _layer(chain: Sequence[Any], kind: re.Pattern[str]) -> str:
    """Returns the file of a framework with a layer of this kind that computes an equation."""
    for frame in _frames(chain):
        file = frame.file_name
        if _frameworks.advice(file) and (
            kind.search(frame.function_name) or kind.search(os.path.basename(file))
        ):
            return str(file)
        if not file.startswith(INSTALLED):
            return ""  # the user's own code, called by a layer
    return ""


def _described(chain: Sequence[Any], does: str, layer: str) -> TrainingLayer:
    module = ".".join(name for eqn in reversed(chain) for name in _jax.scopes_of(eqn))
    return TrainingLayer(does, module, line_of(chain), _frameworks.advice(layer) or _KEY_AS_INPUT)


def line_of(chain: Sequence[Any]) -> str:
    """Returns the user's line that an equation comes from, as `file:line in function`, or an empty
    text. `chain` is the equation, followed by those that enclose it.
    """
    frame = user_frame(_frames(chain))
    return "" if frame is None else f"{location(frame)} in {frame.function_name}"
