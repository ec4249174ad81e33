//! Targets: the operators that they run, and the element types that these support.

use std::fmt;

use onnx::facts::Interval;
use onnx::schema::{self, Binding, Right, Runtime, Schema, Types};
use onnx::{Graph, Node, Op, ValueId};
use smallvec::SmallVec;
use tensor::{DType, Dim};

use super::nan;

/// The target of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Target {
    /// Any runtime, limited only by the specification.
    Spec,
    /// onnxruntime's CPU provider.
    #[default]
    OnnxRuntime,
    /// onnxruntime-web in WebAssembly.
    OnnxRuntimeWeb,
    /// onnxruntime-web on WebGPU.
    WebGpu,
}

/// One set of element types per constraint of an operator.
pub(crate) type Row = SmallVec<[Types; 4]>;

impl Target {
    /// All targets, by the names that users specify.
    pub const ALL: [(&'static str, Target); 4] = [
        ("any", Target::Spec),
        ("onnxruntime", Target::OnnxRuntime),
        ("onnxruntime-web", Target::OnnxRuntimeWeb),
        ("webgpu", Target::WebGpu),
    ];

    /// Returns the target with the given name.
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, target)| target)
    }

    /// Returns the name of the target.
    pub fn name(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, target)| *target == self).map_or("", |(name, _)| name)
    }

    /// Returns the opset up to which models may use faster operators. Only operators that they need
    /// raise it.
    pub fn opset(self) -> i64 {
        match self {
            Target::Spec | Target::OnnxRuntime | Target::OnnxRuntimeWeb => 23,
            // GPU kernels support a range of operator versions. Many of these ranges end here.
            Target::WebGpu => 21,
        }
    }

    /// Returns the opset below which models are written only on request.
    pub(super) fn lowest_opset(self) -> i64 {
        match self {
            Target::Spec | Target::OnnxRuntime | Target::OnnxRuntimeWeb => 18,
            Target::WebGpu => self.opset(),
        }
    }

    /// Returns the newest opset that the target loads.
    pub(super) fn newest_opset(self) -> i64 {
        self.runtime().map_or(schema::NEWEST, Runtime::newest_opset)
    }

    /// Returns the operators that it leaves to the CPU although it computes their elementary form
    /// itself.
    pub fn leaves_to_cpu(self) -> &'static [&'static str] {
        match self {
            Target::Spec | Target::OnnxRuntime | Target::OnnxRuntimeWeb => &[],
            Target::WebGpu => &["Trilu"],
        }
    }

    /// Returns the runtime of the target, or `None` if it is not known.
    pub(super) fn runtime(self) -> Option<Runtime> {
        match self {
            Target::Spec => None,
            Target::OnnxRuntime => Some(Runtime::OnnxRuntime),
            Target::OnnxRuntimeWeb => Some(Runtime::Web),
            Target::WebGpu => Some(Runtime::WebGpu),
        }
    }

    /// Returns `true` if the target has the bugs of `other`. The web builds optimise models like
    /// onnxruntime.
    pub(super) fn has_code_of(self, other: Target) -> bool {
        self == other || other == Target::OnnxRuntime && self.runtime().is_some()
    }

    /// Returns `true` if the target computes in double precision.
    pub(super) fn has_double(self, opset: i64) -> bool {
        self.casts(opset, DType::F32, DType::F64)
    }

    /// Returns `true` if the target accepts a node with the given element types.
    pub(super) fn accepts(
        self,
        schema: &'static Schema,
        graph: &Graph,
        node: &Node,
        binding: &Binding,
    ) -> bool {
        let Some(runtime) = self.runtime() else { return binding.is_allowed(schema) };
        let rows = schema.rows(&node.attrs, runtime);
        let mut rows = rows.filter(|row| binding.fits(row.types()));
        rows.any(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => of_small_numbers(graph, node),
            Right::Numbers => !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        })
    }

    /// Returns `true` if the target runs a node with the given element types, correctly or not.
    pub(super) fn runs(self, schema: &'static Schema, node: &Node, binding: &Binding) -> bool {
        self.runtime().is_some_and(|runtime| {
            schema.rows(&node.attrs, runtime).any(|row| binding.fits(row.types()))
        })
    }

    /// Returns the combinations of element types that the target accepts for a node.
    pub(crate) fn rows(self, schema: &'static Schema, graph: &Graph, node: &Node) -> Vec<Row> {
        let Some(runtime) = self.runtime() else {
            return vec![schema.types.iter().map(|c| c.allowed).collect()];
        };
        let is_float = node.input(0).is_some_and(|value| graph.ty(value).dtype.is_float());
        let rows = schema.rows(&node.attrs, runtime).filter(|row| match row.right {
            Right::Always => true,
            Right::SmallNumbers => false,
            Right::Numbers => !is_float || !nan::matters(graph, node),
            Right::Terms => has_terms(graph, node),
        });
        rows.map(|row| row.types().collect()).collect()
    }

    /// Returns `true` if the target casts `from` to `to`.
    pub(super) fn casts(self, opset: i64, from: DType, to: DType) -> bool {
        let Some(schema) = schema::find(&Op::onnx("Cast"), opset) else { return false };
        let fits = |mut sets: Row| {
            let second = sets.pop().is_some_and(|set| set.contains(to));
            second && sets.pop().is_some_and(|set| set.contains(from))
        };
        match self.runtime() {
            None => fits(schema.types.iter().map(|c| c.allowed).collect()),
            Some(runtime) => schema.rows(&[], runtime).any(|row| fits(row.types().collect())),
        }
    }
}

/// Returns `true` if a node computes with sizes and positions, which are small numbers, or compares
/// or sums numbers that are known to be small.
fn of_small_numbers(graph: &Graph, node: &Node) -> bool {
    if node.is("ReduceSum") && node.input(0).is_some_and(|x| has_small_sums(graph, node, x)) {
        return true;
    }
    let compares = matches!(node.op.name, "Clip" | "Max" | "Min");
    // Constants that are not sizes may be large, so they are checked.
    let is_small = |number: &Dim| match number {
        Dim::Known(n) => i32::try_from(*n).is_ok(),
        Dim::Symbolic(_) => true,
    };
    node.inputs.iter().flatten().all(|value| {
        graph.content(*value).is_some_and(|content| content.iter().all(is_small))
            || compares && {
                let Interval { low, high } = graph.facts().interval(*value);
                [low, high].iter().all(|bound| bound.as_ref().is_some_and(is_small))
            }
    })
}

/// Returns `true` if sums over elements of `x` are known to be small, as those of counts are. Then
/// both their type and double precision can represent them.
fn has_small_sums(graph: &Graph, node: &Node, x: ValueId) -> bool {
    let Interval { low: Some(Dim::Known(low)), high: Some(Dim::Known(high)) } =
        graph.facts().interval(x)
    else {
        return false;
    };
    let largest = low.unsigned_abs().max(high.unsigned_abs());
    match graph.facts().terms_of_sums(node) {
        Some(Dim::Known(terms)) => {
            let sum = u64::try_from(terms).ok().and_then(|terms| largest.checked_mul(terms));
            sum.is_some_and(|sum| sum <= i32::MAX as u64)
        }
        // The number of terms is a size, which is a small number.
        Some(Dim::Symbolic(_)) => largest <= 1,
        None => false,
    }
}

/// Returns `true` if the sums of a product have at least one term, for all symbolic sizes.
fn has_terms(graph: &Graph, node: &Node) -> bool {
    let size = node.input(0).and_then(|value| graph.ty(value).shape.last());
    size.and_then(Dim::as_known).is_some_and(|size| size > 0)
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Spec => "ONNX",
            Target::OnnxRuntime => "onnxruntime",
            Target::OnnxRuntimeWeb => "onnxruntime-web",
            Target::WebGpu => "the WebGPU build of onnxruntime-web",
        })
    }
}
