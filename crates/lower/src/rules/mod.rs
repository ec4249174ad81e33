//! The table of rules: every JAX primitive that has an ONNX form.
//!
//! A rule reads the equation's parameters, emits ops and returns values. It names nothing, states no
//! types and knows no origins. A new primitive is a module and an entry here, a file and a test.

mod bits;
mod complex;
mod control_flow;
mod elementwise;
mod fourier;
mod indexing;
mod linear_algebra;
mod movement;
mod random;
mod reduction;
mod special;
mod windows;

use std::panic::Location;

use onnx::{Attrs, Op, ValueId};

use crate::{Context, Parts, RuleError};

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
    /// A function of its own file for real and complex numbers alike.
    Numbers(fn(&mut Context<'_>, &[Parts]) -> Result<Vec<Parts>>),
}

impl Rule {
    /// Emits the rule's nodes.
    pub(crate) fn apply(&self, cx: &mut Context<'_>, x: &[Parts]) -> Result<Vec<Parts>> {
        if let Body::Numbers(lower) = self.body {
            return lower(cx, x);
        }
        if cx.is_complex() || x.iter().any(|value| value.is_complex()) {
            return complex::apply(self, cx, x);
        }
        let flat: Vec<ValueId> = x.iter().flat_map(|value| value.flat()).collect();
        Ok(self.real(cx, &flat)?.into_iter().map(Parts::Real).collect())
    }

    /// The rule on real values.
    fn real(&self, cx: &mut Context<'_>, x: &[ValueId]) -> Result {
        match self.body {
            Body::Function(lower) => lower(cx, x),
            Body::Numbers(lower) => {
                let x: Vec<Parts> = x.iter().map(|v| Parts::Real(*v)).collect();
                Ok(lower(cx, &x)?.into_iter().flat_map(Parts::flat).collect())
            }
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
            use Body::{Function as f, Numbers as numbers};
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
    "acos" => op("Acos"),
    "acosh" => op("Acosh"),
    "add" => op("Add"),
    "add_any" => op("Add"),
    "and" => f(bits::bitwise::and),
    "approx_top_k" => f(control_flow::call::call_jaxpr),
    "argmax" => f(reduction::arg_extremum::max),
    "argmin" => f(reduction::arg_extremum::min),
    "asin" => op("Asin"),
    "asinh" => op("Asinh"),
    "atan" => op("Atan"),
    "atan2" => f(elementwise::atan2::lower),
    "atanh" => op("Atanh"),
    "bessel_i0e" => f(special::bessel::i0e),
    "bessel_i1e" => f(special::bessel::i1e),
    "bitcast_convert_type" => f(bits::bitcast_convert_type::lower),
    "broadcast_in_dim" => f(movement::broadcast_in_dim::lower),
    "call_hi_primitive" => f(control_flow::call::call_jaxpr),
    "cbrt" => f(elementwise::cbrt::lower),
    "ceil" => op("Ceil"),
    "checkpoint" => f(control_flow::call::jaxpr),
    "cholesky" => numbers(linear_algebra::cholesky::lower),
    "cholesky_update" => numbers(linear_algebra::cholesky_update::lower),
    "clamp" => f(elementwise::clamp::lower),
    "closed_call" => f(control_flow::call::call_jaxpr),
    "clz" => f(bits::clz::lower),
    "complex" => f(complex::never_real),
    "concatenate" => f(movement::concatenate::lower),
    "cond" => f(control_flow::cond::lower),
    "conj" => f(complex::never_real),
    "conv_general_dilated" => f(windows::conv_general_dilated::lower),
    "convert_element_type" => f(elementwise::convert_element_type::lower),
    "copy" => f(control_flow::identity::lower),
    "copy_p" => f(control_flow::identity::lower),
    "core_call" => f(control_flow::call::call_jaxpr),
    "cos" => op("Cos"),
    "cosh" => op("Cosh"),
    "cumlogsumexp" => numbers(reduction::cumulative::logsumexp),
    "cummax" => numbers(reduction::cumulative::max),
    "cummin" => numbers(reduction::cumulative::min),
    "cumprod" => numbers(reduction::cumulative::prod),
    "cumsum" => f(reduction::cumulative::sum),
    "custom_jvp_call" => f(control_flow::call::call_jaxpr),
    "custom_linear_solve" => f(linear_algebra::custom_linear_solve::lower),
    "custom_vjp_call" => f(control_flow::call::call_jaxpr),
    "custom_vjp_call_jaxpr" => f(control_flow::call::fun_jaxpr),
    "debug_callback" => numbers(control_flow::debug::lower),
    "debug_print" => numbers(control_flow::debug::lower),
    "device_put" => f(control_flow::identity::lower),
    "digamma" => f(special::digamma::lower),
    "dim_as_value" => f(movement::dim_as_value::lower),
    "div" => f(elementwise::division::div),
    "dot_general" => f(linear_algebra::dot_general::lower),
    "dynamic_slice" => f(indexing::dynamic_slice::lower),
    "dynamic_update_slice" => f(indexing::dynamic_update_slice::lower),
    "eig" => numbers(linear_algebra::eig::lower),
    "eigh" => numbers(linear_algebra::eigh::lower),
    "empty" => numbers(movement::empty::lower),
    "empty2" => numbers(movement::empty::lower),
    "eq" => op("Equal"),
    "eq_to" => f(bits::total_order::eq),
    "erf" => op("Erf"),
    "erf_inv" => f(special::erf_inv::lower),
    "erfc" => f(special::erfc::lower),
    "eval_jaxpr" => f(control_flow::call::call_jaxpr),
    "exp" => op("Exp"),
    "exp2" => f(elementwise::exp2::lower),
    "expm1" => f(elementwise::expm1::lower),
    "fft" => numbers(fourier::fft::lower),
    "floor" => op("Floor"),
    "gather" => f(indexing::gather::lower),
    "ge" => op("GreaterOrEqual"),
    "geqrf" => numbers(linear_algebra::geqrf::lower),
    "gt" => op("Greater"),
    "hessenberg" => numbers(linear_algebra::hessenberg::lower),
    "householder_product" => numbers(linear_algebra::householder_product::lower),
    "igamma" => f(special::incomplete_gamma::lower),
    "igamma_grad_a" => f(special::igamma_grad_a::lower),
    "igammac" => f(special::incomplete_gamma::upper),
    "imag" => f(complex::never_real),
    "integer_pow" => f(elementwise::integer_pow::lower),
    "iota" => f(movement::iota::lower),
    "iota_2x32_shape" => f(random::iota_2x32_shape::lower),
    "is_finite" => f(elementwise::is_finite::lower),
    "jit" => f(control_flow::call::jaxpr),
    "le" => op("LessOrEqual"),
    "le_to" => f(bits::total_order::le),
    "lgamma" => f(special::lgamma::lower),
    "log" => op("Log"),
    "log1p" => f(elementwise::log1p::lower),
    "log2" => f(elementwise::log2::lower),
    "logistic" => op("Sigmoid"),
    "lt" => op("Less"),
    "lt_to" => f(bits::total_order::lt),
    "lu" => numbers(linear_algebra::lu::lower),
    "lu_pivots_to_permutation" => f(linear_algebra::lu_pivots_to_permutation::lower),
    "max" => f(elementwise::extremum::max),
    "min" => f(elementwise::extremum::min),
    "mul" => op("Mul"),
    "mulhi" => f(bits::mulhi::lower),
    "ne" => f(elementwise::ne::lower),
    "neg" => op("Neg"),
    "nextafter" => f(elementwise::nextafter::lower),
    "not" => f(bits::bitwise::not),
    "one_minus_square" => f(elementwise::one_minus_square::lower),
    "onnx_function" => numbers(control_flow::onnx_function::lower),
    "optimization_barrier" => f(control_flow::identity::lower),
    "or" => f(bits::bitwise::or),
    "ormqr" => numbers(linear_algebra::ormqr::lower),
    "pad" => f(movement::pad::lower),
    "philox2x32" => f(random::philox::two),
    "philox4x32" => f(random::philox::four),
    "pjit" => f(control_flow::call::jaxpr),
    "platform_index" => f(control_flow::platform_index::lower),
    "pmax" => f(reduction::collective::max),
    "pmin" => f(reduction::collective::min),
    "polygamma" => f(special::polygamma::lower),
    "polynomial" => numbers(elementwise::polynomial::lower),
    "population_count" => f(bits::population_count::lower),
    "pow" => f(elementwise::pow::lower),
    "psum" => f(reduction::collective::sum),
    "qr" => numbers(linear_algebra::qr::lower),
    "random_bits" => f(control_flow::call::call_jaxpr),
    "random_clone" => f(control_flow::identity::lower),
    "random_fold_in" => f(control_flow::call::call_jaxpr),
    "random_gamma" => f(control_flow::call::call_jaxpr),
    "random_seed" => f(control_flow::call::call_jaxpr),
    "random_split" => f(control_flow::call::call_jaxpr),
    "random_unwrap" => f(control_flow::identity::lower),
    "random_wrap" => f(control_flow::identity::lower),
    "real" => f(complex::never_real),
    "reduce" => numbers(reduction::reduce::lower),
    "reduce_and" => f(reduction::reduce::and),
    "reduce_max" => f(reduction::reduce::max),
    "reduce_min" => f(reduction::reduce::min),
    "reduce_or" => f(reduction::reduce::or),
    "reduce_precision" => f(bits::reduce_precision::lower),
    "reduce_prod" => f(reduction::reduce::prod),
    "reduce_sum" => f(reduction::reduce::sum),
    "reduce_window" => numbers(windows::reduce_window::lower),
    "reduce_window_max" => numbers(windows::reduce_window_max::lower),
    "reduce_window_min" => numbers(windows::reduce_window_min::lower),
    "reduce_window_sum" => numbers(windows::reduce_window_sum::lower),
    "reduce_xor" => f(reduction::reduce::xor),
    "regularized_incomplete_beta" => f(special::regularized_incomplete_beta::lower),
    "rem" => f(elementwise::division::rem),
    "remat" => f(control_flow::call::jaxpr),
    "remat2" => f(control_flow::call::jaxpr),
    "reshape" => f(movement::reshape::lower),
    "reshard" => f(control_flow::identity::lower),
    "rev" => f(movement::rev::lower),
    "rng_bit_generator" => f(random::rng_bit_generator::lower),
    "round" => f(elementwise::round::lower),
    "rsqrt" => f(elementwise::rsqrt::lower),
    "scan" => f(control_flow::scan::lower),
    "scatter" => f(indexing::scatter::set),
    "scatter-add" => f(indexing::scatter::add),
    "scatter-max" => f(indexing::scatter::max),
    "scatter-min" => f(indexing::scatter::min),
    "scatter-mul" => f(indexing::scatter::mul),
    "scatter-sub" => f(indexing::scatter::sub),
    "schur" => numbers(linear_algebra::schur::lower),
    "select_and_gather_add" => f(windows::select_and_gather_add::lower),
    "select_and_scatter_add" => f(windows::select_and_scatter_add::lower),
    "select_n" => f(elementwise::select_n::lower),
    "sharding_constraint" => f(control_flow::identity::lower),
    "shift_left" => f(bits::shift::left),
    "shift_right_arithmetic" => f(bits::shift::right_arithmetic),
    "shift_right_logical" => f(bits::shift::right_logical),
    "sign" => op("Sign"),
    "sin" => op("Sin"),
    "sinh" => op("Sinh"),
    "slice" => f(movement::slice::lower),
    "sort" => f(reduction::sort::lower),
    "split" => f(movement::split::lower),
    "sqrt" => op("Sqrt"),
    "square" => f(elementwise::square::lower),
    "squeeze" => f(movement::squeeze::lower),
    "stack" => f(movement::stack::stack),
    "stop_gradient" => f(control_flow::identity::lower),
    "sub" => op("Sub"),
    "svd" => numbers(linear_algebra::svd::lower),
    "symmetric_product" => f(linear_algebra::symmetric_product::lower),
    "tan" => op("Tan"),
    "tanh" => op("Tanh"),
    "threefry2x32" => f(random::threefry::two),
    "threefry4x32" => f(random::threefry::four),
    "tile" => f(movement::tile::lower),
    "top_k" => f(reduction::top_k::lower),
    "transpose" => f(movement::transpose::lower),
    "triangular_solve" => numbers(linear_algebra::triangular_solve::lower),
    "tridiagonal" => numbers(linear_algebra::tridiagonal::lower),
    "tridiagonal_solve" => numbers(linear_algebra::tridiagonal_solve::lower),
    "unstack" => f(movement::stack::unstack),
    "while" => f(control_flow::while_::lower),
    "xor" => f(bits::bitwise::xor),
    "zeta" => f(special::zeta::lower),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(primitives().is_sorted(), "keep the table in alphabetical order");
    }
}
