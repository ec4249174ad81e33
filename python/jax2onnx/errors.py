"""The errors that `export` and `to_onnx` raise.

The text of an error is a diagnostic: `[code] message`, then the location in the user's program if
it is known, then `help:`. Codes are stable, so programs can distinguish errors by `error.code`.
Errors that JAX raises while it traces a function are passed on unchanged.
"""

import difflib
from collections.abc import Mapping, Sequence


class Jax2OnnxError(Exception):
    """An export failed.

    Attributes:
        code: The kind of failure, in kebab case.
        message: A description of the failure, on one line.
        place: The location, `  --> file:line` with an excerpt, or an empty string.
        help: Advice, or an empty string.
    """

    def __init__(self, code: str, message: str, place: str = "", help: str = "") -> None:
        super().__init__(code, message, place, help)
        self.code = code
        self.message = message
        self.place = place
        self.help = help

    def reword(self, words: Mapping[str, str]) -> None:
        """Replaces texts in the message and the advice, such as names of options."""
        self.message, self.help = reworded(self.message, words), reworded(self.help, words)

    def __str__(self) -> str:
        """Returns the diagnostic as text."""
        lines = [f"[{self.code}] {self.message}"]
        if self.place:
            lines.append(self.place)
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


def reworded(text: str, words: Mapping[str, str]) -> str:
    """Replaces texts in a message."""
    for old, new in words.items():
        text = text.replace(old, new)
    return text


class UnsupportedError(Jax2OnnxError, NotImplementedError):
    """The program uses something that has no ONNX form, or none in the chosen opset."""


class InvalidInputError(Jax2OnnxError, ValueError):
    """An argument of `export` or `to_onnx` is wrong."""


class MismatchError(Jax2OnnxError, AssertionError):
    """A model computes something else than the function that it was exported from."""


class InternalError(Jax2OnnxError, RuntimeError):
    """A bug in jax2onnx."""


def nearest(name: object, known: Sequence[str]) -> str:
    """Returns a question about the known name that is most similar, or an empty string."""
    text = str(name)
    near = difflib.get_close_matches(text, known, n=3, cutoff=0.6)

    def common(other: str) -> int:
        pairs = enumerate(zip(text, other, strict=False))
        return next((i for i, (a, b) in pairs if a != b), min(len(text), len(other)))

    # Of similar names, one that starts in the same way is more likely.
    best = max(near, key=common, default="")
    return f"did you mean {best!r}? " if best else ""


def wrong_arguments(message: str, help: str = "") -> InvalidInputError:
    """Returns the error for arguments that a function or a model does not take."""
    return InvalidInputError("wrong-arguments", message, help=help)


def invalid_option(message: str, help: str) -> InvalidInputError:
    """Returns the error for an option whose value is wrong."""
    return InvalidInputError("invalid-option", message, help=help)


def bad_option(name: str, value: object, allowed: tuple[str, ...]) -> InvalidInputError:
    """Returns the error for an option whose value is not allowed."""
    advice = f"{nearest(value, allowed)}choose one of: {', '.join(allowed)}"
    return invalid_option(f"`{name}` cannot be {value!r}", advice)
