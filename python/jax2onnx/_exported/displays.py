"""Profiles and pages of exported models, which notebooks display."""

import html
from dataclasses import dataclass
from typing import Any

from jax2onnx._python.notebooks import PRE


@dataclass(frozen=True, repr=False)
class Profile:
    """The time of each line, module and operator.

    Attributes:
        text: The tables.
        data: The same as a dictionary, with total and median nanoseconds, as
            `jax2onnx profile --json` prints it.
    """

    text: str
    data: dict[str, Any]

    def __repr__(self) -> str:
        """Returns the tables."""
        return self.text

    def _repr_html_(self) -> str:
        return f"{PRE}{html.escape(self.text)}</pre>"


@dataclass(frozen=True, repr=False)
class Page:
    """A page that shows the source beside the graph.

    Attributes:
        content: The page, as HTML.
        path: The file, if it was written.
    """

    content: str
    path: str | None = None

    def __repr__(self) -> str:
        """Returns the path and the size."""
        where = f" {self.path}" if self.path else ""
        return f"<Page{where}, {len(self.content) / 1e6:.1f} MB>"

    def _repr_html_(self) -> str:
        inside = html.escape(self.content, quote=True)
        return f'<iframe srcdoc="{inside}" style="width:100%;height:640px;border:0"></iframe>'
