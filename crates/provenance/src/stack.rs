//! Interned frames and call stacks of the traced program.
//!
//! A stack is a linked list from the innermost frame outwards, so stacks that share callers share
//! their tails. Stack ids are handed out before their frames are known: a conversion without
//! provenance never resolves them, and an error resolves only its own.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxBuildHasher;

use crate::id;

/// A region of a source file; lines count from 1, columns (UTF-8 bytes) from 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub struct Span {
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
}

/// The owner of a frame's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FrameKind {
    /// The user's own files.
    User,
    /// Installed packages and the standard library.
    Library,
    /// JAX itself.
    Jax,
    /// This project's own Python files.
    Converter,
}

impl FrameKind {
    /// All kinds with their names.
    pub const ALL: [(FrameKind, &str); 4] = [
        (FrameKind::User, "user"),
        (FrameKind::Library, "library"),
        (FrameKind::Jax, "jax"),
        (FrameKind::Converter, "converter"),
    ];

    /// Returns the kind's name.
    pub fn as_str(self) -> &'static str {
        // The table lists the kinds in declaration order; a test checks this.
        Self::ALL[self as usize].1
    }

    /// Returns the kind with this name.
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == word).map(|(kind, _)| *kind)
    }
}

/// One frame of a Python call stack.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Frame {
    /// The file as displayed and recorded.
    pub file: Arc<str>,
    /// The path to open.
    pub path: Arc<str>,
    /// The function's qualified name.
    pub function: Arc<str>,
    /// The expression being evaluated.
    pub span: Span,
    /// The owner of the code.
    pub kind: FrameKind,
}

impl Frame {
    /// Returns `true` if the frame runs a layer's call method.
    pub(crate) fn is_of_layer(&self) -> bool {
        self.function.ends_with(".call") || self.function.ends_with(".__call__")
    }
}

id! {
    /// Identifies a call stack, resolved or not.
    pub StackId
}
id! {
    /// Identifies an interned frame.
    pub FrameId
}
id! {
    /// Identifies a link of a resolved stack: a frame and its callers.
    pub LinkId
}

type FxIndexSet<T> = IndexSet<T, FxBuildHasher>;

/// All frames and stacks of one conversion.
#[derive(Debug, Default)]
pub struct Stacks {
    frames: FxIndexSet<Frame>,
    links: FxIndexSet<(FrameId, Option<LinkId>)>,
    stacks: Vec<Option<LinkId>>,
}

impl Stacks {
    /// Reserves a stack whose frames are not known yet.
    pub fn reserve(&mut self) -> StackId {
        self.stacks.push(None);
        StackId::from_index(self.stacks.len() - 1)
    }

    /// Interns a frame.
    pub fn intern(&mut self, frame: Frame) -> FrameId {
        FrameId::from_index(self.frames.insert_full(frame).0)
    }

    /// Sets the frames of `stack`, innermost first.
    pub fn resolve(&mut self, stack: StackId, frames: &[FrameId]) {
        let callers = frames.iter().rev();
        let link = callers.fold(None, |caller, &frame| Some(self.chain(frame, caller)));
        self.stacks[stack.index()] = link;
    }

    /// Interns a frame together with its callers.
    pub fn chain(&mut self, frame: FrameId, caller: Option<LinkId>) -> LinkId {
        LinkId::from_index(self.links.insert_full((frame, caller)).0)
    }

    /// Sets the innermost link of `stack`.
    pub fn begin(&mut self, stack: StackId, link: LinkId) {
        self.stacks[stack.index()] = Some(link);
    }

    /// Returns a key that is equal for stacks with equal frames; `None` if the stack was never
    /// resolved.
    pub fn link(&self, stack: StackId) -> Option<LinkId> {
        self.stacks[stack.index()]
    }

    /// Returns the frame of a link, and the link of its caller.
    pub fn follow(&self, link: LinkId) -> Option<(&Frame, Option<LinkId>)> {
        let (frame, caller) = self.links.get_index(link.index())?;
        Some((self.frames.get_index(frame.index())?, *caller))
    }

    /// Returns the frames of a stack, innermost first; empty if the stack was never resolved.
    pub fn frames(&self, stack: StackId) -> Frames<'_> {
        Frames { stacks: self, next: self.stacks[stack.index()] }
    }
}

/// An iterator over the frames of one stack, innermost first.
#[derive(Clone, Debug)]
pub struct Frames<'a> {
    stacks: &'a Stacks,
    next: Option<LinkId>,
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a Frame;

    fn next(&mut self) -> Option<&'a Frame> {
        let (frame, caller) = self.stacks.follow(self.next?)?;
        self.next = caller;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str) -> Frame {
        Frame {
            file: "m.py".into(),
            path: "/m.py".into(),
            function: function.into(),
            span: Span::default(),
            kind: FrameKind::User,
        }
    }

    #[test]
    fn stacks_share_tails() {
        let mut stacks = Stacks::default();
        let [a, b, main] = ["a", "b", "main"].map(|name| stacks.intern(frame(name)));
        let (first, second) = (stacks.reserve(), stacks.reserve());
        stacks.resolve(first, &[a, main]);
        stacks.resolve(second, &[b, main]);
        let names = |id| stacks.frames(id).map(|f| f.function.to_string()).collect::<Vec<_>>();
        assert_eq!(names(first), ["a", "main"]);
        assert_eq!(names(second), ["b", "main"]);
        assert_eq!(stacks.links.len(), 3);
    }

    #[test]
    fn kinds_have_their_words() {
        for (kind, word) in FrameKind::ALL {
            assert_eq!((kind.as_str(), FrameKind::from_word(word)), (word, Some(kind)));
        }
    }

    #[test]
    fn an_unresolved_stack_has_no_frames() {
        let mut stacks = Stacks::default();
        let id = stacks.reserve();
        assert_eq!(stacks.frames(id).count(), 0);
    }
}
