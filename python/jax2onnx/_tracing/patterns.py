"""Patterns for names of inputs and outputs: `cache.{i}.k`, `past_key_values.*`."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np

from jax2onnx.errors import InvalidInputError

_PARTS = re.compile(r"\{([A-Za-z_]\w*)\}|(\*)")


@dataclass(frozen=True)
class Pattern:
    """A name in which `{i}` matches one component of a path and `*` any text."""

    text: str
    _regex: re.Pattern[str]

    @classmethod
    def of(cls, text: str) -> "Pattern":
        """Parses a pattern. Repeated placeholders match equal components."""
        regex, end, seen = "", 0, set[str]()
        for part in _PARTS.finditer(text):
            regex += re.escape(text[end : part.start()])
            name, end = part[1], part.end()
            if name is None:
                regex += ".*"
            elif name in seen:
                regex += f"(?P={name})"
            else:
                seen.add(name)
                regex += f"(?P<{name}>[^.]+)"
        return cls(text, re.compile(regex + re.escape(text[end:]), re.DOTALL))

    @property
    def placeholders(self) -> set[str]:
        """The names in braces."""
        return set(self._regex.groupindex)

    def match(self, name: str) -> dict[str, str] | None:
        """Returns the values of the placeholders in a name, or None if it does not match."""
        found = self._regex.fullmatch(name)
        return found and found.groupdict()


def renamed(option: str, patterns: Mapping[Any, Any], names: Sequence[str]) -> list[str]:
    """Renames the names that match a pattern. The first match decides."""
    rules = []
    for key, template in patterns.items():
        if not isinstance(key, str) or not isinstance(template, str):
            raise _invalid(
                f"`{option}` maps {key!r} to {template!r}", "map patterns to names, both strings"
            )
        pattern = Pattern.of(key)
        unknown = Pattern.of(template).placeholders - pattern.placeholders
        if unknown or "*" in template:
            missing = f"`{{{min(unknown)}}}`" if unknown else "`*`"
            raise _invalid(
                f"`{option}` maps `{key}` to `{template}`, in which {missing} has no value",
                "use the placeholders of the pattern, such as {i}",
            )
        rules.append((pattern, template))
    used: set[str] = set()

    def new_name(name: str) -> str:
        for pattern, template in rules:
            values = pattern.match(name)
            if values is not None:
                used.add(pattern.text)
                return _filled(template, values)
        return name

    result = [new_name(name) for name in names]
    _check_used(option, [pattern for pattern, _ in rules], used, names)
    return result


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PARTS.sub(lambda part: values[part[1]], template)


def dtypes(
    option: str,
    patterns: Mapping[Any, Any] | None,
    names: Sequence[str],
    traced: Sequence[Any],
) -> dict[int, str]:
    """Returns the element types that differ from the traced ones, by position."""
    if patterns is None:
        return {}
    if isinstance(patterns, Mapping):
        known = range(len(names))
        patterns = {names[key] if key in known else key: v for key, v in patterns.items()}
    if not isinstance(patterns, Mapping) or not all(isinstance(key, str) for key in patterns):
        raise InvalidInputError(
            "invalid-option",
            f"`{option}` cannot be {patterns!r}",
            help="pass a dict from names or patterns to element types",
        )
    rules = [(Pattern.of(key), _dtype(option, key, value)) for key, value in patterns.items()]
    found: dict[int, str] = {}
    used = set()
    for i, (name, inside) in enumerate(zip(names, traced, strict=True)):
        for pattern, dtype in rules:
            if pattern.match(name) is None:
                continue
            used.add(pattern.text)
            if _kind(inside) is None or _kind(inside) != _kind(dtype):
                raise InvalidInputError(
                    "invalid-option",
                    f"`{option}` makes `{name}` {dtype}, but the function has {inside}",
                    help="integers and booleans can replace each other, and floats other floats",
                )
            if dtype != inside:
                found[i] = dtype.name
            break
    _check_used(option, [pattern for pattern, _ in rules], used, names)
    return found


def _dtype(option: str, key: str, value: Any) -> "np.dtype[Any]":
    try:
        dtype: np.dtype[Any] | None = jax.numpy.dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or _kind(dtype) is None:
        raise InvalidInputError(
            "invalid-option",
            f"`{option}` maps `{key}` to {value!r}",
            help='pass an element type, such as "int64" or jnp.float16',
        )
    return dtype


def _kind(dtype: Any) -> str | None:
    """Returns the kind of an element type. Conversions within a kind preserve values that fit."""
    if jax.numpy.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return "integer"
    return "float" if jax.numpy.issubdtype(dtype, np.floating) else None


def _check_used(
    option: str, patterns: Sequence[Pattern], used: set[str], names: Sequence[str]
) -> None:
    for pattern in patterns:
        if pattern.text not in used:
            raise _invalid(
                f"`{option}` has `{pattern.text}`, which matches nothing",
                f"the names are: {', '.join(names)}",
            )


def _invalid(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-names", message, help=help)
