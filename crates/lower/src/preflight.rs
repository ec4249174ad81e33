//! Finds all primitives without a rule, before lowering starts.

use std::panic::Location;

use jaxpr::{Jaxpr, JaxprId, Program};
use provenance::{Call, CallId, Emitter, Origins, ScopeId, Stage};
use rustc_hash::FxHashMap;

use crate::{Error, ExternalRules, Missing, rules};

/// Fails with all primitives that have no rule.
pub(crate) fn check(
    program: &Program,
    main: JaxprId,
    external: &ExternalRules,
    origins: &mut Origins,
) -> Result<(), Error> {
    let mut complete = FxHashMap::default();
    if is_complete(program, main, external, &mut complete) {
        return Ok(());
    }
    let mut missing = Vec::new();
    let mut search =
        Search { program, external, origins, complete: &complete, missing: &mut missing };
    search.jaxpr(main, None, Origins::ROOT);
    Err(Error::MissingRules(missing))
}

/// Returns `true` if all primitives below `id` have rules. The answer is cached, since jaxprs are
/// shared.
fn is_complete(
    program: &Program,
    id: JaxprId,
    external: &ExternalRules,
    known: &mut FxHashMap<JaxprId, bool>,
) -> bool {
    if let Some(&answer) = known.get(&id) {
        return answer;
    }
    let mut answer = true;
    for eqn in &program.jaxpr(id).eqns {
        // An external rule may ignore the jaxprs of its equation, so they are not searched.
        if external.contains_key(&eqn.primitive) {
            continue;
        }
        answer &= rules::primitive(&eqn.primitive).is_some();
        for (_, param) in &eqn.params.0 {
            for inner in param.jaxprs() {
                answer &= is_complete(program, inner, external, known);
            }
        }
    }
    known.insert(id, answer);
    answer
}

/// The maximum number of occurrences in one report. A program may repeat a mistake a thousand
/// times.
const LIMIT: usize = 50;

struct Search<'a> {
    program: &'a Program,
    external: &'a ExternalRules,
    origins: &'a mut Origins,
    complete: &'a FxHashMap<JaxprId, bool>,
    missing: &'a mut Vec<Missing>,
}

impl Search<'_> {
    fn jaxpr(&mut self, id: JaxprId, caller: Option<(CallId, Emitter)>, scope: ScopeId) {
        if self.complete.get(&id) == Some(&true) {
            return;
        }
        let program = self.program;
        let jaxpr: &Jaxpr = program.jaxpr(id);
        for eqn in &jaxpr.eqns {
            if self.missing.len() >= LIMIT {
                return;
            }
            if self.external.contains_key(&eqn.primitive) {
                continue;
            }
            let call = self.origins.call(Call { stack: eqn.stack, caller });
            let scope = self.origins.scope(scope, &eqn.scope);
            let Some(rule) = rules::primitive(&eqn.primitive) else {
                let primitive = eqn.primitive.clone();
                self.missing.push(Missing { primitive, call, scope });
                continue;
            };
            let at = Location::caller();
            let emitter = Emitter { name: rule.name, stage: Stage::Lower, at: at.into() };
            for inner in eqn.params.0.iter().flat_map(|(_, param)| param.jaxprs()) {
                self.jaxpr(inner, Some((call, emitter)), scope);
            }
        }
    }
}
