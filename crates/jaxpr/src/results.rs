//! Gives equivalent calls the same results.
//!
//! A call returns only the values that the caller reads. If the last of several layers returns
//! fewer values than the others, it can still share their body.

use std::sync::Arc;

use indexmap::IndexMap;
use rustc_hash::{FxBuildHasher, FxHashMap};

use crate::{Alike, Atom, CALL, JaxprId, Param, Program, VarId};

/// An equation that calls a function.
struct Call {
    caller: JaxprId,
    eqn: usize,
    body: JaxprId,
}

/// Extends equivalent bodies to the union of their results.
pub(crate) fn share_results(program: &mut Program) {
    let mut heights = Heights { program, known: FxHashMap::default() };
    let mut levels: Vec<Vec<Call>> = Vec::new();
    for (caller, jaxpr) in program.jaxprs.iter().enumerate() {
        for (eqn, body) in jaxpr.eqns.iter().enumerate().filter_map(|(i, e)| Some((i, e.callee()?)))
        {
            let height = heights.of(body);
            levels.resize_with(levels.len().max(height + 1), Vec::new);
            let caller = JaxprId(u32::try_from(caller).unwrap_or(u32::MAX));
            levels[height].push(Call { caller, eqn, body });
        }
    }
    let mut alike = Alike::default();
    for calls in levels {
        // Inner calls come first, because the equivalence of bodies depends on the calls inside
        // them.
        let mut groups: IndexMap<_, Vec<Call>, FxBuildHasher> = IndexMap::default();
        for call in calls {
            let label: Vec<Option<Arc<str>>> = {
                let params = &program.jaxpr(call.caller).eqns[call.eqn].params;
                CALL.1[1..].iter().map(|name| params.get(name).ok()).collect()
            };
            let key = (label, alike.computation(program, call.body));
            groups.entry(key).or_default().push(call);
        }
        for group in groups.into_values() {
            let results = group.iter().flat_map(|call| results(program, call.body));
            let mut all: Vec<VarId> = results.collect();
            all.sort_unstable_by_key(|var| var.0);
            all.dedup();
            group.iter().for_each(|call| extend(program, call, &all));
        }
    }
}

fn results(program: &Program, body: JaxprId) -> impl Iterator<Item = VarId> {
    program.jaxpr(body).outputs.iter().filter_map(Atom::as_var)
}

/// Extends a call to return all of `results`, which are variables of its body.
fn extend(program: &mut Program, call: &Call, results: &[VarId]) {
    let body = program.jaxpr(call.body);
    let types: Vec<_> = results.iter().map(|var| body.ty(*var).clone()).collect();
    let old: Vec<VarId> = self::results(program, call.body).collect();
    let caller = &mut program.jaxprs[call.caller.0 as usize];
    let eqn = &mut caller.eqns[call.eqn];
    let known: FxHashMap<VarId, VarId> = old.into_iter().zip(eqn.outputs.iter().copied()).collect();
    let outputs = results.iter().zip(types).map(|(var, ty)| {
        known.get(var).copied().unwrap_or_else(|| {
            caller.vars.push(ty);
            VarId(u32::try_from(caller.vars.len() - 1).unwrap_or(u32::MAX))
        })
    });
    eqn.outputs = outputs.collect();
    program.jaxprs[call.body.0 as usize].outputs = results.iter().copied().map(Atom::Var).collect();
}

/// The nesting depth of function calls below each jaxpr.
struct Heights<'a> {
    program: &'a Program,
    known: FxHashMap<JaxprId, usize>,
}

impl Heights<'_> {
    fn of(&mut self, id: JaxprId) -> usize {
        if let Some(known) = self.known.get(&id) {
            return *known;
        }
        let mut height = 0;
        for eqn in &self.program.jaxpr(id).eqns {
            let call = usize::from(*eqn.primitive == *CALL.0);
            for inner in eqn.params.jaxprs() {
                height = height.max(self.of(inner) + call);
            }
        }
        self.known.insert(id, height);
        height
    }
}

impl crate::Eqn {
    /// Returns the body of the function that the equation calls, if it calls one.
    fn callee(&self) -> Option<JaxprId> {
        match self.params.raw(CALL.1[0]) {
            Some(Param::Jaxpr(body)) if *self.primitive == *CALL.0 => Some(*body),
            _ => None,
        }
    }
}
