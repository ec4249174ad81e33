//! The edge: every error of the Rust side becomes a diagnostic, and a diagnostic a Python exception.

use std::sync::Arc;

use lower::Missing;
use optimize::legalize;
use provenance::{
    CallId, Detail, Diagnostic, FrameKind, OriginId, Origins, Place, ScopeId, StackId, Stacks,
};
use pyo3::exceptions::PyOSError;
use pyo3::prelude::*;

use crate::rules::Failure as RuleFailure;

/// Why a jaxpr cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    /// An element type that ONNX does not have.
    #[error("the element type `{0}` does not exist in ONNX")]
    DType(String),
    /// A constant whose elements take less than a byte.
    #[error(
        "a constant of type `{0}`, whose elements take less than a byte, cannot be written yet"
    )]
    PackedConstant(String),
    /// A dimension that is larger than ONNX can have.
    #[error("a dimension of {0} is larger than ONNX has")]
    Dimension(String),
    /// A value that is no array, such as a reference or a token.
    #[error("a value of type `{0}` is no array and cannot be part of an ONNX model")]
    NoArray(String),
    /// An equation that JAX itself cannot put in terms of others.
    #[error("`{primitive}`: {reason}")]
    Expansion {
        /// The primitive.
        primitive: Arc<str>,
        /// JAX's reason.
        reason: String,
    },
    /// A jaxpr that is not built as expected.
    #[error("the jaxpr cannot be read: {0}")]
    Malformed(String),
    /// An exception on the Python side.
    #[error(transparent)]
    Python(#[from] PyErr),
    /// Any of these, at an equation.
    #[error("{error}")]
    At {
        /// What happened.
        error: Box<ReadError>,
        /// The equation's stack.
        stack: StackId,
    },
}

impl ReadError {
    /// The same error, at an equation if one is known.
    pub(crate) fn at(self, stack: Option<StackId>) -> Self {
        match stack {
            Some(stack) => ReadError::At { error: Box::new(self), stack },
            None => self,
        }
    }
}

/// The primitives that call Python.
const CALLBACKS: &[&str] = &["io_callback", "pure_callback"];

/// The classes of `jax2onnx.errors`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Unsupported,
    InvalidInput,
    Internal,
}

impl Family {
    fn class_name(self) -> &'static str {
        match self {
            Family::Unsupported => "UnsupportedError",
            Family::InvalidInput => "InvalidInputError",
            Family::Internal => "InternalError",
        }
    }
}

const REPORT: &str =
    "this is a bug in jax2onnx, not in your code: please report it with the function above";

/// The lines of source files, by path and number.
pub(crate) fn source_lines(
    py: Python<'_>,
) -> PyResult<impl Fn(&str, u32) -> Option<String> + use<'_>> {
    let linecache = py.import("linecache")?;
    Ok(move |path: &str, number: u32| {
        let line = linecache.call_method1("getline", (path, number));
        let text: String = line.ok()?.extract().ok()?;
        (!text.is_empty()).then_some(text)
    })
}

/// Raises a diagnostic as an exception of its family.
pub(crate) fn raise(py: Python<'_>, family: Family, diagnostic: &Diagnostic) -> PyErr {
    let build = || -> PyResult<PyErr> {
        let line = source_lines(py)?;
        let class = py.import("jax2onnx.errors")?.getattr(family.class_name())?;
        let place = diagnostic.render_places(&line);
        let help = diagnostic.help.as_deref().unwrap_or_default();
        let error = class.call1((diagnostic.code, &diagnostic.message, place, help))?;
        Ok(PyErr::from_value(error))
    };
    build().unwrap_or_else(|error| error)
}

/// The places of the program that errors refer to. Stacks are resolved as they are asked for.
pub(crate) struct Places<'a> {
    pub(crate) origins: &'a Origins,
    pub(crate) stacks: &'a mut Stacks,
    /// Resolves one stack.
    pub(crate) resolve: &'a dyn Fn(&mut Stacks, StackId),
}

impl Places<'_> {
    pub(crate) fn of_call(&mut self, call: CallId, scope: ScopeId) -> Option<Place> {
        let chain: Vec<StackId> = self.origins.chain(call).filter_map(|(s, _)| s).collect();
        for stack in &chain {
            (self.resolve)(self.stacks, *stack);
        }
        let frames = || chain.iter().flat_map(|id| self.stacks.frames(*id));
        let user = frames().find(|f| f.kind == FrameKind::User);
        let frame = user.or_else(|| frames().find(|f| f.kind == FrameKind::Library))?;
        Some(Place::new(frame, self.origins.scope_path(scope)))
    }

    fn of_origin(&mut self, origin: OriginId) -> Option<Place> {
        let origin = self.origins.get(origin);
        let (call, scope) = (origin.call?, origin.scope);
        self.of_call(call, scope)
    }

    /// What a failed lowering tells the user.
    pub(crate) fn lowering(
        &mut self,
        error: lower::Error,
        rule: Option<&RuleFailure>,
    ) -> (Family, Diagnostic) {
        let message = error.to_string();
        match error {
            lower::Error::MissingRules(missing) => (Family::Unsupported, self.missing(&missing)),
            lower::Error::Unsupported { help, call, scope, .. } => {
                let places = self.of_call(call, scope).into_iter().collect();
                let code = "unsupported-equation";
                (Family::Unsupported, Diagnostic { code, message, places, help })
            }
            lower::Error::Internal { call, scope, .. } => {
                let places = self.of_call(call, scope).into_iter().collect();
                let help = Some(REPORT.to_owned());
                (Family::Internal, Diagnostic { code: "wrong-lowering", message, places, help })
            }
            lower::Error::External { call, scope, .. } => {
                let places = self.of_call(call, scope).into_iter();
                let places = places.chain(rule.map(|rule| rule.place.clone())).collect();
                let help = rule.and_then(|rule| rule.help.clone());
                (Family::InvalidInput, Diagnostic { code: "wrong-rule", message, places, help })
            }
            lower::Error::Boundary(_) => {
                let diagnostic =
                    Diagnostic { code: "invalid-boundary", message, places: vec![], help: None };
                (Family::InvalidInput, diagnostic)
            }
        }
    }

    /// One report for all primitives without a rule, one line of the program each.
    fn missing(&mut self, missing: &[Missing]) -> Diagnostic {
        let mut names: Vec<&str> = missing.iter().map(|m| &*m.primitive).collect();
        names.sort_unstable();
        names.dedup();
        let message = match names.as_slice() {
            [one] => format!("`{one}` has no ONNX lowering"),
            many => format!(
                "{} primitives have no ONNX lowering: {}",
                many.len(),
                many.iter().map(|n| format!("`{n}`")).collect::<Vec<_>>().join(", ")
            ),
        };
        let mut places: Vec<Place> = Vec::new();
        for entry in missing {
            if let Some(mut place) = self.of_call(entry.call, entry.scope) {
                place.label = (names.len() > 1).then(|| format!("`{}`", entry.primitive));
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        let help = match names.iter().any(|name| CALLBACKS.contains(name)) {
            true => {
                "a model cannot call Python: express the callback with jax.numpy, compute it outside the exported function, or write a rule for it with @jax2onnx.lowering"
            }
            false => {
                "rewrite these lines with supported operations, or compute them outside the exported function"
            }
        };
        Diagnostic { code: "unsupported-primitive", message, places, help: Some(help.to_owned()) }
    }

    /// What an operator that was nearly recognised tells the user.
    pub(crate) fn missed(&mut self, missed: &optimize::Missed) -> String {
        let at = match self.of_origin(missed.origin) {
            Some(place) => format!(" at {}:{}", place.file, place.span.line),
            None => String::new(),
        };
        format!("{}{at} stays elementary: {}", missed.op, missed.reason)
    }

    /// What a wrong rewrite tells the user.
    pub(crate) fn optimizing(&mut self, error: &optimize::Error) -> (Family, Diagnostic) {
        let places = error.origin.and_then(|o| self.of_origin(o)).into_iter().collect();
        let (message, help) = (error.to_string(), Some(REPORT.to_owned()));
        (Family::Internal, Diagnostic { code: "wrong-rewrite", message, places, help })
    }

    /// What a failed legalisation tells the user.
    pub(crate) fn legalizing(&mut self, error: legalize::Error) -> (Family, Diagnostic) {
        let message = error.to_string();
        match error {
            legalize::Error::Unsupported { origin, .. } => {
                let places = self.of_origin(origin).into_iter().collect();
                let code = "unsupported-by-target";
                (Family::Unsupported, Diagnostic { code, message, places, help: None })
            }
            legalize::Error::Graph(error) => self.building(&error),
        }
    }

    /// What an invalid graph, or one that the asked opset cannot express, tells the user.
    pub(crate) fn building(&mut self, error: &onnx::Error) -> (Family, Diagnostic) {
        let message = error.to_string();
        let (family, code, origin, help) = match error {
            onnx::Error::OpsetTooOld { origin, .. } => {
                let help = "leave `opset` out to get the lowest one that the model needs";
                (Family::InvalidInput, "opset-too-old", *origin, Some(help))
            }
            onnx::Error::OpsetUnsupported { .. } => {
                (Family::InvalidInput, "invalid-option", None, None)
            }
            onnx::Error::NestedTooDeep { origin, .. } => {
                (Family::Unsupported, "nested-too-deep", *origin, Some(DEEP))
            }
            onnx::Error::TooLarge(_) => {
                (Family::InvalidInput, "model-too-large", None, Some(LARGE))
            }
            _ => (Family::Internal, "invalid-graph", None, Some(REPORT)),
        };
        let places = origin.and_then(|o| self.of_origin(o)).into_iter().collect();
        (family, Diagnostic { code, message, places, help: help.map(ToOwned::to_owned) })
    }
}

const DEEP: &str = "nest fewer conditions and loops inside each other";
const LARGE: &str = "export with return_mode=\"file\" and the standard export mode, which put weights into a file beside the model";

/// What a failed read tells the user.
pub(crate) fn reading(py: Python<'_>, error: ReadError, stacks: &Stacks) -> PyErr {
    let (error, places) = match error {
        ReadError::At { error, stack } => {
            let frame = stacks.frames(stack).find(|f| f.kind == FrameKind::User);
            let place = frame.or_else(|| stacks.frames(stack).next()).map(|f| Place::new(f, ""));
            (*error, place.into_iter().collect())
        }
        other => (other, Vec::new()),
    };
    let message = error.to_string();
    let (family, code, help) = match error {
        ReadError::Python(error) => return error,
        ReadError::At { error, .. } => return reading(py, *error, stacks),
        ReadError::DType(_) => (Family::Unsupported, "unsupported-dtype", None),
        ReadError::PackedConstant(_) => {
            let help = "keep it as `int8` or `uint8` and convert it where it is used";
            (Family::Unsupported, "unsupported-dtype", Some(help.to_owned()))
        }
        ReadError::Dimension(_) => (Family::Unsupported, "unsupported-dimension", None),
        ReadError::NoArray(_) => (Family::Unsupported, "unsupported-value", None),
        ReadError::Expansion { .. } => (Family::Unsupported, "unsupported-equation", None),
        ReadError::Malformed(_) => (Family::Internal, "unexpected-jaxpr", Some(REPORT.to_owned())),
    };
    raise(py, family, &Diagnostic { code, message, places, help })
}

/// What a failed write tells the user.
pub(crate) fn writing(py: Python<'_>, error: onnx::Error) -> PyErr {
    let onnx::Error::Io { path, source } = error else {
        let (origins, mut stacks) = (Origins::default(), Stacks::default());
        let mut places = Places { origins: &origins, stacks: &mut stacks, resolve: &|_, _| {} };
        let (family, diagnostic) = places.building(&error);
        return raise(py, family, &diagnostic);
    };
    let path = path.display().to_string();
    let reason = source.to_string();
    match source.raw_os_error() {
        // An errno gives the subclass that Python programs catch: PermissionError and such.
        Some(errno) => {
            let reason = reason.split(" (os error").next().unwrap_or_default().to_owned();
            PyOSError::new_err((errno, reason, path))
        }
        None => PyOSError::new_err(format!("{path}: {reason}")),
    }
}

/// The detail level, from the word that Python passes.
pub(crate) fn detail(py: Python<'_>, word: &str) -> PyResult<Detail> {
    word.parse().map_err(|error: provenance::DetailError| {
        let diagnostic = Diagnostic {
            code: "invalid-option",
            message: error.to_string(),
            places: vec![],
            help: None,
        };
        raise(py, Family::InvalidInput, &diagnostic)
    })
}
