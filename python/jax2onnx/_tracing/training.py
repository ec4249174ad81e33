"""Finds layers that a function runs in training mode, because they draw random numbers or normalise
by the batch, and other draws that are the same in each run of a model.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

from jax2onnx import _frameworks, _jax
from jax2onnx._python.objects import is_installed
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
# Layers that draw random numbers in training mode only.
_RANDOM = re.compile(r"dropout|attention|noise", re.IGNORECASE)
# Layers that draw from keys that the model holds. Generators of keys are called, too.
_LAYER = re.compile(r"(?<!Rngs)(?<!Stream)\.__call__$|dropout|attention|noise", re.IGNORECASE)
# Functions of frameworks that fail if a layer is in training mode by mistake.
_FAILING = re.compile(r"batch_?norm|dropout|next_rng_key", re.IGNORECASE)
# Functions of frameworks that draw the initial values of parameters.
_INITIAL = re.compile(r"(__init__|\bparam|build|add_weight)$")

# The dependence of a value: on inputs, and on arrays that the function holds.
_INPUT, _HELD = 1, 2


@dataclass(frozen=True)
class TrainingCall:
    """A call that differs from inference.

    Attributes:
        does: The effect of the call. Empty for draws outside the layers of a framework.
        module: The path of the module, or an empty string.
        place: `file:line in function`, or an empty string.
        help: Advice on switching the layer to inference. Empty if no layer of a framework is
            responsible.
    """

    does: str
    module: str
    place: str
    help: str

    def __str__(self) -> str:
        said = " ".join(part for part in (self.module and f"`{self.module}`", self.does) if part)
        place = self.place and f"    --> {self.place}"
        return "\n".join(part for part in (said, place) if part)


def training_calls(closed: Any) -> list[TrainingCall]:
    """Returns the calls in training mode and the draws from constant keys, each line and module
    once.

    A function that makes its own key from a number chooses that number, so its draws do not count
    unless a layer for training makes them. Nor do draws from keys that are inputs.
    """
    known: dict[int, tuple[bool, bool]] = {}
    draws, sums = _draws_and_sums(closed.jaxpr, known)
    found: list[TrainingCall] = []
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


def training_errors(calls: Sequence[TrainingCall]) -> list[InvalidInputError]:
    """Returns an error for layers in training mode, and one for other draws from held keys."""
    layers = [call for call in calls if call.help]
    others = [call for call in calls if not call.help]
    errors = []
    if layers:
        advice = list(dict.fromkeys(layer.help for layer in layers))
        errors.append(
            InvalidInputError(
                "training-mode",
                "the function runs layers in training mode",
                _listed(layers),
                help="; ".join([*advice, 'if this is intended, pass training="allow"']),
            )
        )
    if others:
        errors.append(
            InvalidInputError(
                "constant-key",
                "the function draws random numbers from a key that it holds, so each run of the "
                "model draws the same numbers",
                _listed(others),
                help="make the key an argument of the function to draw new numbers in each run; if "
                'they should be the same, pass training="allow"',
            )
        )
    return errors


def _listed(calls: Sequence[TrainingCall]) -> str:
    return "\n".join(f"  {line}" for call in calls for line in str(call).splitlines())


@contextmanager
def explained() -> Iterator[None]:
    """Adds advice to errors that frameworks raise, mostly about layers in training mode."""
    try:
        yield
    except Exception as error:
        if advice := _frameworks.advice_on_error(error):
            error.add_note(f"\n  help: {advice}")
            raise
        step, layer = error.__traceback__, ""
        while step is not None:
            code = step.tb_frame.f_code
            if not _is_framework_or_installed(code.co_filename):
                layer = ""  # the user's own code, called by a layer
            elif _FAILING.search(code.co_qualname):
                layer = layer or _frameworks.advice(code.co_filename)
            step = step.tb_next
        if layer:
            error.add_note(f"\n  help: a layer is in training mode: {layer}")
        raise


def _draws_and_sums(jaxpr: Any, known: dict[int, tuple[bool, bool]]) -> tuple[bool, bool]:
    """Returns two flags: a jaxpr draws random numbers, and it computes sums, as batch norms do."""
    if id(jaxpr) not in known:
        known[id(jaxpr)] = (False, False)
        draws = sums = False
        for eqn in jaxpr.eqns:
            name = eqn.primitive.name
            draws |= name in _DRAWS
            sums |= name == _SUM
            for inner in _jax.bodies_of(eqn):
                more = _draws_and_sums(_jax.open_jaxpr(inner), known)
                draws, sums = draws | more[0], sums | more[1]
        known[id(jaxpr)] = (draws, sums)
    return known[id(jaxpr)]


def _batch_norms(
    jaxpr: Any, callers: tuple[Any, ...], known: dict[int, tuple[bool, bool]]
) -> Iterator[TrainingCall]:
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
        self.found: list[TrainingCall] = []

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
        layer = _layer(chain, _LAYER if dependence & _HELD else _RANDOM)
        if layer:
            does = "draws the same random numbers in each run"
            self.found.append(_described(chain, does, layer))
        elif dependence & _HELD:
            self.found.append(_described(chain, "", None))


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


def _layer(chain: Sequence[Any], kind: re.Pattern[str]) -> Any | None:
    """Returns the outermost frame of a framework's layer of this kind that computes an equation."""
    layer = None
    for frame in _frames(chain):
        file = frame.file_name
        if not _is_framework_or_installed(file):
            break  # the user's own code, perhaps called by a layer
        if _frameworks.advice(file):
            if _INITIAL.search(frame.function_name):
                return None
            if kind.search(frame.function_name) or kind.search(os.path.basename(file)):
                layer = frame
    return layer


def _is_framework_or_installed(file: str) -> bool:
    """Returns `True` for files that are not the user's. A framework may be a checkout."""
    return is_installed(file) or bool(_frameworks.advice(file))


def _described(chain: Sequence[Any], does: str, layer: Any | None) -> TrainingCall:
    module = ".".join(name for eqn in reversed(chain) for name in _jax.scopes_of(eqn))
    if layer is not None and not module:
        module = layer.function_name.partition(".")[0]
    advice = _frameworks.advice(layer.file_name) if layer else ""
    return TrainingCall(does, module, line_of(chain), advice)


def line_of(chain: Sequence[Any]) -> str:
    """Returns the user's line that an equation comes from, as `file:line in function`, or an empty
    text. `chain` is the equation, followed by those that enclose it.
    """
    frame = user_frame(f for f in _frames(chain) if not _frameworks.advice(f.file_name))
    return "" if frame is None else f"{location(frame)} in {frame.function_name}"
