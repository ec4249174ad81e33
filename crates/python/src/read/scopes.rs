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
    /// Reads the name stack of an equation with this traceback. Transformations and scopes that JAX
    /// itself opens are not levels of the model.
    pub(super) fn scope(
        &mut self,
        stack: &Bound<'py, PyAny>,
        traceback: &Bound<'py, PyAny>,
    ) -> Result<Scopes> {
        if let Some(known) = self.scopes.get(&address(stack)) {
            return Ok(known.clone());
        }
        let class = class::scope(self.py)?;
        let mut path = String::new();
        let mut functions = Vec::new();
        let mut transformations = String::new();
        // The end of the path before its last level, if that may be an implicit specification.
        let mut before_implicit = None;
        for level in stack.getattr(attr::stack(self.py))?.try_iter()? {
            let level = level?;
            let name: String = level.getattr(attr::name(self.py))?.extract()?;
            if !level.get_type().is(class) {
                transformations.push(' ');
                transformations.push_str(&name);
                continue;
            }
            before_implicit = is_implicit_specification(&name).then_some(path.len());
            if let Some((call, function)) = function(&name) {
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
        if let Some(end) = before_implicit
            && !traceback.is_none()
            && self.tracebacks.is_in_einsum(traceback)?
        {
            path.truncate(end);
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
    let Some((operands, result)) = level.split_once("->") else { return false };
    let mut labels = result.chars().filter(|c| c.is_alphabetic());
    let mut seen = FxHashSet::default();
    is_implicit_specification(operands)
        && !result.contains(',')
        && (result.is_empty() || is_implicit_specification(result))
        && labels.all(|label| operands.contains(label) && seen.insert(label))
}

/// Returns `true` for text that can be a specification without a result, such as `ij,jk`. Names of
/// modules look the same: `attn`.
fn is_implicit_specification(level: &str) -> bool {
    let level = level.replace("...", "…");
    let is_label = |c: char| c.is_alphabetic() || c == '…';
    level.contains(is_label) && level.chars().all(|c| is_label(c) || c == ',' || c == ' ')
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
            "...->...",
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
        for (level, may_be) in [
            ("ij,jk", true),
            ("...i,i", true),
            ("ii", true),
            ("mlp", true),
            ("a.b", false),
            ("", false),
        ] {
            assert_eq!(is_implicit_specification(level), may_be, "{level}");
        }
    }
}
