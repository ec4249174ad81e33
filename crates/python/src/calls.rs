//! The record of primitives: one JSON object per equation, for inspecting a model before its
//! conversion.

use std::io::Write;
use std::path::Path;

use jaxpr::{Atom, Eqn, Jaxpr, JaxprId, Param, Program};
use provenance::{Frame, FrameKind, StackId, Stacks};
use rustc_hash::FxHashSet;
use serde_json::{Map, Value, json};

/// Writes the equations of `program` to `path`, each jaxpr once, in execution order.
pub(crate) fn write(path: &Path, program: &Program, stacks: &Stacks) -> onnx_file::Result<()> {
    let mut recorder =
        Recorder { program, stacks, seen: FxHashSet::default(), text: String::new() };
    if let Some(main) = program.main {
        recorder.jaxpr(main, &mut Vec::new());
    }
    onnx_file::replace_file(path, |file| file.write_all(recorder.text.as_bytes()))
}

struct Recorder<'a> {
    program: &'a Program,
    stacks: &'a Stacks,
    seen: FxHashSet<JaxprId>,
    text: String,
}

impl Recorder<'_> {
    /// Records a jaxpr. `callers` are the stacks of the enclosing equations, outermost first.
    fn jaxpr(&mut self, id: JaxprId, callers: &mut Vec<StackId>) {
        if !self.seen.insert(id) {
            return;
        }
        let jaxpr = self.program.jaxpr(id);
        for eqn in &jaxpr.eqns {
            let depth = callers.len();
            callers.extend(eqn.stack);
            // The primitives of a function are JAX's own, but its call is not.
            if *eqn.primitive != *jaxpr::CALL.0 {
                let entry = self.entry(jaxpr, eqn, callers);
                self.text.push_str(&entry.to_string());
                self.text.push('\n');
            }
            for (_, param) in &eqn.params.0 {
                self.inner(param, callers);
            }
            callers.truncate(depth);
        }
    }

    fn inner(&mut self, param: &Param, callers: &mut Vec<StackId>) {
        match param {
            Param::Jaxpr(id) => self.jaxpr(*id, callers),
            Param::List(items) => items.iter().for_each(|item| self.inner(item, callers)),
            _ => {}
        }
    }

    fn entry(&self, jaxpr: &Jaxpr, eqn: &Eqn, stacks: &[StackId]) -> Value {
        let inputs = eqn.inputs.iter().map(|atom| match atom {
            Atom::Var(var) => jaxpr.ty(*var).to_string(),
            Atom::Literal(tensor) => tensor.ty().to_string(),
        });
        let outputs = eqn.outputs.iter().map(|var| jaxpr.ty(*var).to_string());
        let params = eqn.params.0.iter().map(|(name, param)| (name.to_string(), value(param)));
        let frame = self.frame(stacks);
        json!({
            "primitive": &*eqn.primitive,
            "params": params.collect::<Map<_, _>>(),
            "inputs": inputs.collect::<Vec<_>>(),
            "outputs": outputs.collect::<Vec<_>>(),
            "scope": &*eqn.scope,
            "file": frame.map(|f| &*f.file),
            "line": frame.map(|f| f.span.line),
            "function": frame.map(|f| &*f.function),
        })
    }

    fn frame(&self, stacks: &[StackId]) -> Option<&Frame> {
        let frames = || stacks.iter().rev().flat_map(|id| self.stacks.frames(*id));
        let of_kind = |kind| frames().find(move |f| f.kind == kind);
        of_kind(FrameKind::User).or_else(|| of_kind(FrameKind::Library))
    }
}

fn value(param: &Param) -> Value {
    match param {
        Param::None => Value::Null,
        Param::Bool(value) => json!(value),
        Param::Int(value) => json!(value),
        Param::Float(value) => json!(value),
        Param::Str(text) | Param::Enum(text) => json!(&**text),
        Param::DType(dtype) => json!(dtype.numpy_name()),
        Param::Dim(dim) => json!(dim.to_string()),
        Param::List(items) => items.iter().map(value).collect(),
        Param::Fields(fields) => {
            Value::Object(fields.iter().map(|(name, p)| (name.to_string(), value(p))).collect())
        }
        Param::Tensor(tensor) => json!(tensor.ty().to_string()),
        Param::Jaxpr(id) => json!(format!("jaxpr {}", id.0)),
        Param::Opaque(name) => json!(format!("<{name}>")),
    }
}
