//! The table of rules: every JAX primitive that has an ONNX form.
//!
//! A rule reads the equation's parameters, emits ops and returns values. It names nothing, states no
//! types and knows no origins. To add a primitive: one line here, one file beside, one test.

use std::panic::Location;

use onnx::{Attrs, Op, ValueId};

use crate::{Context, RuleError};

type Result<T = Vec<ValueId>> = std::result::Result<T, RuleError>;

/// How one primitive is lowered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule {
    /// The primitive's name, which is also the rule's.
    pub(crate) name: &'static str,
    body: Body,
}

#[derive(Clone, Copy, Debug)]
enum Body {
    /// The operator of the same meaning, and the table line that says so.
    Op(&'static str, &'static Location<'static>),
    /// A function of its own file.
    Function(fn(&mut Context<'_>, &[ValueId]) -> Result),
}

impl Rule {
    /// Emits the rule's nodes.
    pub(crate) fn apply(&self, cx: &mut Context<'_>, x: &[ValueId]) -> Result {
        match self.body {
            Body::Function(lower) => lower(cx, x),
            Body::Op(op, at) => {
                let inputs = x.iter().map(|v| Some(*v)).collect();
                Ok(cx.emit(Op::onnx(op), inputs, Attrs::new(), 1, at)?)
            }
        }
    }
}

#[track_caller]
fn op(name: &'static str) -> Body {
    Body::Op(name, Location::caller())
}

macro_rules! rules {
    ($($primitive:literal => $body:expr,)*) => {
        /// The rule of a primitive.
        pub(crate) fn find(primitive: &str) -> Option<Rule> {
            use Body::Function as f;
            let (name, body) = match primitive {
                $($primitive => ($primitive, $body),)*
                _ => return None,
            };
            Some(Rule { name, body })
        }

        /// All primitives that have a rule, in alphabetical order.
        pub fn primitives() -> &'static [&'static str] {
            &[$($primitive),*]
        }
    };
}

rules! {
    "abs" => op("Abs"),
    "sin" => op("Sin"),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(primitives().is_sorted(), "keep the table in alphabetical order");
    }
}
