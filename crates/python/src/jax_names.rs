//! All names that this crate accesses in Python. When JAX renames something, only this file
//! changes.

use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

/// Attribute names, interned once.
macro_rules! attributes {
    ($($name:ident),* $(,)?) => {
        $(pub(crate) fn $name(py: Python<'_>) -> &Bound<'_, pyo3::types::PyString> {
            pyo3::intern!(py, stringify!($name))
        })*
    };
}

/// Interned attribute names: `name(py)` is the string `"name"`.
pub(crate) mod attr {
    use pyo3::prelude::*;

    attributes! {
        // jax.core.ClosedJaxpr and Jaxpr
        jaxpr, consts, constvars, invars, outvars, eqns,
        // jax.core.JaxprEqn
        primitive, params, source_info, effects,
        // jax.core.Primitive, numpy dtypes, scopes, enum members
        name,
        // jax.core.Var and Literal
        aval, val,
        // jax.core.ShapedArray
        shape, dtype, itemsize,
        // symbolic dimensions: their scope and its constraints
        scope, _explicit_constraints, debug_str,
        // source_info_util.SourceInfo, NameStack
        traceback, name_stack, stack,
        // jaxlib Traceback
        raw_frames, code_addr2location,
        // code objects
        co_filename, co_qualname,
        // named tuples, dataclasses
        _fields, __dataclass_fields__,
        // numpy
        asarray, ascontiguousarray, item, nbytes, reshape, view,
        // modules
        __dict__, __file__,
        // PRNG keys: element types, implementations, jax.random
        _impl, key_shape, key_data,
        // this project's `_expand.Expansions`
        of,
        // FlatTree
        unpack,
    }
}

/// The functions that trace a Python function into a jaxpr. In a traceback, all frames outside the
/// innermost one belong to the caller of the traced function, not to the function.
const TRACERS: &[&str] = &[
    "trace_to_jaxpr",
    "trace_to_jaxpr_dynamic",
    "trace_to_jaxpr_dynamic2",
    "trace_to_jaxpr_nocache",
];

/// Returns `true` if a function of JAX traces a Python function into a jaxpr.
pub(crate) fn is_tracer(function: &str) -> bool {
    TRACERS.contains(&function)
}

/// The functions that run another function in a scope, in newer and older versions.
const IN_SCOPE: &[&str] = &[
    "ExtendNameStackContextManager.__call__.<locals>.wrapper",
    "ContextDecorator.__call__.<locals>.inner",
];

/// Returns `true` if a function runs another function in a scope.
pub(crate) fn is_in_scope(function: &str) -> bool {
    IN_SCOPE.contains(&function)
}

/// The function that opens a scope with the name of its specification.
pub(crate) const EINSUM: &str = "einsum";

/// Parameters that do not affect the computation.
const IGNORED_PARAMS: &[&str] = &[
    "bwd",
    "compiler_options_kvs",
    "ctx_mesh",
    "donated_invars",
    "ft_out", // the structure of a scan's results, which follows from its operands
    "fwd_jaxpr_thunk",
    "in_layouts",
    "in_shardings",
    "jvp_jaxpr_fun",
    "mesh",
    "out_layouts",
    "out_sharding",
    "out_shardings",
    "out_trees",
    "policy",
    "sharding",
];

/// The parameter of `scan` that counts its operands in newer versions (constants, carry, arrays),
/// and the names of the first two counts in older ones.
pub(crate) const SCAN_OPERANDS: (&str, [&str; 2]) = ("ft_in", ["num_consts", "num_carry"]);

/// The parameters of `scan` with its body and the number of iterations.
pub(crate) const SCAN_ROUNDS: (&str, &str) = ("jaxpr", "length");

/// Returns `true` if a parameter does not affect the computation.
pub(crate) fn is_ignored_param(name: &str) -> bool {
    IGNORED_PARAMS.contains(&name)
}

/// A class that is looked up once per process.
macro_rules! classes {
    ($($(#[$doc:meta])* $name:ident = $module:literal, $class:literal;)*) => {
        $($(#[$doc])*
        pub(crate) fn $name(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
            static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
            CLASS.import(py, $module, $class)
        })*
    };
}

/// Classes of JAX and the standard library.
pub(crate) mod class {
    use super::{Bound, Py, PyOnceLock, PyResult, PyType, Python};

    classes! {
        closed_jaxpr = "jax.extend.core", "ClosedJaxpr";
        jaxpr = "jax.extend.core", "Jaxpr";
        literal = "jax.extend.core", "Literal";
        primitive = "jax.extend.core", "Primitive";
        scope = "jax._src.source_info_util", "Scope";
        numpy_dtype = "numpy", "dtype";
        numpy_array = "numpy", "ndarray";
        numpy_scalar = "numpy", "generic";
        jax_array = "jax", "Array";
        python_enum = "enum", "Enum";
        expansions = "jax2onnx._expansion.expand", "Expansions";
        error = "jax2onnx.errors", "Jax2OnnxError";
        unsupported_error = "jax2onnx.errors", "UnsupportedError";
    }
}

/// The module of the function that returns the integers of PRNG keys.
pub(crate) const RANDOM: &str = "jax.random";

/// The name of the class of symbolic dimensions. Importing the class would load a module that most
/// programs do not need.
pub(crate) const DIM_EXPR: &str = "_DimExpr";

/// The folders of JAX's own packages.
pub(crate) const JAX_PACKAGES: &[&str] = &["jax", "jaxlib"];

/// The function of this project's package that calls a function of the model.
pub(crate) const FUNCTION_FRAME: &str = "run_as_function";

/// The prefix of the scope of such a call, and the separator of its parts: the number of the call,
/// `u` if it is unique, `m` if it is a module's, the namespace and the name.
pub(crate) const FUNCTION_SCOPE: (&str, char) = ("jax2onnx.function|", '|');

/// The scope of computations that JAX repeats for a gradient.
pub(crate) const REMATERIALIZED_SCOPE: &str = "rematted_computation";

/// This project's Python package.
pub(crate) const CONVERTER_PACKAGE: &str = "jax2onnx";

/// The names that lead to the cells of a notebook: the module, its function that returns the
/// running shell, the shell's compiler, and the compiler's table of cell numbers by file name.
pub(crate) const NOTEBOOK: (&str, &str, &str, &str) =
    ("IPython", "get_ipython", "compile", "_filename_map");

/// The module and the function that find the text which code was compiled from.
pub(crate) const LOADED_TEXT: (&str, &str) = ("jax2onnx._python.loaded_text", "loaded_text");

/// A module at the root of the standard library.
pub(crate) const STANDARD_LIBRARY_MODULE: &str = "os";
