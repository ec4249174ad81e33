"""The expression in JAX for each primitive. A primitive without a row here is bound directly."""

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jax2onnx import _jax

# Returns the expression of an equation, given its parameters and the texts of its operands.
Template = Callable[[Any, Sequence[str]], str]

INFIX = {
    "add": "+",
    "and": "&",
    "eq": "==",
    "ge": ">=",
    "gt": ">",
    "le": "<=",
    "lt": "<",
    "mul": "*",
    "ne": "!=",
    "or": "|",
    "sub": "-",
    "xor": "^",
}

# Primitives that are functions of the same name in `jax.lax` and take only their operands.
PLAIN = frozenset(
    re.findall(
        r"\w+",
        """abs acos acosh asin asinh atan atan2 atanh bessel_i0e bessel_i1e cbrt ceil clamp clz
        complex conj cos cosh digamma erf erf_inv erfc exp exp2 expm1 floor igamma igammac imag
        is_finite lgamma log log1p logistic max min nextafter not polygamma population_count pow
        real regularized_incomplete_beta rem rsqrt shift_left shift_right_arithmetic
        shift_right_logical sign sin sinh sqrt square tan tanh zeta""",
    )
)
# The names of those functions that differ from the primitives.
RENAMED = {"not": "bitwise_not", "regularized_incomplete_beta": "betainc"}

_REDUCTIONS = ("and", "max", "min", "or", "prod", "sum", "xor")
_CUMULATIVE = ("cumlogsumexp", "cummax", "cummin", "cumprod", "cumsum")
_SCATTERS = ("scatter", "scatter-add", "scatter-max", "scatter-min", "scatter-mul", "scatter-sub")


def text_of(value: Any) -> str:
    """Formats a parameter in Python syntax."""
    name = type(value).__name__
    if hasattr(value, "_fields"):  # a named tuple
        return _object(name, value._fields, value)
    if isinstance(value, tuple | list):
        items = [text_of(item) for item in value]
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
    if isinstance(value, np.dtype):
        return dtype_text(value)
    if isinstance(value, np.generic):
        return repr(value.item())
    if hasattr(value, "__dataclass_fields__"):
        return _object(name, list(value.__dataclass_fields__), value)
    if hasattr(value, "name") and hasattr(value, "value"):  # a member of an enum
        return f"lax.{name}.{value.name}"
    if isinstance(value, float):
        return number(value)
    return repr(value)


def _object(name: str, fields: Sequence[str], value: Any) -> str:
    texts = [f"{field}={text_of(getattr(value, field))}" for field in fields]
    return f"lax.{name}({', '.join(texts)})"


def dtype_text(dtype: Any) -> str:
    name = np.dtype(dtype).name
    return "jnp.bool_" if name == "bool" else f"jnp.{name}"


def number(value: Any) -> str:
    if isinstance(value, complex):
        return f"complex({number(value.real)}, {number(value.imag)})"
    text = repr(value)
    if isinstance(value, float) and not np.isfinite(value):
        return text.replace("nan", "jnp.nan").replace("inf", "jnp.inf")
    return text


def _with(function: str, *names: str, **defaults: Any) -> Template:
    """Returns the template of a call with these keywords. Those equal to `defaults` are omitted."""

    def call(p: Any, a: Sequence[str]) -> str:
        keywords = [f"{name}={text_of(p[name])}" for name in names]
        keywords += [
            f"{name}={text_of(p[name])}"
            for name, default in defaults.items()
            if text_of(p.get(name, default)) != text_of(default)
        ]
        return f"{function}({', '.join([*a, *keywords])})"

    return call


def _positional(text: str) -> Template:
    """Returns the template of an expression that consists of operands only."""
    return lambda _, a: text.format(*a)


def _dot_general(p: Any, a: Sequence[str]) -> str:
    extra = _with("", precision=None, preferred_element_type=None)(p, [])[1:-1]
    numbers = text_of(p["dimension_numbers"])
    return f"lax.dot_general({', '.join([*a, numbers, *([extra] if extra else [])])})"


def _slice(p: Any, a: Sequence[str]) -> str:
    strides = p.get("strides") or (1,) * len(p["start_indices"])
    parts = zip(p["start_indices"], p["limit_indices"], strides, strict=True)
    texts = [f"{b or ''}:{e}" + ("" if s == 1 else f":{s}") for b, e, s in parts]
    return f"{a[0]}[{', '.join(texts)}]"


def _scatter(name: str) -> Template:
    return _with(
        f"lax.{name.replace('-', '_')}",
        "dimension_numbers",
        unique_indices=False,
        indices_are_sorted=False,
        mode=None,
    )


def _iota(p: Any, _: Sequence[str]) -> str:
    dtype = dtype_text(p["dtype"])
    return f"lax.broadcasted_iota({dtype}, {text_of(p['shape'])}, {p['dimension']})"


def _sort(p: Any, a: Sequence[str]) -> str:
    operands = a[0] if len(a) == 1 else f"({', '.join(a)})"
    rest = _with("", "dimension", is_stable=True, num_keys=1)(p, [])[1:-1]
    call = f"lax.sort({operands}, {rest})"
    return f"[{call}]" if len(a) == 1 else call


def _arg(function: str) -> Template:
    return lambda p, a: f"{function}({a[0]}, {p['axes'][0]}, {dtype_text(p['index_dtype'])})"


TEMPLATES: dict[str, Template] = {
    **{name: _positional(f"{{0}} {op} {{1}}") for name, op in INFIX.items()},
    **{name: _with(f"lax.{RENAMED.get(name, name)}") for name in PLAIN},
    **{f"reduce_{name}": _with(f"lax.reduce_{name}", "axes") for name in _REDUCTIONS},
    **{name: _with(f"lax.{name}", "axis", reverse=False) for name in _CUMULATIVE},
    **{name: _scatter(name) for name in _SCATTERS},
    "argmax": _arg("lax.argmax"),
    "argmin": _arg("lax.argmin"),
    "bitcast_convert_type": lambda p, a: (
        f"lax.bitcast_convert_type({a[0]}, {dtype_text(p['new_dtype'])})"
    ),
    "broadcast_in_dim": lambda p, a: (
        f"lax.broadcast_in_dim({a[0]}, {text_of(p['shape'])}, {text_of(p['broadcast_dimensions'])})"
    ),
    "concatenate": lambda p, a: f"lax.concatenate([{', '.join(a)}], {p['dimension']})",
    "conv_general_dilated": _with(
        "lax.conv_general_dilated",
        "window_strides",
        "padding",
        "lhs_dilation",
        "rhs_dilation",
        "dimension_numbers",
        feature_group_count=1,
        batch_group_count=1,
        precision=None,
        preferred_element_type=None,
    ),
    "convert_element_type": lambda p, a: (
        f"lax.convert_element_type({a[0]}, {dtype_text(p['new_dtype'])})"
    ),
    "copy": _positional("jnp.copy({0})"),
    "copy_p": _positional("jnp.copy({0})"),
    "div": _positional("lax.div({0}, {1})"),
    "dot_general": _dot_general,
    "dynamic_slice": lambda p, a: (
        f"lax.dynamic_slice({a[0]}, ({', '.join(a[1:])},), {text_of(p['slice_sizes'])})"
    ),
    "dynamic_update_slice": lambda _, a: (
        f"lax.dynamic_update_slice({a[0]}, {a[1]}, ({', '.join(a[2:])},))"
    ),
    "gather": _with(
        "lax.gather",
        "dimension_numbers",
        "slice_sizes",
        unique_indices=False,
        indices_are_sorted=False,
        mode=None,
        fill_value=None,
    ),
    "integer_pow": lambda p, a: f"lax.integer_pow({a[0]}, {p['y']})",
    "iota": _iota,
    "neg": _positional("-{0}"),
    "pad": lambda p, a: f"lax.pad({', '.join(a)}, {text_of(p['padding_config'])})",
    "reduce_precision": _with("lax.reduce_precision", "exponent_bits", "mantissa_bits"),
    "reshape": lambda p, a: f"lax.reshape({a[0]}, {text_of(p['new_sizes'])})",
    "rev": lambda p, a: f"lax.rev({a[0]}, {text_of(p['dimensions'])})",
    "round": _with("lax.round", "rounding_method"),
    "select_n": lambda _, a: f"lax.select_n({', '.join(a)})",
    "slice": _slice,
    "sort": _sort,
    "split": lambda p, a: f"lax.split({a[0]}, {text_of(p['sizes'])}, {p['axis']})",
    "squeeze": lambda p, a: f"lax.squeeze({a[0]}, {text_of(p['dimensions'])})",
    "stop_gradient": _positional("lax.stop_gradient({0})"),
    "top_k": lambda p, a: f"lax.top_k({a[0]}, {p['k']})",
    "transpose": lambda p, a: f"lax.transpose({a[0]}, {text_of(p['permutation'])})",
}


def bound(eqn: Any, operands: Sequence[str], imports: set[str]) -> str:
    """Returns the expression that binds a primitive directly."""
    name = eqn.primitive.name
    module, attribute = _jax.primitive_paths().get(name, ("", ""))
    if not module:
        raise ValueError(f"no module of JAX has the primitive `{name}`")
    imports.add(f"from {module} import {attribute}")
    if any(_jax.is_jaxpr(value) or hasattr(value, "eqns") for value in eqn.params.values()):
        raise ValueError(f"the primitive `{name}` has a body, which cannot be printed")
    params = [f"{key}={text_of(value)}" for key, value in eqn.params.items()]
    return f"{attribute}.bind({', '.join([*operands, *params])})"
