//! Nodes of functions in one of the calls of their function, as far as their metadata tells.

use std::borrow::Cow;

use super::{Frame, Index, Origin};
use crate::limits::CHAINS;

impl<'m> Index<'m> {
    /// What metadata says about a node that is reached by the calls `chain`.
    pub(super) fn called_by(&self, node: usize, chain: &[usize]) -> Vec<Origin<'m>> {
        let mut origins = self.of_metadata(node);
        let Some((&call, outer)) = chain.split_first() else { return origins };
        let Some(place) = self.called_by(call, outer).into_iter().next() else { return origins };
        // A body was recorded with one of the calls of its function.
        let beside = self.calls().beside(call).iter().take(CHAINS);
        let recorded = beside.filter_map(|call| self.of_metadata(*call).into_iter().next());
        let recorded: Vec<Origin<'m>> = recorded.collect();
        for origin in &mut origins {
            origin.move_to(&recorded, &place);
        }
        origins
    }
}

impl<'m> Origin<'m> {
    /// How many frames it has in common with another, from the innermost.
    pub(crate) fn shared(&self, other: &Self) -> usize {
        self.stack.iter().zip(&other.stack).take_while(|(own, other)| own == other).count()
    }

    /// Whether both stand for the same lines in the same module.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.site, &self.stack, &self.scope) == (&other.site, &other.stack, &other.scope)
    }

    /// The origin of a node in a function if the function is called from another place. How many
    /// of the frames are inside the function is not known, so these are only those of the caller.
    pub(super) fn called_from(&self, caller: &[Frame<'m>]) -> Self {
        let inside = self.stack.iter().position(|frame| Some(frame) == self.site.as_ref());
        let is_inside = inside.is_some_and(|at| !self.is_outside(at, caller));
        let site = if is_inside { self.site.clone() } else { None };
        let site = site.or_else(|| caller.iter().find(|frame| frame.is_user).cloned());
        Self { site, stack: caller.to_vec(), ..self.clone() }
    }

    /// Whether the frame at `at` may belong to a caller: it is in a function that calls from
    /// another line, too.
    fn is_outside(&self, at: usize, caller: &[Frame<'m>]) -> bool {
        let own = &self.stack[at];
        caller.iter().any(|frame| (frame.file, frame.function) == (own.file, own.function))
    }

    /// Replaces the call that was `recorded` for a node of a function by the call at `place`.
    fn move_to(&mut self, recorded: &[Origin<'m>], place: &Origin<'m>) {
        let calls = || recorded.iter().filter(|call| !call.stack.is_empty());
        let suffix = calls().filter(|call| self.stack.ends_with(&call.stack));
        if let Some(call) = suffix.max_by_key(|call| call.stack.len()) {
            let inside = self.stack.len() - call.stack.len();
            let at = self.stack.iter().position(|frame| Some(frame) == self.site.as_ref());
            if at.is_none_or(|at| at >= inside) {
                self.site.clone_from(&place.site);
            }
            self.stack.truncate(inside);
            self.stack.extend(place.stack.iter().cloned());
            self.others.clear();
        } else if self.stack.is_empty() && recorded.iter().any(|call| call.site == self.site) {
            self.site.clone_from(&place.site);
        }
        self.scope = match (self.scope.split_once('/'), place.scope.is_empty()) {
            (None, _) => place.scope.clone(),
            (Some((_, rest)), true) => Cow::Owned(rest.to_owned()),
            (Some((_, rest)), false) => Cow::Owned(format!("{}/{rest}", place.scope)),
        };
    }
}
