//! Provenance as `metadata_props`.

use crate::{Detail, Emitter, Frame, FrameKind, Origin, OriginId, Origins, StackId, Stacks};

/// Key of the user's function and line.
pub const CALLSITE: &str = "pkg.jax2onnx.callsite";
/// Key of the rule and the line where it emitted the node.
pub const PLUGIN: &str = "pkg.jax2onnx.plugin";
/// Key of the call stack at the node's creation.
pub const STACKTRACE: &str = "pkg.jax2onnx.stacktrace";
/// Key of the operators that were nearly recognised, one per line, in the model's metadata.
pub const MISSED: &str = "pkg.jax2onnx.missed";
/// Key that marks a model whose weights are not the real ones.
pub const WEIGHTS: &str = "pkg.jax2onnx.weights";
/// Key of the equation's own traceback.
pub const JAX_TRACEBACK: &str = "pkg.jax2onnx.jax_traceback";
/// The line before the traceback of an origin that was merged into the node.
pub const ALSO_FROM: &str = "also from:";
/// The line before the traceback of another call to the function that contains the node.
pub const OR_CALLED_FROM: &str = "or called from:";

impl Origins {
    /// Returns the frame that represents an origin. It is the innermost frame in the user's own
    /// code, or else the frame of the library layer that the equation belongs to, or else the
    /// innermost frame outside JAX.
    pub fn call_site<'s>(&self, origin: &Origin, stacks: &'s Stacks) -> Option<&'s Frame> {
        let frames = || self.frames(origin, stacks);
        let of_kind = |kind| frames().find(move |f| f.kind == kind);
        let layer = || frames().find(|f| f.kind == FrameKind::Library && f.is_of_layer());
        of_kind(FrameKind::User).or_else(layer).or_else(|| of_kind(FrameKind::Library))
    }

    /// Returns all frames of an origin through every enclosing equation, innermost first.
    pub(crate) fn frames<'s>(
        &self,
        origin: &Origin,
        stacks: &'s Stacks,
    ) -> impl Iterator<Item = &'s Frame> {
        let chain = origin.call.into_iter().flat_map(|call| self.chain(call));
        let ids = chain.filter_map(|(stack, _)| stack).collect::<Vec<_>>();
        ids.into_iter().flat_map(|id| stacks.frames(id))
    }
}

/// A writer of node metadata.
#[derive(Clone, Copy, Debug)]
pub struct Metadata<'a> {
    /// The level of detail.
    pub detail: Detail,
    /// The origins that nodes refer to.
    pub origins: &'a Origins,
    /// The stacks that origins refer to.
    pub stacks: &'a Stacks,
    /// The stack of the call to the converter, the outer part of every node's `stacktrace`.
    pub entry: Option<StackId>,
    /// The definition of the converted function, the origin of the model's boundary.
    pub function: Option<&'a Frame>,
}

impl Metadata<'_> {
    /// Returns the metadata of one node, in the order it is written.
    pub fn of(&self, id: OriginId) -> Vec<(&'static str, String)> {
        if self.detail == Detail::Off {
            return Vec::new();
        }
        let origin = self.origins.get(id);
        let mut props = Vec::with_capacity(4);
        if let Some(frame) = self.origins.call_site(origin, self.stacks).or(self.function) {
            props.push((CALLSITE, format!("{}:{}", frame.function, frame.span.line)));
        }
        props.push((PLUGIN, origin.emitter.to_string()));
        if self.detail == Detail::Full {
            props.push((STACKTRACE, self.stacktrace(origin)));
            props.push((JAX_TRACEBACK, self.jax_traceback(origin)));
        }
        props
    }

    fn stacktrace(&self, origin: &Origin) -> String {
        let python = self.entry.into_iter().flat_map(|id| self.stacks.frames(id));
        let python = python.filter(|f| f.kind != FrameKind::Jax);
        let mut lines: Vec<String> =
            python.map(|f| format!("{}:{} in {}", f.file, f.span.line, f.function)).collect();
        lines.reverse();
        let enclosing = origin.call.into_iter().flat_map(|call| self.origins.chain(call));
        let mut rules: Vec<Emitter> = enclosing.filter_map(|(_, emitter)| emitter).collect();
        rules.reverse();
        rules.push(origin.emitter);
        let show = |e: &Emitter| format!("{}:{} in {}", e.at.file(), e.at.line(), e.function());
        lines.extend(rules.iter().map(show));
        lines.join("\n")
    }

    fn jax_traceback(&self, origin: &Origin) -> String {
        let show = |f: &Frame| format!("{}:{} ({})", f.file, f.span.line, f.function);
        let frames = |origin| self.origins.frames(origin, self.stacks);
        let mut lines: Vec<String> = frames(origin).map(show).collect();
        if lines.is_empty() {
            lines.extend(self.function.map(show));
        }
        let also = origin.also.iter().map(|other| (ALSO_FROM, *other));
        let callers = self.origins.other_callers(origin).map(|other| (OR_CALLED_FROM, other));
        for (title, other) in also.chain(callers) {
            lines.push(title.to_owned());
            lines.extend(frames(self.origins.get(other)).map(show));
        }
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::{Call, Emitter, Merged, Span, Stage};

    /// Returns the function of the frame that represents an origin with these frames, innermost
    /// first.
    fn site(frames: &[(FrameKind, &str)]) -> Option<String> {
        let (mut origins, mut stacks) = (Origins::default(), Stacks::default());
        let stack = stacks.reserve();
        let frame = |(kind, function): &(FrameKind, &str)| Frame {
            file: "m.py".into(),
            path: "/m.py".into(),
            function: (*function).into(),
            span: Span::default(),
            kind: *kind,
        };
        let ids: Vec<_> = frames.iter().map(|one| stacks.intern(frame(one))).collect();
        stacks.resolve(stack, &ids);
        let call = origins.call(Call { stack: Some(stack), caller: None });
        let at = Location::caller().into();
        let emitter = Emitter { name: "sin", stage: Stage::Lower, at };
        let origin = origins.origin(Some(call), Origins::ROOT, emitter);
        let found = origins.call_site(origins.get(origin), &stacks);
        found.map(|frame| frame.function.to_string())
    }

    fn frame(kind: FrameKind, function: &str, line: u32) -> Frame {
        let span = Span { line, ..Span::default() };
        let (file, path) = ("m.py".into(), "/m.py".into());
        Frame { file, path, function: function.into(), span, kind }
    }

    /// An equation in a loop, and one that was merged with it.
    #[test]
    fn full_metadata_has_the_whole_traceback() {
        let (mut origins, mut stacks) = (Origins::default(), Stacks::default());
        let mut call = |origins: &mut Origins, function: &str, line, caller| {
            let stack = stacks.reserve();
            let inner = stacks.intern(frame(FrameKind::Jax, "bind", 7));
            let outer = stacks.intern(frame(FrameKind::User, function, line));
            stacks.resolve(stack, &[inner, outer]);
            origins.call(Call { stack: Some(stack), caller })
        };
        let at = Location::caller().into();
        let emitter = |name| Emitter { name, stage: Stage::Lower, at };
        let scan = call(&mut origins, "loop", 3, None);
        let body = call(&mut origins, "step", 9, Some((scan, emitter("scan"))));
        let other = call(&mut origins, "twin", 12, None);
        let one = origins.origin(Some(body), Origins::ROOT, emitter("sin"));
        let two = origins.origin(Some(other), Origins::ROOT, emitter("sin"));
        let merged = origins.absorb(one, &[(two, Merged::Yes)]);
        let entry = stacks.reserve();
        let main = stacks.intern(frame(FrameKind::User, "main", 40));
        stacks.resolve(entry, &[main]);
        let mut metadata = Metadata {
            detail: Detail::Full,
            origins: &origins,
            stacks: &stacks,
            entry: Some(entry),
            function: None,
        };
        let found = metadata.of(merged);
        let of = |key| found.iter().find(|(k, _)| *k == key).map(|(_, text)| text.as_str());
        assert_eq!(of(CALLSITE), Some("step:9"));
        assert_eq!(
            of(JAX_TRACEBACK).unwrap().lines().collect::<Vec<_>>(),
            [
                "m.py:7 (bind)",
                "m.py:9 (step)",
                "m.py:7 (bind)",
                "m.py:3 (loop)",
                ALSO_FROM,
                "m.py:7 (bind)",
                "m.py:12 (twin)",
            ]
        );
        let stack: Vec<&str> = of(STACKTRACE).unwrap().lines().collect();
        assert_eq!(stack[0], "m.py:40 in main");
        assert!(stack[1].ends_with("in scan.lower") && stack[2].ends_with("in sin.lower"));
        metadata.detail = Detail::Minimal;
        assert_eq!(metadata.of(merged).len(), 2);
        metadata.detail = Detail::Off;
        assert!(metadata.of(merged).is_empty());
    }

    #[test]
    fn the_users_own_code_represents_an_origin() {
        use FrameKind::{Jax, Library, User};
        let found = |frames: &[(FrameKind, &str)]| site(frames);
        assert_eq!(found(&[(Jax, "sin"), (User, "f"), (User, "main")]).as_deref(), Some("f"));
        assert_eq!(
            found(&[(Library, "dot"), (Library, "Dense.__call__"), (User, "f")]).as_deref(),
            Some("f")
        );
        // Without a user frame, the layer; without a layer, the nearest frame outside JAX.
        assert_eq!(
            found(&[(Jax, "dot"), (Library, "dot"), (Library, "Dense.__call__")]).as_deref(),
            Some("Dense.__call__")
        );
        assert_eq!(
            found(&[(Library, "dot"), (Library, "Dense.call")]).as_deref(),
            Some("Dense.call")
        );
        assert_eq!(
            found(&[(Jax, "Inner.__call__"), (Library, "dot"), (Library, "apply")]).as_deref(),
            Some("dot")
        );
        assert_eq!(found(&[(Jax, "sin")]), None);
    }
}
