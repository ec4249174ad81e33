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

#[cfg(test)]
mod tests {
    use provenance::Span;

    use super::*;

    fn frame(function: &'static str, line: u32) -> Frame<'static> {
        let span = Span { line, ..Span::default() };
        Frame { file: "m.py", function, span, is_user: true, is_jax: false }
    }

    fn origin(stack: &[Frame<'static>], site: usize, scope: &'static str) -> Origin<'static> {
        Origin {
            site: stack.get(site).copied(),
            stack: stack.to_vec(),
            scope: Cow::Borrowed(scope),
            ..Origin::default()
        }
    }

    /// Returns the lines of the stack, of the site, and the module.
    fn seen(origin: &Origin<'_>) -> (Vec<u32>, Option<u32>, String) {
        let stack = origin.stack.iter().map(|frame| frame.span.line).collect();
        (stack, origin.site.map(|site| site.span.line), origin.scope.to_string())
    }

    #[test]
    fn a_node_of_a_function_is_moved_to_another_call() {
        let (inner, main, other) = (frame("layer", 3), frame("main", 7), frame("main", 9));
        let recorded = [origin(&[main], 0, "a"), origin(&[], 0, "")];
        let place = origin(&[other], 0, "b");
        let moved = |mut own: Origin<'static>, place: &Origin<'static>| {
            own.move_to(&recorded, place);
            seen(&own)
        };
        let own = origin(&[inner, main], 0, "F/up");
        assert_eq!(moved(own, &place), (vec![3, 9], Some(3), "b/up".to_owned()));
        let own = origin(&[inner, main], 1, "F");
        assert_eq!(
            moved(own, &place),
            (vec![3, 9], Some(9), "b".to_owned()),
            "the call is its line"
        );
        let outside = origin(&[other], 0, "");
        let own = origin(&[inner, main], 0, "F/up");
        assert_eq!(moved(own, &outside), (vec![3, 9], Some(3), "up".to_owned()));
        let own = origin(&[inner], 0, "F/up");
        assert_eq!(moved(own, &place), (vec![3], Some(3), "b/up".to_owned()), "an unknown call");
    }

    #[test]
    fn a_call_site_alone_is_moved_if_it_is_the_recorded_call() {
        let (main, other) = (frame("main", 7), frame("main", 9));
        let recorded = [Origin { site: Some(main), ..Origin::default() }];
        let place = Origin { site: Some(other), ..Origin::default() };
        let mut own = recorded[0].clone();
        own.move_to(&recorded, &place);
        assert_eq!(own.site, Some(other));
        let mut inside = Origin { site: Some(frame("layer", 3)), ..Origin::default() };
        inside.move_to(&recorded, &place);
        assert_eq!(inside.site.unwrap().span.line, 3);
        let mut full = origin(&[frame("layer", 3)], 9, "");
        full.move_to(&[Origin::default()], &place);
        assert_eq!(full.site, None, "a stack says that its line is unknown");
    }

    #[test]
    fn another_call_keeps_the_line_inside_the_function() {
        let (inner, main, other) = (frame("layer", 3), frame("main", 7), frame("main", 9));
        let own = origin(&[inner, main], 0, "F");
        assert_eq!(seen(&own.called_from(&[other])), (vec![9], Some(3), "F".to_owned()));
        let outside = origin(&[inner, main], 1, "F");
        assert_eq!(seen(&outside.called_from(&[other])).1, Some(9), "the line of the call");
        let library = Frame { is_user: false, ..frame("apply", 5) };
        assert_eq!(
            seen(&outside.called_from(&[library, other])),
            (vec![5, 9], Some(9), "F".to_owned())
        );
    }

    #[test]
    fn stacks_share_their_innermost_frames() {
        let (inner, main, other) = (frame("layer", 3), frame("main", 7), frame("main", 9));
        let own = origin(&[inner, inner, main], 0, "F");
        assert_eq!(own.shared(&origin(&[inner, inner, other], 0, "F")), 2);
        assert_eq!(own.shared(&origin(&[main], 0, "F")), 0);
        assert!(own.is_like(&own.clone()) && !own.is_like(&origin(&[inner, main], 0, "F")));
    }
}
