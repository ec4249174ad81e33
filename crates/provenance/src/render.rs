//! Provenance as `metadata_props`.

use crate::{Detail, Emitter, Frame, FrameKind, Origin, OriginId, Origins, StackId, Stacks};

/// Key of the user's function and line.
pub const CALLSITE: &str = "pkg.jax2onnx.callsite";
/// Key of the rule and the line where it emitted the node.
pub const PLUGIN: &str = "pkg.jax2onnx.plugin";
/// Key of the call stack at the node's creation.
pub const STACKTRACE: &str = "pkg.jax2onnx.stacktrace";
/// Key of the equation's own traceback.
pub const JAX_TRACEBACK: &str = "pkg.jax2onnx.jax_traceback";

impl Origins {
    /// The frame that stands for an origin: the innermost one of the user's own code; if there is
    /// none, the innermost one outside JAX.
    pub fn call_site<'s>(&self, origin: &Origin, stacks: &'s Stacks) -> Option<&'s Frame> {
        let frames = || self.frames(origin, stacks);
        let of_kind = |kind| frames().find(move |f| f.kind == kind);
        of_kind(FrameKind::User).or_else(|| of_kind(FrameKind::Library))
    }

    /// All frames of an origin through every enclosing equation, innermost first.
    fn frames<'s>(&self, origin: &Origin, stacks: &'s Stacks) -> impl Iterator<Item = &'s Frame> {
        let chain = origin.call.into_iter().flat_map(|call| self.chain(call));
        let ids = chain.filter_map(|(stack, _)| stack).collect::<Vec<_>>();
        ids.into_iter().flat_map(|id| stacks.frames(id))
    }
}

/// The metadata of one node, in the order it is written. `entry` is the stack of the call to the
/// converter, the outer part of every node's `stacktrace`.
pub fn metadata(
    detail: Detail,
    id: OriginId,
    origins: &Origins,
    stacks: &Stacks,
    entry: Option<StackId>,
) -> Vec<(&'static str, String)> {
    if detail == Detail::Off {
        return Vec::new();
    }
    let origin = origins.get(id);
    let mut props = Vec::with_capacity(4);
    if let Some(frame) = origins.call_site(origin, stacks) {
        props.push((CALLSITE, format!("{}:{}", frame.function, frame.span.line)));
    }
    props.push((PLUGIN, plugin(&origin.emitter)));
    if detail == Detail::Full {
        props.push((STACKTRACE, stacktrace(origin, origins, stacks, entry)));
        props.push((JAX_TRACEBACK, jax_traceback(origin, origins, stacks)));
    }
    props
}

fn plugin(emitter: &Emitter) -> String {
    format!("{}.{}:{}", emitter.name, emitter.stage.as_str(), emitter.at.line())
}

fn stacktrace(
    origin: &Origin,
    origins: &Origins,
    stacks: &Stacks,
    entry: Option<StackId>,
) -> String {
    let python = entry.into_iter().flat_map(|id| stacks.frames(id));
    let mut lines: Vec<String> =
        python.map(|f| format!("{}:{} in {}", f.file, f.span.line, f.function)).collect();
    lines.reverse();
    let enclosing = origin.call.into_iter().flat_map(|call| origins.chain(call));
    let mut rules: Vec<Emitter> = enclosing.filter_map(|(_, emitter)| emitter).collect();
    rules.reverse();
    rules.push(origin.emitter);
    lines.extend(
        rules
            .iter()
            .map(|e| format!("{}:{} in {}.{}", e.at.file(), e.at.line(), e.name, e.stage.as_str())),
    );
    lines.join("\n")
}

fn jax_traceback(origin: &Origin, origins: &Origins, stacks: &Stacks) -> String {
    let show = |f: &Frame| format!("{}:{} ({})", f.file, f.span.line, f.function);
    let mut lines: Vec<String> = origins.frames(origin, stacks).map(show).collect();
    for other in &*origin.also {
        lines.push("also from:".to_owned());
        lines.extend(origins.frames(origins.get(*other), stacks).map(show));
    }
    lines.join("\n")
}
