//! Name stacks: the modules and functions that an equation belongs to.

use std::sync::Arc;

use jaxpr::{Entered, Function};
use pyo3::prelude::*;
use rustc_hash::FxHashSet;

use super::{Reader, Result, address};
use crate::jax_names::{FUNCTION_SCOPE, REMATERIALIZED_SCOPE, attr, class};

/// The contents of a name stack: the scope, with levels separated by `/`, and the calls of
/// functions.
pub(super) type Scopes = (Arc<str>, Arc<[Entered]>);

impl<'py> Reader<'_, 'py> {
    /// Reads a name stack. Transformations and scopes that JAX itself opens are not levels of the
    /// model.
    pub(super) fn scope(&mut self, stack: &Bound<'py, PyAny>) -> Result<Scopes> {
        if let Some(known) = self.scopes.get(&address(stack)) {
            return Ok(known.clone());
        }
        let class = class::scope(self.py)?;
        let mut path = String::new();
        let mut functions = Vec::new();
        let mut transformations = String::new();
        for level in stack.getattr(attr::stack(self.py))?.try_iter()? {
            let level = level?;
            let name: String = level.getattr(attr::name(self.py))?.extract()?;
            if !level.get_type().is(class) {
                transformations.push(' ');
                transformations.push_str(&name);
            } else if let Some((call, function)) = function(&name) {
                let call = format!("{call}{transformations}").into();
                let depth = functions.len();
                functions.push(Entered { function, call, outer: path.len(), depth });
            } else if !is_opened_by_jax(&name) {
                if !path.is_empty() {
                    path.push('/');
                }
                path.push_str(&name);
            }
        }
        let read: Scopes = (path.into(), functions.into());
        self.scopes.insert(address(stack), read.clone());
        Ok(read)
    }
}

/// Returns `true` for the names of scopes that JAX opens: `jnp.einsum` opens one that is named after
/// its specification.
fn is_opened_by_jax(level: &str) -> bool {
    level == REMATERIALIZED_SCOPE || is_specification(level)
}

/// Returns `true` for the specification of a product, such as `bqhd,bkhd->bhqk`. Each label of the
/// result occurs once there, and in an operand.
fn is_specification(level: &str) -> bool {
    let Some((operands, result)) = level.split_once("->") else {
        return is_implicit_specification(level);
    };
    let is_written = |text: &str, others: &[char]| {
        let is_label = |c: char| c.is_alphabetic() || c == ' ' || others.contains(&c);
        text.replace("...", "").chars().all(is_label)
    };
    let mut labels = result.chars().filter(|c| c.is_alphabetic());
    let mut seen = FxHashSet::default();
    is_written(operands, &[','])
        && is_written(result, &[])
        && operands.chars().any(|c| c.is_alphabetic() || c == '.')
        && labels.all(|label| operands.contains(label) && seen.insert(label))
}

/// Returns `true` for a specification without a result, such as `ij,jk`. Operands that share no
/// label could be names as well: `q,k,v`.
fn is_implicit_specification(level: &str) -> bool {
    let operands: Vec<String> = level.split(',').map(|text| text.replace("...", "")).collect();
    let labels = |operand: &String| operand.chars().filter(|c| c.is_alphabetic()).collect();
    let sets: Vec<FxHashSet<char>> = operands.iter().map(labels).collect();
    let is_shared = |(at, set): (usize, &FxHashSet<char>)| {
        sets[at + 1..].iter().any(|other| !set.is_disjoint(other))
    };
    operands.len() > 1
        && operands.iter().all(|text| text.chars().all(|c| c.is_alphabetic() || c == ' '))
        && sets.iter().enumerate().any(is_shared)
}

/// Parses the function call that a level of a name stack represents.
fn function(level: &str) -> Option<(&str, Arc<Function>)> {
    let (prefix, separator) = FUNCTION_SCOPE;
    let mut parts = level.strip_prefix(prefix)?.splitn(4, separator);
    let (call, flags) = (parts.next()?, parts.next()?);
    let (namespace, name) = (parts.next()?.into(), parts.next()?.into());
    let (unique, module) = (flags.contains('u'), flags.contains('m'));
    Some((call, Arc::new(Function { name, namespace, unique, module })))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn specifications_are_told_from_names() {
        for level in [
            "bqhd,bkhd->bhqk",
            "ij->ji",
            "...i,i->...",
            "i,i->",
            "b i, i j -> b j",
            "ii->i",
            "ij,jk",
            "...i,i",
        ] {
            assert!(is_specification(level), "{level}");
        }
        for level in [
            "encoder->decoder",
            "in->out",
            "q,k,v",
            "mine",
            "a_1,a_2",
            "->",
            "",
            "a.b->a",
            "f32->f16",
        ] {
            assert!(!is_specification(level), "{level}");
        }
    }
}
