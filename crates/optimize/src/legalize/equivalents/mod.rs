//! Operators in terms of others, for types that no cast can replace.
//!
//! Everything in double precision is accurate to a few units in the last place, even for results
//! near zero.

mod activations;
mod bits;
mod conv;
mod conv_transpose;
mod erf;
mod exponential;
mod hyperbolic;
mod integer_arithmetic;
mod integer_order;
mod integer_sum;
mod inverse_hyperbolic;
mod inverse_trigonometric;
mod nan_order;
mod pooling;
mod windows;

use onnx::{Attrs, Builder, Node, Result, ValueId};
use tensor::{DType, Tensor};

/// Why an equivalent does not apply to a node.
pub(super) enum Lack {
    /// Something about the node.
    Because(&'static str),
    /// Its nodes cannot be built: a bug.
    Graph(onnx::Error),
}

impl From<onnx::Error> for Lack {
    fn from(error: onnx::Error) -> Self {
        Lack::Graph(error)
    }
}

/// Emits what computes the results of a node.
pub(super) type Equivalent = fn(&mut Builder<'_>, &Node) -> std::result::Result<Vec<ValueId>, Lack>;

/// What replaces `op` on elements of type `dtype`.
pub(super) fn find(op: &str, dtype: DType) -> Option<Equivalent> {
    let equivalent: Equivalent = match (op, dtype) {
        ("Conv", d) if d == DType::F64 || d.is_integer() => conv::by_windows,
        ("ReduceMax" | "ReduceMin", d) if d.is_float() => nan_order::reduce,
        ("ScatterElements" | "ScatterND", d) if d.is_float() => nan_order::scatter,
        ("Swish", d) if d.is_float() => activations::swish,
        (_, DType::F64) => return find_f64(op),
        (_, d) if d.is_integer() => return find_integer(op, d),
        _ => return None,
    };
    Some(equivalent)
}

/// What replaces `op` at an opset that is too old for it.
pub(super) fn find_older(op: &str) -> Option<Equivalent> {
    match op {
        "BitCast" => Some(bits::bit_cast),
        _ => None,
    }
}

fn find_integer(op: &str, dtype: DType) -> Option<Equivalent> {
    Some(match (op, dtype) {
        ("ArgMax" | "ArgMin" | "ReduceMax" | "ReduceMin" | "TopK", DType::U64) => {
            integer_order::through_signed
        }
        ("Clip", DType::I64) => integer_order::clip,
        ("Max", DType::I64) => integer_order::max,
        ("Min", DType::I64) => integer_order::min,
        ("Mod", _) => integer_arithmetic::remainder,
        ("Pow", _) => integer_arithmetic::power,
        ("ReduceL1", _) => integer_sum::of_sizes,
        ("ReduceMax" | "ReduceMin", DType::I64) => integer_order::reduce_by_halves,
        ("ReduceProd", _) => integer_arithmetic::product,
        ("ReduceSum", _) => integer_sum::sum,
        ("ReduceSumSquare", _) => integer_sum::of_squares,
        ("Relu", DType::I64) => integer_order::relu,
        ("Sign", DType::I64) => integer_order::sign,
        _ => return None,
    })
}

fn find_f64(op: &str) -> Option<Equivalent> {
    Some(match op {
        "Acos" => inverse_trigonometric::acos,
        "Acosh" => inverse_hyperbolic::acosh,
        "Asin" => inverse_trigonometric::asin,
        "Asinh" => inverse_hyperbolic::asinh,
        "Atan" => inverse_trigonometric::atan,
        "Atanh" => inverse_hyperbolic::atanh,
        "AveragePool" => pooling::average,
        "ConvTranspose" => conv_transpose::by_conv,
        "Cosh" => hyperbolic::cosh,
        "Elu" => activations::elu,
        "Erf" => erf::erf,
        "Gelu" => erf::gelu,
        "GlobalAveragePool" => pooling::global_average,
        "GlobalMaxPool" => pooling::global_max,
        "HardSigmoid" => activations::hard_sigmoid,
        "HardSwish" => activations::hard_swish,
        "LeakyRelu" => activations::leaky_relu,
        "Mean" => activations::mean,
        "Mish" => activations::mish,
        "PRelu" => activations::prelu,
        "Selu" => activations::selu,
        "Sinh" => hyperbolic::sinh,
        "Softplus" => activations::softplus,
        "Softsign" => activations::softsign,
        "Tan" => inverse_trigonometric::tan,
        "ThresholdedRelu" => activations::thresholded_relu,
        _ => return None,
    })
}

/// The operand at `index`, which must be present.
fn operand(node: &Node, index: usize) -> Result<ValueId> {
    let missing = || onnx::Error::invalid(node.op.name, format!("operand {index} is missing"));
    node.input(index).ok_or_else(missing)
}

/// An integer constant.
fn int(b: &mut Builder<'_>, dtype: DType, value: i128) -> Result<ValueId> {
    let tensor = Tensor::int_scalar(dtype, value);
    let tensor = tensor.ok_or_else(|| onnx::Error::Graph(format!("{value} is not a {dtype}")))?;
    Ok(b.constant(tensor))
}

/// `result`, or a copy if it is just the operand `x`: a result inherits a name.
#[track_caller]
fn fresh(b: &mut Builder<'_>, x: ValueId, result: ValueId) -> Result<ValueId> {
    if result == x { b.op("Identity", &[x], Attrs::new()) } else { Ok(result) }
}

/// Arithmetic in mathematical notation.
pub(super) struct Real<'b, 'a>(pub(super) &'b mut Builder<'a>);

/// A value, or a number that becomes a constant.
#[derive(Clone, Copy)]
pub(super) enum Term {
    Value(ValueId),
    Number(f64),
}

impl From<ValueId> for Term {
    fn from(value: ValueId) -> Self {
        Term::Value(value)
    }
}

impl From<f64> for Term {
    fn from(number: f64) -> Self {
        Term::Number(number)
    }
}

macro_rules! binary {
    ($($name:ident => $op:literal;)*) => {
        $(#[track_caller]
        pub(super) fn $name(&mut self, a: impl Into<Term>, b: impl Into<Term>) -> Result<ValueId> {
            let operands = self.terms([a.into(), b.into()])?;
            self.0.op($op, &operands, Attrs::new())
        })*
    };
}

macro_rules! unary {
    ($($name:ident => $op:literal;)*) => {
        $(#[track_caller]
        pub(super) fn $name(&mut self, x: ValueId) -> Result<ValueId> {
            self.0.op($op, &[x], Attrs::new())
        })*
    };
}

impl Real<'_, '_> {
    binary! {
        add => "Add";
        sub => "Sub";
        mul => "Mul";
        div => "Div";
        max => "Max";
        min => "Min";
        less => "Less";
        greater => "Greater";
        equal => "Equal";
        not_less => "GreaterOrEqual";
        pow => "Pow";
    }

    unary! {
        abs => "Abs";
        cos => "Cos";
        exp => "Exp";
        floor => "Floor";
        is_inf => "IsInf";
        is_nan => "IsNaN";
        log => "Log";
        neg => "Neg";
        sign => "Sign";
        sin => "Sin";
        sqrt => "Sqrt";
        tanh => "Tanh";
    }

    /// The operands as values: numbers get the type of the others.
    fn terms<const N: usize>(&mut self, terms: [Term; N]) -> Result<[ValueId; N]> {
        let known = terms.iter().find_map(|term| match term {
            Term::Value(value) => Some(*value),
            Term::Number(_) => None,
        });
        let Some(known) = known else {
            return Err(onnx::Error::Graph("a formula of numbers alone".to_owned()));
        };
        let dtype = self.0.dtype(known);
        let mut values = [known; N];
        for (value, term) in values.iter_mut().zip(terms) {
            *value = match term {
                Term::Value(value) => value,
                Term::Number(number) => self.0.scalar(dtype, number)?,
            };
        }
        Ok(values)
    }

    /// `yes` where `condition` holds, else `no`.
    #[track_caller]
    pub(super) fn select(
        &mut self,
        condition: ValueId,
        yes: impl Into<Term>,
        no: impl Into<Term>,
    ) -> Result<ValueId> {
        let [yes, no] = self.terms([yes.into(), no.into()])?;
        self.0.op("Where", &[condition, yes, no], Attrs::new())
    }

    /// `x` between `low` and `high`.
    #[track_caller]
    fn clip(&mut self, x: ValueId, low: f64, high: f64) -> Result<ValueId> {
        let operands = self.terms([x.into(), low.into(), high.into()])?;
        self.0.op("Clip", &operands, Attrs::new())
    }

    /// The value at `x` of the polynomial with these coefficients, the constant term first.
    #[track_caller]
    pub(super) fn polynomial(&mut self, x: ValueId, coefficients: &[f64]) -> Result<ValueId> {
        let mut terms = coefficients.iter().rev();
        let mut sum = Term::Number(terms.next().copied().unwrap_or_default());
        for coefficient in terms {
            let product = self.mul(sum, x)?;
            sum = self.add(product, *coefficient)?.into();
        }
        let [sum, _] = self.terms([sum, x.into()])?;
        Ok(sum)
    }

    /// The result of a single-precision operator, as the start of one refinement step.
    #[track_caller]
    fn in_single(&mut self, op: &'static str, x: ValueId) -> Result<ValueId> {
        let single = self.0.cast(x, DType::F32)?;
        let start = self.0.op(op, &[single], Attrs::new())?;
        self.0.cast(start, DType::F64)
    }
}
