"""The errors that `to_onnx` raises.

The text of an error is a diagnostic: `[code] message`, then the location in the user's program if
it is known, then `help:`. Codes are stable, so programs can distinguish errors by `error.code`.
Errors that JAX raises while it traces a function are passed on unchanged.
"""


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

    def __str__(self) -> str:
        """Returns the diagnostic as text."""
        lines = [f"[{self.code}] {self.message}"]
        if self.place:
            lines.append(self.place)
        if self.help:
            lines.append(f"  help: {self.help}")
        return "\n".join(lines)


class UnsupportedError(Jax2OnnxError, NotImplementedError):
    """The program uses something that has no ONNX form, or none in the chosen opset."""


class InvalidInputError(Jax2OnnxError, ValueError):
    """An argument of `to_onnx` is wrong."""


class MismatchError(Jax2OnnxError, AssertionError):
    """A model computes something else than the function that it was exported from."""


class InternalError(Jax2OnnxError, RuntimeError):
    """A bug in jax2onnx."""


def bad_option(name: str, value: object, allowed: tuple[str, ...]) -> InvalidInputError:
    """Returns the error for an option whose value is not allowed."""
    return InvalidInputError(
        "invalid-option",
        f"`{name}` is {value!r}",
        help=f"choose one of: {', '.join(allowed)}",
    )
