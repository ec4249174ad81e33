//! Outlining: calls of functions become equations of their own.
//!
//! JAX traces through a function that the user wants to see in the model. The call leaves only a
//! mark on each of its equations. Consecutive equations of one call become the body of a new jaxpr,
//! and one equation that calls it replaces them. The marks only decide where the program is cut;
//! they never change its results.

use std::ops::Range;
use std::sync::Arc;

use provenance::{FUNCTION_CALL, StackId};
use rustc_hash::FxHashMap;

use crate::results::share_results;
use crate::{Atom, Entered, Eqn, Function, Jaxpr, JaxprId, Param, Params, Program, VarId};

/// The primitive of an equation that calls a function, and the names of its parameters: the jaxpr,
/// the function's name, its namespace and the flag `unique`.
pub const CALL: (&str, [&str; 4]) = (FUNCTION_CALL, ["call_jaxpr", "name", "namespace", "unique"]);

/// A function that returns the part of a stack inside the function call at one depth and outside
/// the call at another.
pub type Cut<'a> = dyn FnMut(StackId, Option<usize>, Option<usize>) -> StackId + 'a;

/// Replaces the marked calls in all jaxprs with equations.
pub fn outline(program: &mut Program, cut: &mut Cut<'_>) {
    // For each jaxpr, the depth of the call whose body it is.
    let mut depths = vec![None; program.jaxprs.len()];
    let mut at = 0;
    while at < program.jaxprs.len() {
        if program.jaxprs[at].eqns.iter().any(|eqn| !eqn.functions.is_empty()) {
            let is_main = program.main.is_some_and(|main| main.0 as usize == at);
            let jaxpr = std::mem::take(&mut program.jaxprs[at]);
            let mut outliner = Outliner::new(jaxpr, depths[at]);
            if is_main {
                outliner.open_what_covers_all();
            }
            program.jaxprs[at] = outliner.run(program, &mut depths, cut);
        }
        // Bodies are appended, and may contain calls themselves.
        at += 1;
    }
    if depths.iter().any(Option::is_some) {
        share_results(program);
    }
}

struct Outliner {
    jaxpr: Jaxpr,
    /// The depth of the call whose body this jaxpr is.
    inside: Option<usize>,
    /// For each variable, the last equation that reads it, or the number of equations for a result.
    last_reads: Vec<Option<usize>>,
    /// For each variable that is a constant, the index of that constant if it is part of the code.
    constants: FxHashMap<VarId, usize>,
}

impl Outliner {
    fn new(jaxpr: Jaxpr, inside: Option<usize>) -> Self {
        let mut last_reads = vec![None; jaxpr.vars.len()];
        for (i, eqn) in jaxpr.eqns.iter().enumerate() {
            for var in eqn.inputs.iter().filter_map(Atom::as_var) {
                last_reads[var.0 as usize] = Some(i);
            }
        }
        for var in jaxpr.outputs.iter().filter_map(Atom::as_var) {
            last_reads[var.0 as usize] = Some(jaxpr.eqns.len());
        }
        let code = jaxpr.consts.iter().enumerate().filter(|(_, (_, c))| !c.is_operand());
        let constants = code.map(|(i, (var, _))| (*var, i)).collect();
        Self { jaxpr, inside, last_reads, constants }
    }

    fn run(
        mut self,
        program: &mut Program,
        depths: &mut Vec<Option<usize>>,
        cut: &mut Cut<'_>,
    ) -> Jaxpr {
        let mut eqns = Vec::new();
        let mut start = 0;
        while start < self.jaxpr.eqns.len() {
            let Some(entered) = self.jaxpr.eqns[start].functions.first().cloned() else {
                eqns.push(self.jaxpr.eqns[start].clone());
                start += 1;
                continue;
            };
            let same = |eqn: &&Eqn| eqn.functions.first().is_some_and(|e| e.call == entered.call);
            let end = start + self.jaxpr.eqns[start..].iter().take_while(same).count();
            match self.body(start..end, &entered, program, cut) {
                Some(call) => {
                    eqns.push(call);
                    depths.push(Some(entered.depth));
                }
                // No later equation reads its results.
                None => eqns.extend(self.jaxpr.eqns[start..end].iter().map(|eqn| Eqn {
                    functions: Arc::new([]),
                    stack: eqn.stack.map(|stack| cut(stack, self.inside, None)),
                    ..eqn.clone()
                })),
            }
            start = end;
        }
        self.jaxpr.eqns = eqns;
        self.jaxpr
    }

    /// Removes the outermost marks of a module that covers the whole program, because it is not a
    /// part of it.
    fn open_what_covers_all(&mut self) {
        while let Some(first) = self.jaxpr.eqns.first().and_then(|e| e.functions.first())
            && first.function.module
            && let call = Arc::clone(&first.call)
            && self.jaxpr.eqns.iter().all(|e| e.functions.first().is_some_and(|f| f.call == call))
        {
            for eqn in &mut self.jaxpr.eqns {
                eqn.functions = eqn.functions[1..].into();
            }
        }
    }

    /// Moves equations into a jaxpr of their own. Returns the equation that calls it, if it has
    /// results.
    fn body(
        &self,
        run: Range<usize>,
        entered: &Entered,
        program: &mut Program,
        cut: &mut Cut<'_>,
    ) -> Option<Eqn> {
        let eqns = &self.jaxpr.eqns[run.clone()];
        let made = eqns.iter().flat_map(|eqn| &eqn.outputs).copied();
        let is_read = |var: &VarId| self.last_reads[var.0 as usize].is_some_and(|i| i >= run.end);
        let outputs: Vec<VarId> = made.filter(is_read).collect();
        if outputs.is_empty() {
            return None;
        }
        let mut body = Body {
            of: self,
            jaxpr: Jaxpr::default(),
            vars: FxHashMap::default(),
            inputs: Vec::new(),
        };
        for eqn in eqns {
            let eqn = body.eqn(eqn, cut);
            body.jaxpr.eqns.push(eqn);
        }
        body.jaxpr.outputs = outputs.iter().map(|var| Atom::Var(body.vars[var])).collect();
        let inputs = body.inputs.into_iter().map(Atom::Var).collect();
        let id = JaxprId(u32::try_from(program.jaxprs.len()).unwrap_or(u32::MAX));
        program.jaxprs.push(body.jaxpr);
        let first = &eqns[0];
        let stack = first.stack.map(|stack| cut(stack, self.inside, Some(entered.depth)));
        Some(Eqn {
            primitive: CALL.0.into(),
            inputs,
            outputs,
            params: params(id, &entered.function),
            stack,
            scope: first.scope[..entered.outer].into(),
            functions: Arc::new([]),
            external: None,
        })
    }
}

fn params(body: JaxprId, function: &Function) -> Params {
    let values = [
        Param::Jaxpr(body),
        Param::Str(Arc::clone(&function.name)),
        Param::Str(Arc::clone(&function.namespace)),
        Param::Bool(function.unique),
    ];
    Params(CALL.1.iter().map(|name| (*name).into()).zip(values).collect())
}

/// The jaxpr that a call's equations move into.
struct Body<'a> {
    of: &'a Outliner,
    jaxpr: Jaxpr,
    /// The variables of the body, by the original variables.
    vars: FxHashMap<VarId, VarId>,
    /// The variables that the body takes as operands.
    inputs: Vec<VarId>,
}

impl Body<'_> {
    fn eqn(&mut self, eqn: &Eqn, cut: &mut Cut<'_>) -> Eqn {
        let (entered, inner) = (&eqn.functions[0], &eqn.functions[1..]);
        let inputs = eqn.inputs.iter().map(|atom| match atom {
            Atom::Var(var) => Atom::Var(self.read(*var)),
            Atom::Literal(tensor) => Atom::Literal(tensor.clone()),
        });
        let inputs = inputs.collect();
        let outputs = eqn.outputs.iter().map(|var| self.define(*var)).collect();
        // The scope relative to the caller's.
        let behind = eqn.scope[entered.outer..].trim_start_matches('/');
        let gone = eqn.scope.len() - behind.len();
        let functions = inner
            .iter()
            .map(|inner| Entered { outer: inner.outer.saturating_sub(gone), ..inner.clone() });
        Eqn {
            primitive: Arc::clone(&eqn.primitive),
            inputs,
            outputs,
            params: eqn.params.clone(),
            stack: eqn.stack.map(|stack| match inner {
                [] => cut(stack, Some(entered.depth), None),
                // The stack is cut when the inner call is outlined.
                _ => stack,
            }),
            scope: behind.into(),
            functions: functions.collect(),
            external: eqn.external,
        }
    }

    fn read(&mut self, var: VarId) -> VarId {
        if let Some(known) = self.vars.get(&var) {
            return *known;
        }
        let new = self.define(var);
        match self.of.constants.get(&var) {
            Some(at) => self.jaxpr.consts.push((new, self.of.jaxpr.consts[*at].1.clone())),
            None => {
                self.jaxpr.inputs.push(new);
                self.inputs.push(var);
            }
        }
        new
    }

    fn define(&mut self, var: VarId) -> VarId {
        let new = VarId(u32::try_from(self.jaxpr.vars.len()).unwrap_or(u32::MAX));
        self.jaxpr.vars.push(self.of.jaxpr.ty(var).clone());
        self.vars.insert(var, new);
        new
    }
}

#[cfg(test)]
mod tests;
