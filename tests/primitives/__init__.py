"""Small programs for every primitive; `crates/pipeline/filetests` shows the resulting models.

A program is named after its primitive, and after its peculiarity: `reduce_max`,
`reduce_max.symbolic`.
"""

from importlib import import_module

from primitives.operands import Programs

_MODULES = """bits complex control_flow elementwise errors fourier indexing linear_algebra movement
    random reduction special windows"""

GROUPS: dict[str, Programs] = {
    name: import_module(f"primitives.{name}").PROGRAMS for name in _MODULES.split()
}
"""By the folder of their files. Folders are named like those of the rules in `crates/lower`, except
`errors`, whose programs cannot be converted."""


def subject(name: str) -> str:
    """Returns the primitive that a program is about."""
    return name.partition(".")[0]
