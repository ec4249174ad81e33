"""The command line tool, `jax2onnx` or `python -m jax2onnx`."""

import sys


def main() -> int:
    """Runs the tool with the arguments of the process."""
    from jax2onnx import _core

    return _core.main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
