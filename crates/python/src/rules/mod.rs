//! Lowering rules that users write in Python.

mod context;
mod emit;
mod loan;
mod operand;
mod value;
mod wrong;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use jaxpr::JaxprId;
use lower::{Context, ExternalRule, ExternalRules, Parts, RuleError};
use onnx::intern;
use provenance::{Frame, SourceLocation, Span};
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use rustc_hash::FxHashMap;
use tensor::Type;
use tensor::bounds::same_type;

pub(crate) use context::LoweringContext;
pub(crate) use value::Value;

use crate::jax_names::class;
use crate::read::{Address, Tracebacks};
use loan::Loan;

/// A registered rule: the primitive, the function, its code object, and its file, name and first
/// line.
pub(crate) type Registered = (String, Py<PyAny>, Py<PyAny>, (String, String, u32));

/// The state that all rules of one conversion share.
#[derive(Debug, Default)]
pub(crate) struct Shared {
    /// The equations that are left to rules, by their number.
    eqns: Vec<Py<PyAny>>,
    /// The jaxprs of the program, by the address of their objects.
    jaxprs: FxHashMap<Address, JaxprId>,
    /// The failure of something inside a rule, and the exception that represents it.
    inner: Mutex<Option<(Py<PyAny>, RuleError)>>,
    /// The failure of a rule.
    failure: Mutex<Option<Failure>>,
}

/// The details of a failed rule, besides the reason.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The line of the rule.
    pub(crate) place: SourceLocation,
    pub(crate) help: Option<String>,
    /// The exception that the rule raised.
    pub(crate) cause: Option<PyErr>,
}

impl Shared {
    pub(crate) fn new(eqns: Vec<Py<PyAny>>, jaxprs: FxHashMap<Address, JaxprId>) -> Arc<Self> {
        Arc::new(Self { eqns, jaxprs, ..Self::default() })
    }

    /// Takes the details of the failed rule.
    pub(crate) fn take_failure(&self) -> Option<Failure> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// The Python function of a rule.
#[derive(Debug)]
struct Function {
    function: Py<PyAny>,
    code: Py<PyAny>,
    name: &'static str,
    /// The displayed name of the file.
    file: &'static str,
    path: String,
    /// The line of its definition.
    line: u32,
}

/// A rule written in Python.
#[derive(Debug)]
struct Rule {
    function: Arc<Function>,
    shared: Arc<Shared>,
}

/// Returns the registered rules, for one conversion.
pub(crate) fn external(
    py: Python<'_>,
    registered: Vec<Registered>,
    tracebacks: &Tracebacks,
    shared: &Arc<Shared>,
) -> PyResult<ExternalRules> {
    let rule = |(primitive, function, code, definition): Registered| {
        let Frame { file, path, function: name, span, .. } =
            tracebacks.definition(py, definition)?;
        let function = Function {
            function,
            code,
            name: intern(&name),
            file: intern(&file),
            path: path.to_string(),
            line: span.line,
        };
        let rule = Rule { function: Arc::new(function), shared: Arc::clone(shared) };
        Ok((primitive.into(), Box::new(rule) as Box<dyn ExternalRule>))
    };
    registered.into_iter().map(rule).collect()
}

/// The number of calls of rules so far. It identifies calls, so that values of one call cannot be
/// used in another.
static CALLS: AtomicU64 = AtomicU64::new(0);

/// A mistake of a rule: the reason, and the position if it is known.
enum Mistake {
    Raised(PyErr),
    Returned(String, Option<u32>),
}

impl From<PyErr> for Mistake {
    fn from(error: PyErr) -> Self {
        Mistake::Raised(error)
    }
}

impl ExternalRule for Rule {
    fn name(&self) -> &'static str {
        self.function.name
    }

    fn lower(&self, cx: &mut Context<'_>, inputs: &[Parts]) -> Result<Vec<Parts>, RuleError> {
        Python::attach(|py| match self.call(py, cx, inputs) {
            Ok(results) => Ok(results),
            Err(mistake) => Err(self.explain(py, mistake)),
        })
    }
}

impl Rule {
    fn call(
        &self,
        py: Python<'_>,
        cx: &mut Context<'_>,
        inputs: &[Parts],
    ) -> Result<Vec<Parts>, Mistake> {
        let owner = CALLS.fetch_add(1, Ordering::Relaxed);
        let number = cx.eqn().external.and_then(|number| usize::try_from(number).ok());
        let Some(eqn) = number.and_then(|number| self.shared.eqns.get(number)) else {
            return Err(Mistake::Returned("the equation is not known".to_owned(), None));
        };
        let inputs: Vec<Value> = inputs
            .iter()
            .map(|parts| Value { parts: *parts, ty: cx.ty(parts.re()).clone(), owner })
            .collect();
        let (returned, assumed) = Loan::lend(py, cx, |loan| -> PyResult<_> {
            let context = LoweringContext {
                loan: Arc::clone(loan),
                owner,
                eqn: eqn.clone_ref(py),
                function: Arc::clone(&self.function),
                shared: Arc::clone(&self.shared),
                assumed: Mutex::default(),
            };
            let context = Bound::new(py, context)?;
            let arguments = inputs.into_iter().map(|v| Ok(Bound::new(py, v)?.into_any()));
            let arguments = std::iter::once(Ok(context.clone().into_any())).chain(arguments);
            let arguments = PyTuple::new(py, arguments.collect::<PyResult<Vec<_>>>()?)?;
            let returned = self.function.function.bind(py).call1(arguments)?;
            let assumed = context.get().assumed.lock().unwrap_or_else(PoisonError::into_inner);
            Ok((returned, assumed.clone()))
        })?;
        let results = returned_values(&returned, owner).map_err(|r| Mistake::Returned(r, None))?;
        let types: Vec<&Type> = cx.result_types().collect();
        if results.len() != types.len() {
            let (got, want) = (results.len(), types.len());
            let reason = format!("the rule returned {got} values instead of {want}");
            return Err(Mistake::Returned(reason, None));
        }
        for (i, (value, want)) in results.iter().zip(types).enumerate() {
            let kind = value.parts.is_complex() == want.dtype.is_complex();
            let part = Type::new(want.dtype.component(), want.shape.clone());
            if !kind || !same_type(&value.ty, &part) {
                let got = value.text();
                let reason = format!("the rule returned {got} as result {i} instead of {want}");
                let line = cx.line_in(self.name(), value.parts.re());
                return Err(Mistake::Returned(reason, line));
            }
        }
        for (value, index, line) in assumed {
            if results[index].parts != Parts::Real(value) {
                let reason = "the type of an operator's result is unknown; pass `out_types`";
                return Err(Mistake::Returned(reason.to_owned(), Some(line)));
            }
        }
        Ok(results.into_iter().map(|value| value.parts).collect())
    }

    /// Returns the error for the driver. The details are stored in the shared state.
    fn explain(&self, py: Python<'_>, mistake: Mistake) -> RuleError {
        let (reason, span, help, cause) = match mistake {
            Mistake::Returned(reason, line) => {
                let line = line.unwrap_or(self.function.line);
                (reason, Some(Span { line, ..Span::default() }), None, None)
            }
            Mistake::Raised(error) => {
                let inner = self.shared.inner.lock().unwrap_or_else(PoisonError::into_inner).take();
                if let Some((exception, inner)) = inner
                    && error.value(py).is(&exception)
                {
                    return inner;
                }
                let text = |name: &str| -> Option<String> {
                    let ours = error.value(py).is_instance(class::error(py).ok()?).ok()?;
                    ours.then(|| error.value(py).getattr(name).ok()?.extract().ok()).flatten()
                };
                let help = text("help").filter(|help| !help.is_empty());
                let unsupported = class::unsupported_error(py);
                let unsupported = unsupported.and_then(|class| error.value(py).is_instance(class));
                if let (Ok(true), Some(reason)) = (unsupported, text("message")) {
                    return RuleError::Unsupported { reason, help };
                }
                let reason = text("message").unwrap_or_else(|| {
                    let kind =
                        error.get_type(py).name().map_or_else(|_| "?".into(), |n| n.to_string());
                    let said = error.value(py).to_string();
                    let said = if said.is_empty() { said } else { format!(": {said}") };
                    format!("the rule raised {kind}{said}")
                });
                let place = self.place(py, &error).ok().flatten();
                let cause = match text("message") {
                    // The cause adds nothing new.
                    Some(_) => None,
                    None => Some(error),
                };
                (reason, place, help, cause)
            }
        };
        let definition = Span { line: self.function.line, ..Span::default() };
        let place = SourceLocation {
            label: Some("the rule".to_owned()),
            file: self.function.file.to_owned(),
            path: self.function.path.clone(),
            function: self.function.name.to_owned(),
            scope: String::new(),
            span: span.unwrap_or(definition),
        };
        let failure = Failure { place, help, cause };
        *self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(failure);
        RuleError::External(reason)
    }

    /// Returns the expression of the rule that an exception passed through.
    fn place(&self, py: Python<'_>, error: &PyErr) -> PyResult<Option<Span>> {
        let mut found = None;
        let Some(level) = error.traceback(py) else { return Ok(None) };
        let mut level = level.into_any();
        while !level.is_none() {
            let code = level.getattr("tb_frame")?.getattr("f_code")?;
            if code.is(&self.function.code) {
                let instruction: usize = level.getattr("tb_lasti")?.extract()?;
                let line: u32 = level.getattr("tb_lineno")?.extract()?;
                let position = code.call_method0("co_positions")?.try_iter()?.nth(instruction / 2);
                let position: Option<(u32, u32, u32, u32)> =
                    position.transpose()?.and_then(|position| position.extract().ok());
                found = Some(match position {
                    Some((line, end_line, column, end_column)) => {
                        Span { line, column, end_line, end_column }
                    }
                    None => Span { line, ..Span::default() },
                });
            }
            level = level.getattr("tb_next")?;
        }
        Ok(found)
    }
}

/// Returns the values that a rule returned: one, or a sequence.
fn returned_values(returned: &Bound<'_, PyAny>, owner: u64) -> Result<Vec<Value>, String> {
    let value = |object: &Bound<'_, PyAny>| -> Result<Value, String> {
        let Ok(value) = object.cast::<Value>() else {
            let ty = object.get_type().name().map_or_else(|_| "?".into(), |name| name.to_string());
            let hint = "rules must return values from `ctx.op` or `ctx.constant`";
            return Err(format!("the rule returned `{ty}` instead of a value; {hint}"));
        };
        if value.get().owner != owner {
            return Err("the rule returned a value from another call".to_owned());
        }
        Ok(value.get().clone())
    };
    if let Ok(tuple) = returned.cast::<PyTuple>() {
        return tuple.iter().map(|object| value(&object)).collect();
    }
    if let Ok(list) = returned.cast::<PyList>() {
        return list.iter().map(|object| value(&object)).collect();
    }
    Ok(vec![value(returned)?])
}

/// Returns `true` if an exception is one that programs handle, rather than a request to stop.
pub(crate) fn is_ordinary(py: Python<'_>, error: &PyErr) -> bool {
    error.is_instance_of::<PyException>(py)
}
