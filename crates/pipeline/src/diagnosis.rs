//! Diagnostics for users: what happened, where in the program, and what to do.

use lower::{Fault, Missing};
use optimize::legalize::{self, Fallback};
use optimize::{Missed, compute, weights};
use provenance::{
    CallId, Diagnostic, FrameKind, OriginId, Origins, ScopeId, SourceLocation, StackId, Stacks,
};

use crate::Error;

/// Suggestions for some primitives without a rule.
const INSTEAD: &[(&[&str], &str)] = &[
    (
        &["io_callback", "pure_callback"],
        "a model cannot call Python; express the callback with jax.numpy, compute it outside the exported function, or write a rule for it with @jax2onnx.lowering",
    ),
    (
        &["rng_uniform"],
        "its numbers are those of one compiler and cannot be reproduced; use jax.random.uniform with a key, whose numbers are the same everywhere",
    ),
];
const ANYTHING_ELSE: &str =
    "rewrite these lines with supported operations, or compute them outside the exported function";

/// The family of an error, by who can act on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// The program uses something that has no ONNX form.
    Unsupported,
    /// The user's request is wrong.
    InvalidInput,
    /// A bug in this project.
    Internal,
}

impl Family {
    /// Returns the class in `jax2onnx.errors`.
    pub fn class_name(self) -> &'static str {
        match self {
            Family::Unsupported => "UnsupportedError",
            Family::InvalidInput => "InvalidInputError",
            Family::Internal => "InternalError",
        }
    }
}

/// The suggestion for a bug of this project.
pub const REPORT: &str = "this is a bug in jax2onnx, not in your code; please report it with the file that `record=\"model.jaxpr\"` writes; `jax2onnx reduce model.jaxpr` makes it short";

/// The positions in the program that errors refer to. Stacks are resolved on demand.
pub struct Places<'a> {
    /// The origins that nodes and errors refer to.
    pub origins: &'a Origins,
    /// The stacks that origins refer to.
    pub stacks: &'a mut Stacks,
    /// The function that resolves one stack.
    pub resolve: &'a dyn Fn(&mut Stacks, StackId),
}

/// Describes a missed operator like [`Places::missed`], for stacks that are resolved.
pub(crate) fn missed(missed: &Missed, origins: &Origins, stacks: &Stacks) -> String {
    let origin = origins.get(missed.origin);
    let place = origin.call.and_then(|call| place_of(origins, stacks, call, origin.scope));
    missed_at(missed, place)
}

fn missed_at(missed: &Missed, place: Option<SourceLocation>) -> String {
    let at = place.map(|place| format!(" at {}:{}", place.file, place.span.line));
    format!("{}{} stays elementary: {}", missed.op, at.unwrap_or_default(), missed.reason)
}

fn place_of(
    origins: &Origins,
    stacks: &Stacks,
    call: CallId,
    scope: ScopeId,
) -> Option<SourceLocation> {
    let chain = || origins.chain(call).filter_map(|(stack, _)| stack);
    let frames = || chain().flat_map(|id| stacks.frames(id));
    let user = frames().find(|f| f.kind == FrameKind::User);
    let frame = user.or_else(|| frames().find(|f| f.kind == FrameKind::Library))?;
    Some(SourceLocation::new(frame, origins.scope_path(scope)))
}

impl std::fmt::Debug for Places<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Places").finish_non_exhaustive()
    }
}

impl Places<'_> {
    /// Turns an error into its family and a diagnostic for the user.
    pub fn diagnose(&mut self, error: Error) -> (Family, Diagnostic) {
        let message = error.to_string();
        let (family, code, position, help) = match error {
            Error::Lower(lower::Error::MissingRules(missing)) => {
                return (Family::Unsupported, self.missing(&missing));
            }
            Error::Lower(lower::Error::Equation { fault, call, scope, .. }) => {
                equation(fault, Position::Equation(call, scope))
            }
            Error::Lower(lower::Error::Boundary(_)) => {
                (Family::InvalidInput, "invalid-boundary", None, None)
            }
            Error::Optimize(error) => {
                let position = error.origin.map(Position::Node);
                (Family::Internal, "wrong-rewrite", position, Some(REPORT.to_owned()))
            }
            Error::Legalize(error) => legalizing(&error),
            Error::Compute(error) => computing(&error),
            Error::Weights(error) => storing(&error),
            Error::Onnx(error) => building(&error),
            Error::File(error) => writing(&error),
        };
        let place = match position {
            None => None,
            Some(Position::Node(origin)) => self.of_origin(origin),
            Some(Position::Equation(call, scope)) => self.of_call(call, scope),
        };
        (family, Diagnostic { code, message, places: place.into_iter().collect(), help })
    }

    /// Describes why an operator that the program spells out is not recognised.
    pub fn missed(&mut self, missed: &Missed) -> String {
        let place = self.of_origin(missed.origin);
        missed_at(missed, place)
    }

    /// Lists the nodes that a GPU leaves to the CPU: each operator, type and line once.
    pub fn fallbacks(&mut self, fallbacks: &[Fallback]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for one in fallbacks {
            let at = self.of_origin(one.origin);
            let at = at.map(|place| format!(" at {}:{}", place.file, place.span.line));
            let line = format!("{} on {}{}", one.op, one.dtype, at.unwrap_or_default());
            if !lines.contains(&line) {
                lines.push(line);
            }
        }
        lines
    }

    /// Returns the line of the user's program that an equation came from.
    pub fn of_call(&mut self, call: CallId, scope: ScopeId) -> Option<SourceLocation> {
        let chain: Vec<StackId> = self.origins.chain(call).filter_map(|(s, _)| s).collect();
        for stack in &chain {
            (self.resolve)(self.stacks, *stack);
        }
        place_of(self.origins, self.stacks, call, scope)
    }

    fn of_origin(&mut self, origin: OriginId) -> Option<SourceLocation> {
        let origin = self.origins.get(origin);
        let (call, scope) = (origin.call?, origin.scope);
        self.of_call(call, scope)
    }

    /// Returns one report for all primitives without a rule, with one line of the program each.
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
        let mut places: Vec<SourceLocation> = Vec::new();
        for entry in missing {
            if let Some(mut place) = self.of_call(entry.call, entry.scope) {
                place.label = (names.len() > 1).then(|| format!("`{}`", entry.primitive));
                if !places.contains(&place) {
                    places.push(place);
                }
            }
        }
        let known = |known: &&(&[&str], &str)| names.iter().any(|name| known.0.contains(name));
        let help = INSTEAD.iter().find(known).map_or(ANYTHING_ELSE, |(_, help)| help);
        Diagnostic { code: "unsupported-primitive", message, places, help: Some(help.to_owned()) }
    }
}

/// The position in the program that an error is about.
enum Position {
    Node(OriginId),
    Equation(CallId, ScopeId),
}

/// What a user needs to know of an error besides its message: its family, its code, its position
/// and a suggestion.
type Findings = (Family, &'static str, Option<Position>, Option<String>);

/// Describes an equation that cannot be lowered.
fn equation(fault: Fault, position: Position) -> Findings {
    let (family, code, help) = match fault {
        Fault::Unsupported(help) => (Family::Unsupported, "unsupported-equation", help),
        Fault::Rule => (Family::Internal, "wrong-lowering", Some(REPORT.to_owned())),
        Fault::External => (Family::InvalidInput, "wrong-rule", None),
    };
    (family, code, Some(position), help)
}

/// Describes a failed legalisation.
fn legalizing(error: &legalize::Error) -> Findings {
    match error {
        legalize::Error::Unsupported { origin, .. } => {
            let position = Some(Position::Node(*origin));
            (Family::Unsupported, "unsupported-by-target", position, None)
        }
        legalize::Error::OpsetTooNew { newest, .. } => {
            let help = format!("ask for opset {newest} or older, or for another target");
            (Family::InvalidInput, "opset-too-new", None, Some(help))
        }
        legalize::Error::Graph(error) => building(error),
    }
}

/// Describes a model that cannot compute in the requested precision.
fn computing(error: &compute::Error) -> Findings {
    let (code, help) = match error {
        compute::Error::Graph(error) => return building(error),
        compute::Error::NoMatch { names, .. } => {
            let help = format!("patterns match whole names, such as: {}", names.join(", "));
            ("unsuitable-compute", help)
        }
        compute::Error::Nothing { last, missing, dtype, .. } => {
            let dtype = dtype.numpy_name();
            let help = match (missing, last) {
                (Some((target, op)), _) => format!(
                    "{target} has no `{op}` in {dtype}; target=\"any\" allows all that ONNX defines"
                ),
                (None, true) => format!(
                    "products that no other product follows stay in float32 unless you write \"{dtype}:all\""
                ),
                (None, false) => {
                    "only products in float32, and operators on their results, can compute in another type".to_owned()
                }
            };
            ("nothing-computes", help)
        }
    };
    (Family::InvalidInput, code, None, Some(help))
}

/// Describes weights that cannot be stored in the requested format.
fn storing(error: &weights::Error) -> Findings {
    let help = match error {
        weights::Error::Graph(error) => return building(error),
        weights::Error::NoMatch { largest, .. } if largest.is_empty() => {
            "the model has no parameters".to_owned()
        }
        weights::Error::NoMatch { largest, .. } => {
            format!("patterns match whole names; the largest are: {}", largest.join(", "))
        }
        weights::Error::Unsuitable { .. } => {
            "exclude it with the format \"keep\", which stores a weight unchanged".to_owned()
        }
        weights::Error::Opset(_) => {
            "omit `opset`, or store weights as float16 or bfloat16".to_owned()
        }
    };
    (Family::InvalidInput, "unsuitable-weights", None, Some(help))
}

/// Describes a graph that is invalid, or that the requested opset cannot express.
fn building(error: &onnx::Error) -> Findings {
    let (family, code, origin, help) = match error {
        onnx::Error::OpsetTooOld { origin, .. } => {
            let help = "omit `opset` to get the lowest one that does not make the model slower";
            (Family::InvalidInput, "opset-too-old", *origin, Some(help))
        }
        onnx::Error::OpsetUnsupported { .. } => {
            (Family::InvalidInput, "invalid-option", None, None)
        }
        onnx::Error::Contents(_) => (Family::InvalidInput, "unreadable-weights", None, None),
        _ => (Family::Internal, "invalid-graph", None, Some(REPORT)),
    };
    (family, code, origin.map(Position::Node), help.map(ToOwned::to_owned))
}

/// Describes a model that cannot be encoded or written.
fn writing(error: &onnx_file::Error) -> Findings {
    let (family, code, origin, help) = match error {
        onnx_file::Error::Onnx(error) => return building(error),
        onnx_file::Error::TooDeep { origin } => {
            (Family::Unsupported, "nested-too-deep", *origin, Some(DEEP))
        }
        onnx_file::Error::TooLarge(_) => {
            (Family::InvalidInput, "model-too-large", None, Some(LARGE))
        }
        _ => (Family::Internal, "invalid-graph", None, Some(REPORT)),
    };
    (family, code, origin.map(Position::Node), help.map(ToOwned::to_owned))
}

const DEEP: &str = "nest fewer conditions and loops";
const LARGE: &str = "export with return_mode=\"file\" and the standard export mode, which put weights into a file beside the model";
