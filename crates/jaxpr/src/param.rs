//! Parameters of equations, and typed access to them.

use std::sync::Arc;

use tensor::{DType, Dim, Tensor};

use crate::JaxprId;

/// The value of one parameter.
#[derive(Clone, Debug)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Param {
    None,
    Bool(bool),
    Int(i64),
    Float(f64),
    Str(Arc<str>),
    /// A member of a Python enum or a primitive, by its name.
    Enum(Arc<str>),
    DType(DType),
    /// A symbolic dimension.
    Dim(Dim),
    List(Vec<Param>),
    /// A mapping, or an object with named fields such as `GatherDimensionNumbers`.
    Fields(Vec<(Arc<str>, Param)>),
    Tensor(Tensor),
    Jaxpr(JaxprId),
    /// A value that no rule reads, by its Python type.
    Opaque(Arc<str>),
}

impl Param {
    /// Returns the jaxprs inside the parameter.
    pub fn jaxprs(&self) -> Vec<JaxprId> {
        let mut found = Vec::new();
        self.collect_jaxprs(&mut found);
        found
    }

    fn collect_jaxprs(&self, found: &mut Vec<JaxprId>) {
        match self {
            Param::Jaxpr(id) => found.push(*id),
            Param::List(items) => items.iter().for_each(|item| item.collect_jaxprs(found)),
            Param::Fields(fields) => {
                fields.iter().for_each(|(_, field)| field.collect_jaxprs(found));
            }
            _ => {}
        }
    }
}

/// A parameter that is missing or has an unexpected type.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parameter `{name}`: expected {expected}, found {found}")]
pub struct ParamError {
    /// The parameter's name.
    pub name: String,
    /// The expected type.
    pub expected: &'static str,
    /// The value found.
    pub found: String,
}

/// The parameters of an equation, by name.
#[derive(Clone, Debug, Default)]
pub struct Params(pub Vec<(Arc<str>, Param)>);

impl Params {
    /// Returns the parameter `name` without a conversion.
    pub fn raw(&self, name: &str) -> Option<&Param> {
        self.0.iter().find(|(key, _)| **key == *name).map(|(_, value)| value)
    }

    /// Returns the jaxprs inside the parameters.
    pub fn jaxprs(&self) -> impl Iterator<Item = JaxprId> {
        self.0.iter().flat_map(|(_, param)| param.jaxprs())
    }

    /// Returns the parameter `name` as a `T`.
    pub fn get<T: FromParam>(&self, name: &str) -> Result<T, ParamError> {
        let found = self.raw(name);
        found.and_then(T::from_param).ok_or_else(|| ParamError {
            name: name.to_owned(),
            expected: T::EXPECTED,
            found: found.map_or_else(|| "nothing".to_owned(), |p| format!("{p:?}")),
        })
    }
}

/// A type that parameters can be converted to.
pub trait FromParam: Sized {
    /// The type's name in messages.
    const EXPECTED: &'static str;

    /// Converts `param`, if it has this type.
    fn from_param(param: &Param) -> Option<Self>;
}

macro_rules! from_param {
    ($($ty:ty, $expected:literal, |$param:ident| $body:expr;)*) => {
        $(impl FromParam for $ty {
            const EXPECTED: &'static str = $expected;

            fn from_param($param: &Param) -> Option<Self> {
                $body
            }
        })*
    };
}

from_param! {
    bool, "a boolean", |param| match param {
        Param::Bool(value) => Some(*value),
        Param::Int(value @ 0..=1) => Some(*value == 1),
        _ => None,
    };
    i64, "an integer", |param| match param {
        Param::Int(value) => Some(*value),
        Param::Bool(value) => Some(i64::from(*value)),
        _ => None,
    };
    usize, "a non-negative integer", |param| usize::try_from(i64::from_param(param)?).ok();
    f64, "a number", |param| match param {
        Param::Float(value) => Some(*value),
        #[expect(clippy::cast_precision_loss, reason = "JAX would convert it the same way")]
        Param::Int(value) => Some(*value as f64),
        _ => None,
    };
    Arc<str>, "a string", |param| match param {
        Param::Str(value) | Param::Enum(value) => Some(Arc::clone(value)),
        _ => None,
    };
    DType, "an element type", |param| match param {
        Param::DType(value) => Some(*value),
        _ => None,
    };
    Dim, "a dimension", |param| match param {
        Param::Int(value) => Some(Dim::Known(*value)),
        Param::Dim(value) => Some(value.clone()),
        _ => None,
    };
    JaxprId, "a jaxpr", |param| match param {
        Param::Jaxpr(value) => Some(*value),
        _ => None,
    };
    Params, "an object with fields", |param| match param {
        Param::Fields(fields) => Some(Params(fields.clone())),
        _ => None,
    };
}

impl<T: FromParam> FromParam for Vec<T> {
    const EXPECTED: &'static str = "a sequence";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::List(items) => items.iter().map(T::from_param).collect(),
            _ => None,
        }
    }
}

impl<T: FromParam> FromParam for Option<T> {
    const EXPECTED: &'static str = T::EXPECTED;

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::None => Some(None),
            other => T::from_param(other).map(Some),
        }
    }
}

impl<A: FromParam, B: FromParam> FromParam for (A, B) {
    const EXPECTED: &'static str = "a pair";

    fn from_param(param: &Param) -> Option<Self> {
        match param {
            Param::List(items) => match items.as_slice() {
                [a, b] => Some((A::from_param(a)?, B::from_param(b)?)),
                _ => None,
            },
            _ => None,
        }
    }
}
