"""Patterns for names of inputs and outputs: `cache.{i}.k`, `past_key_values.*`."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import jax
import numpy as np

from jax2onnx.errors import InvalidInputError, invalid_option

T = TypeVar("T")

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
    matches = zip(names, _matches(option, rules, names), strict=True)
    return [name if match is None else _filled(*match) for name, match in matches]


def _filled(template: str, values: Mapping[str, str]) -> str:
    return _PARTS.sub(lambda part: values[part[1]], template)


def _matches(
    option: str, rules: Sequence[tuple[Pattern, T]], names: Sequence[str]
) -> Iterator[tuple[T, dict[str, str]] | None]:
    """Yields for each name the entry of the first pattern that matches, and the values of its
    placeholders, or None. Raises at the end if a pattern is never the first.
    """
    unused = {pattern.text: None for pattern, _ in rules}
    for name in names:
        found = ((pattern, entry, pattern.match(name)) for pattern, entry in rules)
        for pattern, entry, values in found:
            if values is not None:
                unused.pop(pattern.text, None)
                yield entry, values
                break
        else:
            yield None
    for text in unused:
        raise _invalid(
            f"`{option}` has `{text}`, which matches nothing",
            f"the names are: {', '.join(names)}",
        )


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
        raise invalid_option(
            f"`{option}` cannot be {patterns!r}",
            "pass a dict from names or patterns to element types",
        )
    rules = [(Pattern.of(key), _dtype(option, key, value)) for key, value in patterns.items()]
    found: dict[int, str] = {}
    matches = zip(names, traced, _matches(option, rules, names), strict=True)
    for i, (name, inside, match) in enumerate(matches):
        if match is None:
            continue
        dtype = match[0]
        if _kind(inside) is None or _kind(inside) != _kind(dtype):
            raise invalid_option(
                f"`{option}` makes `{name}` {dtype}, but the function has {inside}",
                "integers and booleans can replace each other, and floats other floats",
            )
        if dtype != inside:
            found[i] = dtype.name
    return found


def _dtype(option: str, key: str, value: Any) -> "np.dtype[Any]":
    try:
        dtype: np.dtype[Any] | None = jax.numpy.dtype(value)
    except TypeError:
        dtype = None
    if dtype is None or _kind(dtype) is None:
        raise invalid_option(
            f"`{option}` maps `{key}` to {value!r}",
            'pass an element type, such as "int64" or jnp.float16',
        )
    return dtype


def _kind(dtype: Any) -> str | None:
    """Returns the kind of an element type. Conversions within a kind preserve values that fit."""
    if jax.numpy.issubdtype(dtype, np.integer) or dtype == np.bool_:
        return "integer"
    return "float" if jax.numpy.issubdtype(dtype, np.floating) else None


def _invalid(message: str, help: str) -> InvalidInputError:
    return InvalidInputError("invalid-names", message, help=help)
