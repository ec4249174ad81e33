//! Finds all primitives without a rule, before lowering starts.

use std::panic::Location;

use jaxpr::{Eqn, JaxprId, Program};
use provenance::{Call, CallId, Emitter, Origins, ScopeId, Stage};
use rustc_hash::FxHashSet;

use crate::{Error, ExternalRules, Missing, rules};

/// Fails with all primitives that have no rule.
pub(crate) fn check(
    program: &Program,
    main: JaxprId,
    external: &ExternalRules,
    origins: &mut Origins,
) -> Result<(), Error> {
    let has_rule = |eqn: &Eqn| {
        external.contains_key(&eqn.primitive) || rules::primitive(&eqn.primitive).is_some()
    };
    if program.jaxprs.iter().flat_map(|jaxpr| &jaxpr.eqns).all(has_rule) {
        return Ok(());
    }
    let (complete, missing) = (FxHashSet::default(), Vec::new());
    let mut search = Search { program, external, origins, complete, missing };
    search.jaxpr(main, None, Origins::ROOT);
    if search.missing.is_empty() { Ok(()) } else { Err(Error::MissingRules(search.missing)) }
}

/// The maximum number of occurrences in one report. A program may repeat a mistake a thousand
/// times.
const LIMIT: usize = 50;

struct Search<'a> {
    program: &'a Program,
    external: &'a ExternalRules,
    origins: &'a mut Origins,
    /// The jaxprs whose primitives all have rules. Jaxprs are shared, so they are searched once.
    complete: FxHashSet<JaxprId>,
    missing: Vec<Missing>,
}

impl Search<'_> {
    fn jaxpr(&mut self, id: JaxprId, caller: Option<(CallId, Emitter)>, scope: ScopeId) {
        if self.complete.contains(&id) {
            return;
        }
        let (program, before) = (self.program, self.missing.len());
        for eqn in &program.jaxpr(id).eqns {
            if self.missing.len() >= LIMIT {
                return;
            }
            // An external rule may ignore the jaxprs of its equation, so they are not searched.
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
            for inner in eqn.params.jaxprs() {
                self.jaxpr(inner, Some((call, emitter)), scope);
            }
        }
        if self.missing.len() == before {
            self.complete.insert(id);
        }
    }
}
