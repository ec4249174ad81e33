//! Origins of function nodes for a particular call, derived from metadata.

use std::borrow::Cow;

use super::{Frame, Index, Origin};
use crate::limits::CHAINS;

impl<'m> Index<'m> {
    /// Returns the origins that metadata records for a node reached through the calls `chain`.
    pub(super) fn called_by(&self, node: usize, chain: &[usize]) -> Vec<Origin<'m>> {
        let mut origins = self.of_metadata(node);
        let Some((&call, outer)) = chain.split_first() else { return origins };
        let Some(place) = self.called_by(call, outer).into_iter().next() else { return origins };
        // A body was recorded with one of its function's calls.
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
    /// Returns the number of innermost frames that two origins have in common.
    pub(crate) fn shared(&self, other: &Self) -> usize {
        self.stack.iter().zip(&other.stack).take_while(|(own, other)| own == other).count()
    }

    /// Returns `true` if both have the same lines and the same module.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        (&self.site, &self.stack, &self.scope) == (&other.site, &other.stack, &other.scope)
    }

    /// Returns the origin of a function's node for a call from `caller`. The number of frames
    /// inside the function is unknown, so the stack contains only the caller's frames.
    pub(super) fn called_from(&self, caller: &[Frame<'m>]) -> Self {
        let inside = self.stack.iter().position(|frame| Some(frame) == self.site.as_ref());
        let is_inside = inside.is_some_and(|at| !self.is_outside(at, caller));
        let site = self.site.filter(|_| is_inside);
        let site = site.or_else(|| caller.iter().find(|frame| frame.is_user).copied());
        Self { site, stack: caller.to_vec(), ..self.clone() }
    }

    /// Returns `true` if the frame at `at` may belong to a caller, because the same function also
    /// occurs in `caller`.
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
                self.site = place.site;
            }
            self.stack.truncate(inside);
            self.stack.extend(&place.stack);
            self.others.clear();
        } else if self.stack.is_empty() && recorded.iter().any(|call| call.site == self.site) {
            self.site = place.site;
        }
        self.scope = match (self.scope.split_once('/'), place.scope.is_empty()) {
            (None, _) => place.scope.clone(),
            (Some((_, rest)), true) => Cow::Owned(rest.to_owned()),
            (Some((_, rest)), false) => Cow::Owned(format!("{}/{rest}", place.scope)),
        };
    }
}
