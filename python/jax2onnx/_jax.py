"""JAX's undocumented API: everything that this package uses of it, for all supported versions.

The compiled part has its own list of the names that it reads of a jaxpr.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import jax
import jax.experimental
import numpy as np

from jax2onnx._python.objects import cells


def precision(*, double: bool) -> AbstractContextManager[Any]:
    """Turns 64-bit types on for the current thread, or leaves them as they are."""
    if not double:
        return nullcontext()
    namespace: Any = jax if hasattr(jax, "enable_x64") else jax.experimental  # before JAX 0.8
    context: AbstractContextManager[Any] = namespace.enable_x64(True)
    return context


def tracing_key(key: str) -> AbstractContextManager[Any]:
    """Isolates JAX's tracing caches: traces inside the block are reused only under the same key.

    XLA metadata is part of the cache key of traced functions and does not change the jaxpr. A
    context from `jax.make_user_context` would work too, but creating one discards all functions
    that the process has compiled so far.
    """
    from jax._src import config

    state: Any = getattr(config, "xla_metadata_context_manager", None)
    if hasattr(state, "swap_local"):
        return _with_metadata(state, key)
    from jax.experimental.xla_metadata import set_xla_metadata

    context: AbstractContextManager[Any] = set_xla_metadata(jax2onnx=key)
    return context


class _Metadata(str):
    """XLA metadata as a string. JAX compares the current metadata thousands of times during a
    trace, and its own class does that in Python.

    Attributes:
        val: The metadata as JAX reads it.
    """

    val: dict[str, Any]


@contextmanager
def _with_metadata(state: Any, key: str) -> Iterator[None]:
    outer = getattr(state.value, "val", None) or {}
    metadata = _Metadata(f"{key} {sorted(outer.items())}")
    metadata.val = {**outer, "jax2onnx": key}
    previous = state.swap_local(metadata)
    try:
        yield
    finally:
        state.set_local(previous)


def without_mesh() -> AbstractContextManager[Any]:
    """Hides the mesh of `jax.set_mesh`. Equations of a jaxpr carry their own shardings."""
    from jax._src import mesh

    namespace: Any = jax.sharding if hasattr(jax.sharding, "use_abstract_mesh") else mesh  # JAX 0.7
    context: AbstractContextManager[Any]
    context = namespace.use_abstract_mesh(jax.sharding.AbstractMesh((), ()))
    return context


def explicit_sharding(value: Any) -> Any:
    """Returns the sharding of an array or a spec if it is part of JAX's type, or else None."""
    sharding = getattr(value, "sharding", None)
    mesh: Any = getattr(sharding, "mesh", None)
    axes = getattr(mesh, "axis_types", None) or ()
    if jax.sharding.AxisType.Explicit not in axes:
        return None
    if isinstance(value, jax.Array):
        # The sharding of an array of keys is that of its integers, which have more axes.
        return jax.sharding.NamedSharding(mesh, jax.typeof(value).sharding.spec)
    return sharding


def traceback() -> object:
    """Returns the current call stack as jaxlib's `Traceback`."""
    from jax.extend import source_info_util

    return source_info_util.current().traceback


def unwrapped(array: Any) -> Any:
    """Unwraps a constant of a jaxpr that wraps a NumPy array."""
    value = getattr(array, "val", None)  # JAX 0.8 wraps them
    return value if isinstance(value, np.ndarray) else array


def is_symbolic(dim: Any) -> bool:
    """Returns `True` if `dim` is a symbolic dimension."""
    from jax import export

    return export.is_symbolic_dim(dim)


def symbolic_scope(dim: Any) -> Any:
    return dim.scope


def constraints(scope: Any) -> list[str]:
    """Returns the constraints of a scope as they were given."""
    return [constraint.debug_str for constraint in scope._explicit_constraints]


def one_scope(scopes: Sequence[Any]) -> Any:
    """Returns a scope with the constraints of all: the first one, if the others add none."""
    from jax import export

    texts = dict.fromkeys(text for scope in scopes for text in constraints(scope))
    if len(texts) == len(dict.fromkeys(constraints(scopes[0]))):
        return scopes[0]
    return export.SymbolicScope(list(texts))


def in_scope(dim: Any, scope: Any) -> Any:
    """Moves a symbolic dimension to another scope, where its variables have the same names."""
    from jax import export

    return dim if dim.scope is scope else export.symbolic_shape(str(dim), scope=scope)[0]


def sizes(shape: Sequence[Any], size_of: Callable[[str], int]) -> tuple[int, ...]:
    """Evaluates a shape for the given sizes of its dimension variables."""
    return tuple(size(dim, size_of) for dim in shape)


def size(dim: Any, size_of: Callable[[str], int]) -> int:
    """Evaluates a dimension for the given sizes of its variables."""
    if not is_symbolic(dim):
        return int(dim)
    return int(dim._evaluate({name: size_of(name) for name in dim._get_vars()}))


def evaluated(dim: Any, sizes: Mapping[str, int]) -> int | None:
    """Evaluates a dimension if the sizes of its variables are known."""
    if is_symbolic(dim) and not set(dim._get_vars()) <= sizes.keys():
        return None
    return size(dim, sizes.__getitem__)


def variables(sizes: Iterable[tuple[Any, int]], *, exact: bool = True) -> dict[str, int]:
    """Solves for dimension variables: `P - 1` with size 3 makes `P` 4.

    Variables that no linear dimension determines are absent. Unless `exact`, `2*P` with size 5
    makes `P` 2 instead of nothing.
    """
    found: dict[str, int] = {}
    left = [(dim, wanted) for dim, wanted in sizes if is_symbolic(dim)]
    while left:
        count = len(found)
        for dim, wanted in left:
            unknown = [name for name in dim._get_vars() if name not in found]
            if len(unknown) == 1:
                # Sizes at three points show whether the dimension is linear, unlike `P * P` or
                # `max(P, 2)`.
                at = [size(dim, {**found, unknown[0]: n}.__getitem__) for n in (1, 2, 3)]
                step = at[1] - at[0]
                divisible = not exact or (step and (wanted - at[0]) % step == 0)
                if step and at[2] - at[1] == step and divisible:
                    found[unknown[0]] = 1 + (wanted - at[0]) // step
        if len(found) == count:
            break
    return found


def mapped(function: Any) -> Any:
    """Returns the function that `jax.vmap` maps if its docstring has braces: then JAX omits
    `__wrapped__` and the signature. Returns other functions unchanged.
    """
    inner = function
    for _ in range(100):  # `__wrapped__` may be a cycle
        if hasattr(inner, "__signature__") or not hasattr(inner, "__wrapped__"):
            break
        inner = inner.__wrapped__
    if getattr(inner, "__qualname__", "") != "vmap.<locals>.vmap_f":
        return function
    return dict(cells(inner)).get("fun", function)


def opens_scope(function: object) -> bool:
    """Returns `True` if `function` was decorated with `jax.named_scope`."""
    return any(isinstance(value, _NAMED_SCOPE) for _, value in cells(function))


_NAMED_SCOPE = type(jax.named_scope(""))


def key_implementation(dtype: Any) -> Any:
    """Returns the implementation of a PRNG key type: its `seed`, `split` and other functions."""
    return dtype._impl


def _core() -> Any:
    """Returns JAX's core, untyped: not every version declares that it exports `ClosedJaxpr`."""
    from jax.extend import core

    return core


def function_of(jaxpr: Any, consts: Any = ()) -> Any:
    """Returns a jaxpr as a function that returns a list."""
    closed = jaxpr if hasattr(jaxpr, "consts") else _core().ClosedJaxpr(jaxpr, consts)
    return _core().jaxpr_as_fun(closed)


def open_jaxpr(jaxpr: Any) -> Any:
    """Returns a jaxpr without its constants."""
    return getattr(jaxpr, "jaxpr", jaxpr)


# The primitive whose value is a dimension, and the parameter with that dimension.
DIMENSION = ("dim_as_value", "dim")


def scan_operands(params: Any) -> tuple[int, int]:
    """Returns the number of constant operands of a scan, and the number of carried ones."""
    if "ft_in" in params:  # from JAX 0.12 on
        constants, carried, *_ = params["ft_in"].unpack()
        return len(constants), len(carried)
    return params["num_consts"], params["num_carry"]


def equation(eqn: Any, jaxpr: Any) -> tuple[list[Any], Any]:
    """Returns the variables that an equation reads, each once, and the equation as a function."""
    invars = list({id(v): v for v in eqn.invars if not is_literal(v)}.values())
    alone = excerpt(jaxpr, [], invars, [eqn], list(eqn.outvars))
    return invars, _core().jaxpr_as_fun(closed_jaxpr(alone, []))


def excerpt(
    jaxpr: Any,
    constvars: Sequence[Any],
    invars: Sequence[Any],
    eqns: Sequence[Any],
    outvars: Sequence[Any],
) -> Any:
    """Returns a jaxpr of some of the equations of another one."""
    # JAX before 0.8 lacks this method and does not need it.
    unnamed = getattr(jaxpr.debug_info, "with_unknown_names", None)
    return jaxpr.replace(
        constvars=list(constvars),
        invars=list(invars),
        outvars=list(outvars),
        eqns=list(eqns),
        debug_info=unnamed() if unnamed else jaxpr.debug_info,
    )


def closed_jaxpr(jaxpr: Any, consts: Sequence[Any]) -> Any:
    return _core().ClosedJaxpr(jaxpr, list(consts))


def without_dead_code(closed: Any) -> Any:
    """Removes the equations that no output depends on, in bodies as well."""
    from jax.interpreters import partial_eval

    jaxpr, _ = partial_eval.dce_jaxpr(closed.jaxpr, [True] * len(closed.jaxpr.outvars), True)
    return closed_jaxpr(jaxpr, closed.consts)


# The documented modules that contain primitives.
PRIMITIVES = ("jax.lax", "jax.extend.core.primitives", "jax.lax.linalg")


@functools.cache
def primitive_paths() -> dict[str, tuple[str, str]]:
    """Returns the module and the name in it of each primitive, by JAX's name of the primitive."""
    from importlib import import_module

    found: dict[str, tuple[str, str]] = {}
    for name in PRIMITIVES:
        for attribute, value in vars(import_module(name)).items():
            if attribute.endswith("_p") and hasattr(value, "bind"):
                found.setdefault(value.name, (name, attribute))
    return found


def is_literal(atom: Any) -> bool:
    """Returns `True` if an operand is a literal."""
    return isinstance(atom, _core().Literal)


def is_jaxpr(value: Any) -> bool:
    """Returns `True` if a parameter is a jaxpr, with or without constants."""
    return isinstance(value, _core().ClosedJaxpr | _core().Jaxpr)


def bodies_of(eqn: Any) -> list[Any]:
    """Returns the jaxprs among the parameters of an equation, with or without constants."""
    found: list[Any] = []
    for param in eqn.params.values():
        if hasattr(param, "eqns"):  # asking for the type takes longer
            found.append(param)
        elif type(param) is tuple or type(param) is list:
            found += [entry for entry in param if hasattr(entry, "eqns")]
    return found


def without_references(closed: Any) -> Any:
    """Converts references (`jax.new_ref`) in a jaxpr to values that each write replaces."""
    if not any(type(effect).__name__ == "InternalMutableArrayEffect" for effect in closed.effects):
        return closed
    from jax._src.interpreters import pxla

    return pxla._discharge_internal_refs(closed)


def callback_of(eqn: Any) -> Any:
    callback = eqn.params["callback"]
    return getattr(callback, "callback_func", callback)


def implementations(primitive: Any) -> list[Callable[..., Any]]:
    """Returns the implementations of a primitive that JAX may be able to trace: the function given
    to `def_impl`, and those that its lowering rules wrap.
    """
    from jax._src.interpreters import mlir

    found = [primitive.impl]
    for table in (mlir._platform_specific_lowerings["cpu"], mlir._lowerings):
        entry: Any = table.get(primitive)
        rule = getattr(entry, "rule", entry)  # the rule itself in older versions
        if getattr(rule, "__qualname__", "").startswith(mlir.lower_fun.__qualname__):
            found.append(dict(cells(rule))["fun"])
    return found


def pallas_loops(eqn: Any) -> Callable[..., Any]:
    """Returns a function that runs a Pallas kernel as a loop over its grid, in JAX's operations."""
    from jax._src.pallas import hlo_interpreter

    params = {name: value for name, value in eqn.params.items() if name != "interpret"}
    return lambda *operands: hlo_interpreter.pallas_call_hlo_interpret(*operands, **params)


def stablehlo_module(exported: Any) -> Any:
    """Returns the module of a function that `jax.export` wrote, as an operation of MLIR."""
    from jax._src.interpreters import mlir
    from jaxlib.mlir.dialects import stablehlo

    context: Any = mlir.make_ir_context()
    with context:
        module = stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized)
    return module.operation


def geqrf(x: Any) -> list[Any]:
    """Returns Householder reflectors and their scales."""
    from jax._src.lax import linalg

    return list(linalg.geqrf(x))


def larger_size(a: Any, b: Any) -> Any:
    """Returns the larger of two sizes, which may be symbolic."""
    return jax.core.max_dim(a, b)


def smaller_size(a: Any, b: Any) -> Any:
    """Returns the smaller of two sizes, which may be symbolic."""
    return jax.core.min_dim(a, b)


def primitive(name: str) -> Any:
    from importlib import import_module

    module, attribute = primitive_paths().get(name, ("", ""))
    return getattr(import_module(module), attribute) if module else None


def literal(array: Any) -> Any:
    """Returns an array as an operand."""
    value = array[()] if not array.shape else array
    return _core().Literal(value, jax.typeof(value))


def equations_in(jaxpr: Any) -> Iterator[Any]:
    """Yields the equations of a jaxpr and of those inside it."""
    for eqn in jaxpr.eqns:
        yield eqn
        yield from equations_inside(eqn)


def equations_inside(eqn: Any) -> Iterator[Any]:
    """Yields the equations of the jaxprs that an equation has as parameters."""
    for param in jax.tree_util.tree_leaves(list(eqn.params.values()), is_leaf=is_jaxpr):
        if is_jaxpr(param):
            yield from equations_in(open_jaxpr(param))


def bind(eqn: Any, operands: Sequence[Any]) -> list[Any]:
    """Applies an equation to other operands."""
    params = eqn.primitive.get_bind_params(eqn.params)
    functions, params = params if isinstance(params, tuple) else ((), params)  # before JAX 0.10
    results = eqn.primitive.bind(*functions, *operands, **params)
    return list(results) if eqn.primitive.multiple_results else [results]


def as_if_in(eqn: Any, inside: Sequence[Any] | None = None) -> AbstractContextManager[Any]:
    """Attributes equations that are traced inside the block to the line and the scope of an
    equation, or to the levels `inside` of a name stack.
    """
    from jax._src import source_info_util

    info = eqn.source_info
    stack = info.name_stack if inside is None else type(info.name_stack)(tuple(inside))
    outer = source_info_util.current_name_stack()
    context: AbstractContextManager[Any] = source_info_util.user_context(
        info.traceback, name_stack=outer + stack
    )
    return context


def levels(eqn: Any) -> tuple[Any, ...]:
    """Returns the levels of an equation's name stack, each with a name."""
    return tuple(eqn.source_info.name_stack.stack)


def frames_of(eqn: Any) -> list[Any]:
    """Returns the call stack of an equation, innermost frame first, up to the function whose trace
    contains it. Frames have `file_name`, `function_name` and `line_num`.
    """
    traceback = eqn.source_info.traceback
    frames = [] if traceback is None else traceback.frames
    # Newer versions end the stack there by themselves.
    tracers = (i for i, f in enumerate(frames) if f.function_name.startswith("trace_to_jaxpr"))
    return list(frames[: next(tracers, len(frames))])


def is_key(value: Any) -> bool:
    """Returns `True` for a random key, or integers that may be one or count its uses."""
    dtype: Any = getattr(value, "dtype", None)
    if dtype is None:
        return False
    return bool(jax.numpy.issubdtype(dtype, jax.dtypes.prng_key)) or (
        dtype == np.uint32 and value.size <= 4
    )


def scopes_of(eqn: Any) -> list[str]:
    """Returns the names of the scopes that an equation is in, without transformations."""
    return [level.name for level in levels(eqn) if type(level).__name__ == "Scope"]
