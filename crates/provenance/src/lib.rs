//! Provenance of every node: the frames and call stacks of the user's program, the rules that
//! emitted nodes and the rewrites that merged them. Also writes provenance into a model.

mod detail;
mod diagnostic;
mod file_names;
mod origin;
mod render;
mod source_map;
mod source_text;
mod stack;

pub use detail::{Detail, DetailError};
pub use diagnostic::{Diagnostic, SourceLocation};
pub use file_names::{FileNames, Imports, Roots, as_folder, folder_of};
pub use origin::{
    Call, CallId, Emitter, FUNCTION_CALL, Merged, Origin, OriginId, Origins, ScopeId, Site, Stage,
};
pub use render::{
    ALSO_FROM, CALLSITE, JAX_TRACEBACK, MISSED, Metadata, OR_CALLED_FROM, PLUGIN, STACKTRACE,
    WEIGHTS,
};
pub use source_map::{
    MapFrame, MapNode, OtherCall, ReadText, SOURCE_MAP, SOURCE_MAP_DIGEST, Source, SourceMap,
    SourceMapError, Sources, digest,
};
pub use source_text::{edited_since_loaded, source_text};
pub use stack::{Frame, FrameId, FrameKind, Frames, LinkId, Span, StackId, Stacks};

/// Declares a `u32` newtype that indexes one table.
macro_rules! id {
    ($(#[$doc:meta])* $vis:vis $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        $vis struct $name(pub(crate) u32);

        impl $name {
            pub(crate) fn index(self) -> usize {
                self.0 as usize
            }

            /// # Panics
            /// Never in practice: a table of 2³² entries does not fit in memory.
            pub(crate) fn from_index(index: usize) -> Self {
                Self(u32::try_from(index).unwrap_or(u32::MAX))
            }
        }
    };
}
use id;
