//! The properties of a primitive in the table, and their consequences.

use jaxpr::{Params, Program};
use onnx::ValueId;
use tensor::{DType, Type};

use super::control_flow;
use crate::formula::number::{self, Number};
use crate::formula::{Num, formula};
use crate::{Context, Parts, Result, RuleError};

/// A row of the table: everything that is known about one primitive.
#[derive(Clone, Copy, Debug)]
pub struct Primitive {
    /// JAX's name, which is also the rule's.
    pub name: &'static str,
    rule: Rule,
    complex: Complex,
    /// The treatment of its equations on PRNG keys.
    pub keys: Keys,
    /// The other equations that JAX first expands to other primitives.
    pub expands: Expands,
    /// The way that its equations run the jaxprs in their parameters, if not once each.
    pub control: Option<Control>,
    /// `true` if it fills arrays with few numbers, which costs hardly more than their memory.
    pub fills: bool,
}

type OnValues = fn(&mut Context<'_>, &[ValueId]) -> Result;
type OnParts = fn(&mut Context<'_>, &[Parts]) -> Result<Vec<Parts>>;

/// The lowering of an equation on real numbers.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// The operator with the same meaning.
    Op(&'static str),
    /// The operator with the same meaning for numbers, and another one for booleans.
    ByType(&'static str, &'static str),
    /// A formula of one operand, which computes with floats of at least 32 bits.
    Unary(for<'f> fn(Num<'f>) -> Num<'f>),
    /// A formula of two operands, which computes with floats of at least 32 bits.
    Binary(for<'f> fn(Num<'f>, Num<'f>) -> Num<'f>),
    /// A function.
    By(OnValues),
    /// A function for real and complex numbers.
    Numbers(OnParts),
    /// The jaxpr in a parameter, inlined. The name of the parameter depends on the version of JAX.
    Call(&'static [&'static str]),
    /// JAX's expansion, inlined.
    Expansion,
    /// The operands themselves.
    Same,
    /// None: operands or results are always complex.
    ComplexOnly,
}

/// The lowering of an equation with complex operands or results.
#[derive(Clone, Copy, Debug)]
pub(super) enum Complex {
    /// The rule, applied first to the real and then to the imaginary parts. Real operands take part
    /// in both.
    Each,
    /// The rule, applied once to all parts in a row.
    Flat,
    /// A separate function.
    Own(OnParts),
    /// A separate formula of one number.
    OwnUnary(for<'f> fn(Number<'f>) -> Number<'f>),
    /// A separate formula of two numbers.
    OwnBinary(for<'f> fn(Number<'f>, Number<'f>) -> Number<'f>),
    /// The rule, which handles complex numbers itself.
    Alike,
    /// None: JAX defines the primitive only for real numbers.
    RealOnly,
    /// An error with this reason.
    Refused(&'static str),
}

/// The treatment of an equation on PRNG keys, which are integers in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// JAX has no such equation.
    Never,
    /// The equation is preserved: the rule passes operands on and does not read their axes.
    PassedOn,
    /// JAX expands it to an equation on integers.
    Expanded(Expansion),
    /// An error with this reason.
    Refused(&'static str),
}

/// The equations of a primitive that JAX expands to other primitives before lowering.
#[derive(Clone, Copy, Debug)]
pub enum Expands {
    /// None: the rule handles them all.
    Never,
    /// All: only the expansion is lowered.
    Always(Expansion),
    /// The equations that the rule does not handle, as decided by a predicate.
    Where(Expansion, fn(&Equation<'_>) -> bool),
    /// Loops whose iterations are better computed all at once, see [`crate::RowLoop`]. The rule
    /// could handle them as well.
    RowLoop(Expansion),
}

/// The control flow of an equation with jaxprs in its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// One of the jaxprs, which an operand selects.
    Branches,
    /// A body, once for each row of the operands.
    Iterations,
    /// A body, while a condition holds.
    While,
}

impl Control {
    /// All variants.
    pub const ALL: &[Control] = &[Control::Branches, Control::Iterations, Control::While];

    /// Returns the name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Control::Branches => "branches",
            Control::Iterations => "iterations",
            Control::While => "while",
        }
    }
}

macro_rules! expansions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The ways that JAX expands an equation to others. Each is a function in Python,
        /// identified by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Expansion {
            $($(#[$doc])* $variant,)*
        }

        impl Expansion {
            /// All variants.
            pub const ALL: &[Expansion] = &[$(Expansion::$variant),*];

            /// Returns the name in Python.
            pub fn name(self) -> &'static str {
                match self {
                    $(Expansion::$variant => $name,)*
                }
            }
        }
    };
}

expansions! {
    /// Keys are equal if all of their integers are.
    AllEqual = "all-equal",
    /// Keys differ if any of their integers do.
    AnyDiffers = "any-differs",
    /// A function is applied to the elements at the given indices.
    Apply = "apply",
    /// From each window, the element at the position of the selected number is taken.
    ChooseAndGather = "choose-and-gather",
    /// The update of each window is added at the position of its selected number.
    ChooseAndScatter = "choose-and-scatter",
    /// Axes are reduced by a function.
    Fold = "fold",
    /// Windows are reduced by a function.
    FoldWindows = "fold-windows",
    /// A function that is a primitive is called.
    HiPrimitive = "hi-primitive",
    /// The primitive's own implementation.
    Implementation = "implementation",
    /// The key implementation's function for random bits.
    KeyBits = "key-bits",
    /// The key implementation's function for folding a number into a key.
    KeyFoldIn = "key-fold-in",
    /// Random numbers of the gamma distribution.
    KeyGamma = "key-gamma",
    /// The key implementation's function for a seed.
    KeySeed = "key-seed",
    /// The key implementation's function for splitting a key.
    KeySplit = "key-split",
    /// A loop's body is applied to all rows at once.
    Map = "map",
    /// The primitive is applied to each of the integers that make up keys.
    Moved = "moved",
    /// A product of matrices in small blocks, each with a scale.
    ScaledProduct = "scaled-product",
    /// The largest elements, computed exactly.
    TopK = "top-k",
}

/// A requirement of a primitive that no model can meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Several devices to map a function over.
    Devices,
    /// The results of other devices.
    Collective(Alone),
    /// The user's Python code.
    Python,
}

/// The result of a collective on a single device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Its operands.
    Same,
    /// Its operands, with axes of size one added or removed.
    Reshaped,
    /// Its operands if the device sends to itself, zeros otherwise.
    Permuted,
    /// The index of the device.
    Zero,
}

impl Beyond {
    /// Returns the name in Python.
    pub fn name(self) -> &'static str {
        match self {
            Beyond::Devices => "devices",
            Beyond::Python => "python",
            Beyond::Collective(Alone::Same) => "same",
            Beyond::Collective(Alone::Reshaped) => "reshaped",
            Beyond::Collective(Alone::Permuted) => "permuted",
            Beyond::Collective(Alone::Zero) => "zero",
        }
    }
}

/// An equation that has been read, for deciding whether its rule handles it.
#[derive(Clone, Copy, Debug)]
pub struct Equation<'a> {
    /// The program that contains its jaxprs.
    pub program: &'a Program,
    /// Its parameters.
    pub params: &'a Params,
    /// The types of its operands.
    pub operands: &'a [Type],
}

/// The primitive that calls the expansion of an equation, and the parameter that holds it. A
/// primitive that is always expanded keeps its own name.
pub const EXPANSION: (&str, &str) = ("closed_call", "call_jaxpr");

impl Primitive {
    /// Returns the possible names of the parameter with the jaxpr, for a primitive that only calls
    /// it, and nothing for other primitives.
    pub fn calls(&self) -> &'static [&'static str] {
        match self.rule {
            Rule::Call(params) => params,
            _ => &[],
        }
    }

    /// Returns the reason that its equations on complex numbers are not lowered, or `None` if they
    /// are.
    pub fn without_complex(&self) -> Option<&'static str> {
        match self.complex {
            Complex::RealOnly => Some("JAX has none"),
            Complex::Refused(reason) => Some(reason),
            _ => None,
        }
    }

    /// Returns `true` if it can be lowered without an expansion by JAX.
    pub fn takes_every_equation(&self) -> bool {
        matches!(self.expands, Expands::Never | Expands::RowLoop(_))
    }

    /// Returns `true` if only its expansion is ever lowered, so that it can keep its name.
    pub fn is_always_expanded(&self) -> bool {
        matches!(self.rule, Rule::Expansion)
    }

    /// Emits the nodes of an equation.
    pub(crate) fn apply(&self, cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
        if let Rule::Numbers(lower) = self.rule {
            return lower(cx, x);
        }
        if cx.is_complex() || x.iter().any(|value| value.is_complex()) {
            return self.complex_numbers(cx, x);
        }
        let flat: Vec<ValueId> = x.iter().flat_map(|value| value.flat()).collect();
        Ok(self.real(cx, &flat)?.into_iter().map(Parts::Real).collect())
    }

    fn real(&self, cx: &mut Context<'_>, x: &[ValueId]) -> Result {
        match self.rule {
            Rule::Op(op) => cx.row_op(op, x),
            Rule::ByType(numbers, booleans) => {
                let is_boolean = x.first().is_some_and(|v| cx.dtype(*v) == DType::Bool);
                cx.row_op(if is_boolean { booleans } else { numbers }, x)
            }
            Rule::Unary(body) => formula(cx, x, |[x]| body(x)),
            Rule::Binary(body) => formula(cx, x, |[x, y]| body(x, y)),
            Rule::By(lower) => lower(cx, x),
            Rule::Numbers(lower) => {
                let x: Vec<Parts> = x.iter().map(|v| Parts::Real(*v)).collect();
                Ok(lower(cx, &x)?.into_iter().flat_map(Parts::flat).collect())
            }
            Rule::Call(params) => control_flow::call::inline(cx, x, params),
            Rule::Expansion => control_flow::call::inline(cx, x, &[EXPANSION.1]),
            Rule::Same => Ok(x.to_vec()),
            Rule::ComplexOnly => {
                Err(RuleError::Internal("neither operand nor result is complex".to_owned()))
            }
        }
    }

    fn complex_numbers(&self, cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
        match self.complex {
            Complex::Own(lower) => lower(cx, x),
            Complex::OwnUnary(formula) => number::unary(cx, x, formula),
            Complex::OwnBinary(formula) => number::binary(cx, x, formula),
            Complex::Flat | Complex::Alike => {
                let flat: Vec<ValueId> = x.iter().flat_map(|value| value.flat()).collect();
                let mut outputs = self.real(cx, &flat)?.into_iter();
                cx.regroup(&mut outputs)
            }
            Complex::Each => {
                let side =
                    |pick: fn(Parts) -> ValueId| x.iter().map(|v| pick(*v)).collect::<Vec<_>>();
                let re = self.real(cx, &side(Parts::re))?;
                let im = self.real(cx, &side(|part| part.im().unwrap_or(part.re())))?;
                Ok(re.into_iter().zip(im).map(|(re, im)| Parts::Complex(re, im)).collect())
            }
            Complex::RealOnly => {
                Err(RuleError::unsupported("complex numbers are not supported here"))
            }
            Complex::Refused(reason) => Err(RuleError::unsupported(reason)),
        }
    }

    /// Lets JAX expand the equations that satisfy `needed`.
    pub(super) const fn expanded_if(
        mut self,
        how: Expansion,
        needed: fn(&Equation<'_>) -> bool,
    ) -> Self {
        self.expands = Expands::Where(how, needed);
        self
    }

    /// Sets the control flow of its equations.
    pub(super) const fn runs(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Declares that its results cost hardly more than their memory.
    pub(super) const fn filling(mut self) -> Self {
        self.fills = true;
        self
    }

    /// Lets JAX expand the loops whose iterations are better computed at once.
    pub(super) const fn iterations_at_once(mut self, how: Expansion) -> Self {
        self.expands = Expands::RowLoop(how);
        self
    }
}

/// Returns a primitive with a rule for real numbers.
pub(super) const fn row(name: &'static str, rule: Rule, complex: Complex, keys: Keys) -> Primitive {
    let expands = Expands::Never;
    Primitive { name, rule, complex, keys, expands, control: None, fills: false }
}

/// Returns a primitive with one rule for real and complex numbers.
pub(super) const fn numbers(name: &'static str, rule: OnParts, keys: Keys) -> Primitive {
    row(name, Rule::Numbers(rule), Complex::Alike, keys)
}

/// Returns a primitive that only calls the jaxpr in its parameter.
pub(super) const fn call(name: &'static str, params: &'static [&'static str]) -> Primitive {
    row(name, Rule::Call(params), Complex::Flat, Keys::PassedOn)
}

/// Returns a primitive that has no effect in an exported model: its results are its operands.
pub(super) const fn same(name: &'static str) -> Primitive {
    row(name, Rule::Same, Complex::Flat, Keys::PassedOn)
}

/// Returns a primitive that exists only for complex numbers.
pub(super) const fn complex_only(name: &'static str, rule: OnParts) -> Primitive {
    row(name, Rule::ComplexOnly, Complex::Own(rule), Keys::Never)
}

/// Returns a primitive that JAX always expands.
pub(super) const fn expanded(name: &'static str, how: Expansion) -> Primitive {
    let expands = Expands::Always(how);
    Primitive { expands, ..row(name, Rule::Expansion, Complex::Flat, Keys::Expanded(how)) }
}
