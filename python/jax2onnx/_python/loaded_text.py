"""The text that loaded code was compiled from.

A file may have been edited since Python loaded it, as happens in every notebook. Its lines are then
not those that ran. So a text counts only if it compiles to the code that ran.
"""

import ast
import dis
import linecache
import os
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType, ModuleType
from typing import NamedTuple

# A constant of code that stands for calls in another process, whose text nobody knows.
ELSEWHERE = "jax2onnx: a call in another process"


class Used(NamedTuple):
    """Parts of a file that a program refers to.

    Attributes:
        code: Code objects, each with the offsets of the instructions that were running.
        definitions: Qualified names and first lines of functions.
    """

    code: Sequence[tuple[CodeType, Sequence[int]]]
    definitions: Sequence[tuple[str, int]]


def loaded_text(
    path: str,
    used: tuple[Sequence[tuple[CodeType, Sequence[int]]], Sequence[tuple[str, int]]],
    module: ModuleType | None,
) -> tuple[str | None, bool]:
    """Returns the text that the code of a file was compiled from, if it is still known.

    The second result is `True` if all texts of the file differ from the compiled one.
    """
    if any(ELSEWHERE in code.co_consts for code, _ in used[0]):
        return None, False
    differs = False
    for text in _candidates(path, module):
        if _compiles_to(text, path, Used(*used)):
            return _decoded(text), False
        differs = True
    return None, differs


def _candidates(path: str, module: ModuleType | None) -> Iterator[str | bytes]:
    """Yields the candidates for the text of a path: on disk, as read before, from an archive."""
    is_file = os.path.isfile(path)
    if is_file:
        with open(path, "rb") as file:
            yield file.read()
    known = linecache.cache.get(path)
    if known is not None and len(known) == 4:
        yield "".join(known[2])
    elif not is_file:
        # Code that was imported from an archive is found through its module.
        if module is not None:
            linecache.lazycache(path, vars(module))
        if lines := linecache.getlines(path):
            yield "".join(lines)


def _decoded(text: str | bytes) -> str:
    """Returns a text as the readers of source maps decode it."""
    if isinstance(text, str):
        return text
    try:
        return text.decode()
    except UnicodeDecodeError:
        return text.decode("latin-1")


def _compiles_to(text: str | bytes, path: str, used: Used) -> bool:
    """Returns `True` if the lines in use are those of a text."""
    # A cell of a notebook may wait at its top level.
    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    try:
        compiled = compile(text, path, "exec", flags=flags, dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    if _is_used([compiled], used):
        return True
    # Notebooks compile each statement by itself, without knowing what others import.
    parts = [ast.Module([statement], []) for statement in ast.parse(text, path).body]
    return _is_used(
        [compile(part, path, "exec", flags=flags, dont_inherit=True) for part in parts], used
    )


def _is_used(compiled: Sequence[CodeType], used: Used) -> bool:
    """Returns `True` if the lines in use are those of compiled code."""
    by_name: defaultdict[str, list[CodeType]] = defaultdict(list)
    for whole in compiled:
        for code in _all_code(whole):
            by_name[code.co_name].append(code)
    for code, offsets in used.code:
        found = by_name.get(code.co_name, [])
        if code not in found and not _has_lines(found, code, offsets):
            return False
    everything = [code for found in by_name.values() for code in found]
    return all(
        any(code.co_qualname == name and line in _header(code) for code in everything)
        for name, line in used.definitions
    )


def _header(code: CodeType) -> range:
    """Returns the lines from the first decorator of a function to its first statement."""
    lines = [line for _, _, line in code.co_lines() if line is not None]
    body = [line for line in lines if line > code.co_firstlineno]
    return range(code.co_firstlineno, min(body, default=code.co_firstlineno) + 1)


def _all_code(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _all_code(constant)


def _has_lines(found: Sequence[CodeType], code: CodeType, offsets: Sequence[int]) -> bool:
    """Returns `True` if one of several code objects has the same instructions in the lines that
    were running. The rest may differ: import hooks rewrite assertions, and people edit other lines.
    """
    positions = list(code.co_positions())
    lines: set[int] = set()
    for offset in offsets:
        line, end_line, _, _ = positions[offset // 2]
        if line is not None:
            lines.update(range(line, (end_line or line) + 1))
    wanted = _by_line(code)
    if not any(wanted.get(line) for line in lines):
        return False
    return any(
        all(instructions.get(line) == wanted.get(line) for line in lines)
        for instructions in map(_by_line, found)
    )


def _by_line(code: CodeType) -> Mapping[int, list[tuple[object, ...]]]:
    """Returns the names, constants and operators of each line, with their positions."""
    found: defaultdict[int, list[tuple[object, ...]]] = defaultdict(list)
    for one in dis.get_instructions(code):
        if not one.argrepr or one.opcode in _NOT_COMPARED or one.positions is None:
            continue
        what = one.argval.co_name if isinstance(one.argval, CodeType) else one.argrepr
        if one.positions.lineno is not None:
            found[one.positions.lineno].append((what, *one.positions))
    return found


# Jumps depend on other lines. Intrinsics print what the last line of a cell returns.
_NOT_COMPARED = {
    *dis.hasjrel,
    *dis.hasjabs,
    *(code for name, code in dis.opmap.items() if name.startswith("CALL_INTRINSIC")),
}
