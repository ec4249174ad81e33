//! Constraints on dimension variables, in addition to being at least one.

use crate::{Dim, DimError};

/// The constraints of a scope of dimension variables, such as `T >= 4` or `mod(T, 2) == 0`.
///
/// Variables carry the constraints of their scope, so code that compares sizes need not look them
/// up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Constraints(Vec<Constraint>);

/// A constraint on one expression. Its variables have no constraints of their own.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Constraint {
    /// The constraint as the user wrote it.
    text: String,
    /// Expressions that are at least zero.
    facts: Vec<Dim>,
}

impl Constraints {
    /// Returns `true` if there are no constraints.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Adds a constraint, such as `T >= 4`: two expressions and `>=`, `<=` or `==`.
    pub fn add(&mut self, text: &str) -> Result<(), DimError> {
        let found = ["==", ">=", "<="]
            .iter()
            .find_map(|sign| text.split_once(sign).map(|(left, right)| (*sign, left, right)));
        let Some((sign, left, right)) = found else {
            return Err(DimError::new(text, "expected `>=`, `<=` or `==`", text.len()));
        };
        let difference = Dim::parse(left)? - Dim::parse(right)?;
        let facts = match sign {
            "==" => vec![difference.clone(), -difference],
            ">=" => vec![difference],
            _ => vec![-difference],
        };
        self.0.push(Constraint { text: text.trim().to_owned(), facts });
        Ok(())
    }

    /// Returns expressions that are at least zero.
    pub(crate) fn facts(&self) -> impl Iterator<Item = Dim> + '_ {
        self.0.iter().flat_map(|constraint| constraint.facts.iter().cloned())
    }

    /// Returns the constraints as they were added.
    pub fn texts(&self) -> impl Iterator<Item = &str> + '_ {
        self.0.iter().map(|constraint| constraint.text.as_str())
    }
}
