//! What the table says about a primitive, and what follows from it.

use jaxpr::{Params, Program};
use onnx::ValueId;
use tensor::{DType, Type};

use super::{Result, control_flow};
use crate::{Context, Parts, RuleError};

/// A row of the table: all that is known about one primitive.
#[derive(Clone, Copy, Debug)]
pub struct Primitive {
    /// JAX's name of it, which is also the rule's.
    pub name: &'static str,
    rule: Rule,
    complex: Complex,
    /// What becomes of its equations about PRNG keys.
    pub keys: Keys,
    /// Which of its other equations JAX puts in terms of other primitives first.
    pub expands: Expands,
    /// How its equations run the jaxprs in their parameters, if not once each.
    pub control: Option<Control>,
    /// Whether it fills arrays with few numbers, which takes hardly more than the memory for them.
    pub fills: bool,
}

type OnValues = fn(&mut Context<'_>, &[ValueId]) -> Result;
type OnParts = fn(&mut Context<'_>, &[Parts]) -> Result<Vec<Parts>>;

/// How an equation of real numbers is lowered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    /// To the operator of the same meaning.
    Op(&'static str),
    /// To the operator of the same meaning: booleans have another one than numbers.
    ByType { numbers: &'static str, booleans: &'static str },
    /// By a function.
    Function(OnValues),
    /// By a function for real and complex numbers alike.
    Numbers(OnParts),
    /// By lowering the jaxpr that a parameter holds, in place. Versions of JAX have different names
    /// for the parameter.
    Call(&'static [&'static str]),
    /// By lowering what JAX expanded it to, in place.
    Expansion,
    /// To its operands.
    Same,
    /// Not at all: operands or results are always complex.
    ComplexOnly,
}

/// How an equation with complex operands or results is lowered.
#[derive(Clone, Copy, Debug)]
pub(super) enum Complex {
    /// By the rule, applied to the real parts and then to the imaginary parts; real operands take
    /// part in both.
    Each,
    /// By the rule, applied once to all parts in a row.
    Flat,
    /// By a function of its own.
    Own(OnParts),
    /// By the rule, which takes complex numbers as they are.
    Alike,
    /// JAX itself has the primitive for real numbers alone.
    RealOnly,
    /// Not at all, for this reason.
    Refused(&'static str),
}

/// What becomes of an equation about PRNG keys, which are integers in ONNX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keys {
    /// JAX has no such equation.
    Never,
    /// It stays as it is: the rule passes operands on and looks at no axis of theirs.
    PassedOn,
    /// JAX puts it in terms of integers.
    Expanded(Expansion),
    /// It cannot be lowered, for this reason.
    Refused(&'static str),
}

/// Which equations of a primitive JAX puts in terms of other primitives before they are lowered.
#[derive(Clone, Copy, Debug)]
pub enum Expands {
    /// None: the rule takes them all.
    Never,
    /// All: only the expansion is lowered.
    Always(Expansion),
    /// Those that the rule does not take: the function says which.
    Where(Expansion, fn(&Equation<'_>) -> bool),
    /// Loops whose rounds are better computed all at once, see [`crate::Rounds`]; the rule takes
    /// them all.
    Rounds(Expansion),
}

/// How an equation runs the jaxprs in its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Control {
    /// One of them, which an operand chooses.
    Branches,
    /// A body, for each row of the operands.
    Rounds,
    /// A body, as long as a condition holds.
    While,
}

impl Control {
    /// All of them.
    pub const ALL: &[Control] = &[Control::Branches, Control::Rounds, Control::While];

    /// What Python calls it.
    pub fn name(self) -> &'static str {
        match self {
            Control::Branches => "branches",
            Control::Rounds => "rounds",
            Control::While => "while",
        }
    }
}

macro_rules! expansions {
    ($($(#[$doc:meta])* $variant:ident = $name:literal,)*) => {
        /// The ways in which JAX puts an equation in terms of others. Each is a function in Python,
        /// which knows it by its name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Expansion {
            $($(#[$doc])* $variant,)*
        }

        impl Expansion {
            /// All of them.
            pub const ALL: &[Expansion] = &[$(Expansion::$variant),*];

            /// What Python calls it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Expansion::$variant => $name,)*
                }
            }
        }
    };
}

expansions! {
    /// Keys are equal if all their integers are.
    AllEqual = "all-equal",
    /// Keys differ if any of their integers does.
    AnyDiffers = "any-differs",
    /// A function is applied to the elements that indices point to.
    Apply = "apply",
    /// Of each window, the element that belongs to the preferred number.
    ChooseAndGather = "choose-and-gather",
    /// What belongs to each window is added where its preferred number is.
    ChooseAndScatter = "choose-and-scatter",
    /// Axes are reduced by a function.
    Fold = "fold",
    /// Windows are reduced by a function.
    FoldWindows = "fold-windows",
    /// A function that is a primitive is called.
    HiPrimitive = "hi-primitive",
    /// What the primitive's own implementation does.
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
    /// The primitive is applied to each integer that keys are made of.
    Moved = "moved",
    /// A product of matrices in small blocks, each of which has a scale.
    ScaledProduct = "scaled-product",
    /// The largest elements, exactly.
    TopK = "top-k",
}

/// What a primitive needs that a model does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Devices to map a function over.
    Devices,
    /// What other devices have computed.
    Collective(Alone),
    /// Python code of the user.
    Python,
}

/// What a collective gives on the only device there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Alone {
    /// Its operands.
    Same,
    /// Its operands, with axes of size one added or removed.
    Reshaped,
    /// Its operands if the device sends something to itself, zeros if it does not.
    Permuted,
    /// The number of the device.
    Zero,
}

impl Beyond {
    /// What Python calls it.
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

/// An equation that has been read, for the decision whether its rule takes it.
#[derive(Clone, Copy, Debug)]
pub struct Equation<'a> {
    /// The program that its jaxprs are in.
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
    /// The names that the parameter with the jaxpr may have, of a primitive that does nothing but call
    /// it; none of other primitives.
    pub fn calls(&self) -> &'static [&'static str] {
        match self.rule {
            Rule::Call(params) => params,
            _ => &[],
        }
    }

    /// Why its equations of complex numbers are not lowered; `None` if they are.
    pub fn without_complex(&self) -> Option<&'static str> {
        match self.complex {
            Complex::Each | Complex::Flat | Complex::Own(_) | Complex::Alike => None,
            Complex::RealOnly => Some("JAX has none"),
            Complex::Refused(reason) => Some(reason),
        }
    }

    /// Whether it can be lowered without asking JAX for an expansion first.
    pub fn takes_every_equation(&self) -> bool {
        matches!(self.expands, Expands::Never | Expands::Rounds(_))
            && !matches!(self.rule, Rule::Expansion)
    }

    /// Whether nothing but its expansion is ever lowered, so that it can keep its name.
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
            Rule::ByType { numbers, booleans } => {
                let is_boolean = x.first().is_some_and(|v| cx.dtype(*v) == DType::Bool);
                cx.row_op(if is_boolean { booleans } else { numbers }, x)
            }
            Rule::Function(lower) => lower(cx, x),
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

    /// JAX expands the equations for which `needed` holds.
    pub(super) const fn expanded_if(
        mut self,
        how: Expansion,
        needed: fn(&Equation<'_>) -> bool,
    ) -> Self {
        self.expands = Expands::Where(how, needed);
        self
    }

    /// Its equations run jaxprs like this.
    pub(super) const fn runs(mut self, control: Control) -> Self {
        self.control = Some(control);
        self
    }

    /// Its results cost hardly more than the memory for them.
    pub(super) const fn filling(mut self) -> Self {
        self.fills = true;
        self
    }

    /// JAX expands the equations whose rounds are better computed at once.
    pub(super) const fn rounds_at_once(mut self, how: Expansion) -> Self {
        self.expands = Expands::Rounds(how);
        self
    }
}

/// A primitive that has a rule for real numbers.
pub(super) const fn row(name: &'static str, rule: Rule, complex: Complex, keys: Keys) -> Primitive {
    let expands = Expands::Never;
    Primitive { name, rule, complex, keys, expands, control: None, fills: false }
}

/// A primitive with one rule for real and complex numbers.
pub(super) const fn numbers(name: &'static str, rule: OnParts, keys: Keys) -> Primitive {
    row(name, Rule::Numbers(rule), Complex::Alike, keys)
}

/// A primitive that calls the jaxpr in its parameter, and does nothing else.
pub(super) const fn call(name: &'static str, params: &'static [&'static str]) -> Primitive {
    row(name, Rule::Call(params), Complex::Flat, Keys::PassedOn)
}

/// A primitive that changes nothing in an exported model: its results are its operands.
pub(super) const fn same(name: &'static str) -> Primitive {
    row(name, Rule::Same, Complex::Flat, Keys::PassedOn)
}

/// A primitive of complex numbers alone.
pub(super) const fn complex_only(name: &'static str, rule: OnParts) -> Primitive {
    row(name, Rule::ComplexOnly, Complex::Own(rule), Keys::Never)
}

/// A primitive that JAX puts in terms of others, whatever its operands are.
pub(super) const fn expanded(name: &'static str, how: Expansion) -> Primitive {
    let expands = Expands::Always(how);
    Primitive { expands, ..row(name, Rule::Expansion, Complex::Flat, Keys::Expanded(how)) }
}

/// The operator of the same meaning.
pub(super) const fn op(name: &'static str) -> Rule {
    Rule::Op(name)
}

/// The operator of the same meaning for numbers, and that for booleans.
pub(super) const fn by_type(numbers: &'static str, booleans: &'static str) -> Rule {
    Rule::ByType { numbers, booleans }
}

/// A function that lowers an equation.
pub(super) const fn rule(lower: OnValues) -> Rule {
    Rule::Function(lower)
}

/// A function that lowers an equation of complex numbers.
pub(super) const fn own(lower: OnParts) -> Complex {
    Complex::Own(lower)
}

/// Complex numbers are refused, for this reason.
pub(super) const fn refused(reason: &'static str) -> Complex {
    Complex::Refused(reason)
}

/// Equations about PRNG keys are put in terms of integers.
pub(super) const fn by(how: Expansion) -> Keys {
    Keys::Expanded(how)
}
