"""The result of a reduction, and the files that it is written to."""

import html
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from jax2onnx._python.notebooks import PRE
from jax2onnx._reducing.verdict import Verdict

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True, repr=False)
class Reduction:
    """A reduced program.

    Attributes:
        program: A script in JAX that exports the program and shows the failure.
        jaxpr: The recording of the program, with its numbers.
        model: Its model, or None if the export fails.
        verdict: The cause of the failure.
        failure: A description of the failure.
        inputs: The inputs of the program, by name.
        equations: The number of equations before and after the reduction.
        tried: The number of candidates that were checked.
        is_complete: `False` if the time limit ended the search.
        is_reproduced: `True` if the script fails in the same way. Otherwise only the recording
            does.
        closed: The program as a `ClosedJaxpr`.
    """

    program: str
    jaxpr: str
    model: "onnx.ModelProto | None"
    verdict: Verdict
    failure: str
    inputs: Mapping[str, np.ndarray]
    equations: tuple[int, int]
    tried: int
    is_complete: bool
    is_reproduced: bool
    closed: Any

    def __str__(self) -> str:
        """Returns the program and the verdict."""
        before, after = self.equations
        lines = [
            self.program,
            f"failure  {self.failure}",
            f"verdict  {self.verdict}",
            f"size     {after} of {before} equations, {_counted(self._nodes(), 'node')} "
            f"({_counted(self.tried, 'candidate')})",
        ]
        if not self.is_complete:
            lines.append("note     the time was up: the program may not be the smallest")
        if not self.is_reproduced:
            lines.append("note     the script does not fail: use the recording instead")
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return f"{PRE}{html.escape(str(self))}</pre>"

    def _nodes(self) -> int:
        return 0 if self.model is None else len(self.model.graph.node)

    def to_dict(self) -> dict[str, Any]:
        """Returns everything but the model as plain data."""
        return {
            "failure": self.failure,
            "verdict": asdict(self.verdict),
            "program": self.program,
            "equations": list(self.equations),
            "nodes": self._nodes(),
            "tried": self.tried,
            "complete": self.is_complete,
            "reproduced": self.is_reproduced,
        }

    def save(self, folder: str | os.PathLike[str]) -> list[str]:
        """Writes `program.py`, `program.jaxpr`, `verdict.txt`, `inputs.npz` and, if there is a
        model, `model.onnx` to a folder. Returns their paths.
        """
        at = Path(folder)
        at.mkdir(parents=True, exist_ok=True)
        texts = {
            "program.py": self.program,
            "program.jaxpr": self.jaxpr,
            "verdict.txt": f"{self.failure}\n{self.verdict}\n",
        }
        for name, text in texts.items():
            (at / name).write_text(text)
        arrays: dict[str, Any] = dict(self.inputs)
        np.savez(at / "inputs.npz", **arrays)
        files = [*texts, "inputs.npz"]
        if self.model is not None:
            (at / "model.onnx").write_bytes(self.model.SerializeToString())
            files.append("model.onnx")
        return [str(at / name) for name in files]


def _counted(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
