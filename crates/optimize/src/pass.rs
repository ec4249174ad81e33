//! Passes: transformations that need the whole graph.

use crate::{Editor, Error};

/// The outcome of a pass: changed or unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Changed {
    Yes,
    #[default]
    No,
}

impl From<bool> for Changed {
    fn from(changed: bool) -> Self {
        if changed { Changed::Yes } else { Changed::No }
    }
}

impl std::ops::BitOrAssign for Changed {
    fn bitor_assign(&mut self, other: Self) {
        if other == Changed::Yes {
            *self = Changed::Yes;
        }
    }
}

/// A transformation of the whole graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// The name of its file.
    pub name: &'static str,
    /// Applies the pass.
    pub run: fn(&mut Editor<'_>) -> Result<Changed, Error>,
}
