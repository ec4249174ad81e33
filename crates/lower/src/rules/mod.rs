//! The table of rules: every JAX primitive that has an ONNX form.
//!
//! A rule reads the equation's parameters, emits ops and returns values. It names nothing, states no
//! types and knows no origins. A new primitive is a module and an entry here, a file and a test.

mod arg_extremum;
mod atan2;
mod bessel;
mod bitcast_convert_type;
mod bitwise;
mod broadcast_in_dim;
mod call;
mod cbrt;
mod cholesky;
mod cholesky_update;
mod clamp;
mod clz;
mod collective;
mod complex;
mod concatenate;
mod cond;
mod conv_general_dilated;
mod convert_element_type;
mod cumulative;
mod custom_linear_solve;
mod debug;
mod dft;
mod digamma;
mod dim_as_value;
mod division;
mod dot_general;
mod dynamic_slice;
mod dynamic_update_slice;
mod eig;
mod eigh;
mod empty;
mod entries;
mod erf_inv;
mod erfc;
mod exp2;
mod expm1;
mod extremum;
mod fft;
mod fraction;
mod gather;
mod geqrf;
mod hessenberg;
mod householder_product;
mod identity;
mod igamma_grad_a;
mod incomplete_gamma;
mod indices;
mod integer_pow;
mod iota;
mod iota_2x32_shape;
mod is_finite;
mod iteration;
mod jacobi;
mod known;
mod lgamma;
mod log1p;
mod log2;
mod lu;
mod lu_pivots_to_permutation;
mod matrix;
mod monoid;
mod mulhi;
mod ne;
mod nextafter;
mod one_minus_square;
mod onnx_function;
mod ormqr;
mod pad;
mod philox;
mod platform_index;
mod polygamma;
mod polynomial;
mod population_count;
mod pow;
mod qr;
mod reduce;
mod reduce_precision;
mod reduce_window;
mod reduce_window_max;
mod reduce_window_min;
mod reduce_window_sum;
mod reflectors;
mod regularized_incomplete_beta;
mod reshape;
mod rev;
mod rng_bit_generator;
mod round;
mod rounds;
mod rsqrt;
mod run;
mod same_padding;
mod scan;
mod scatter;
mod schur;
mod select_and_gather_add;
mod select_and_scatter_add;
mod select_n;
mod shift;
mod slice;
mod sort;
mod split;
mod square;
mod squeeze;
mod stack;
mod svd;
mod symmetric_product;
mod threefry;
mod tile;
mod top_k;
mod total_order;
mod transpose;
mod triangular_solve;
mod tridiagonal;
mod tridiagonal_solve;
mod while_;
mod window;
mod words;
mod zeta;

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
    "and" => f(bitwise::and),
    "approx_top_k" => f(call::call_jaxpr),
    "argmax" => f(arg_extremum::max),
    "argmin" => f(arg_extremum::min),
    "asin" => op("Asin"),
    "asinh" => op("Asinh"),
    "atan" => op("Atan"),
    "atan2" => f(atan2::lower),
    "atanh" => op("Atanh"),
    "bessel_i0e" => f(bessel::i0e),
    "bessel_i1e" => f(bessel::i1e),
    "bitcast_convert_type" => f(bitcast_convert_type::lower),
    "broadcast_in_dim" => f(broadcast_in_dim::lower),
    "call_hi_primitive" => f(call::call_jaxpr),
    "cbrt" => f(cbrt::lower),
    "ceil" => op("Ceil"),
    "checkpoint" => f(call::jaxpr),
    "cholesky" => numbers(cholesky::lower),
    "cholesky_update" => numbers(cholesky_update::lower),
    "clamp" => f(clamp::lower),
    "closed_call" => f(call::call_jaxpr),
    "clz" => f(clz::lower),
    "complex" => f(complex::never_real),
    "concatenate" => f(concatenate::lower),
    "cond" => f(cond::lower),
    "conj" => f(complex::never_real),
    "conv_general_dilated" => f(conv_general_dilated::lower),
    "convert_element_type" => f(convert_element_type::lower),
    "copy" => f(identity::lower),
    "copy_p" => f(identity::lower),
    "core_call" => f(call::call_jaxpr),
    "cos" => op("Cos"),
    "cosh" => op("Cosh"),
    "cumlogsumexp" => numbers(cumulative::logsumexp),
    "cummax" => numbers(cumulative::max),
    "cummin" => numbers(cumulative::min),
    "cumprod" => numbers(cumulative::prod),
    "cumsum" => f(cumulative::sum),
    "custom_jvp_call" => f(call::call_jaxpr),
    "custom_linear_solve" => f(custom_linear_solve::lower),
    "custom_vjp_call" => f(call::call_jaxpr),
    "custom_vjp_call_jaxpr" => f(call::fun_jaxpr),
    "debug_callback" => numbers(debug::lower),
    "debug_print" => numbers(debug::lower),
    "device_put" => f(identity::lower),
    "digamma" => f(digamma::lower),
    "dim_as_value" => f(dim_as_value::lower),
    "div" => f(division::div),
    "dot_general" => f(dot_general::lower),
    "dynamic_slice" => f(dynamic_slice::lower),
    "dynamic_update_slice" => f(dynamic_update_slice::lower),
    "eig" => numbers(eig::lower),
    "eigh" => numbers(eigh::lower),
    "empty" => numbers(empty::lower),
    "empty2" => numbers(empty::lower),
    "eq" => op("Equal"),
    "eq_to" => f(total_order::eq),
    "erf" => op("Erf"),
    "erf_inv" => f(erf_inv::lower),
    "erfc" => f(erfc::lower),
    "eval_jaxpr" => f(call::call_jaxpr),
    "exp" => op("Exp"),
    "exp2" => f(exp2::lower),
    "expm1" => f(expm1::lower),
    "fft" => numbers(fft::lower),
    "floor" => op("Floor"),
    "gather" => f(gather::lower),
    "ge" => op("GreaterOrEqual"),
    "geqrf" => numbers(geqrf::lower),
    "gt" => op("Greater"),
    "hessenberg" => numbers(hessenberg::lower),
    "householder_product" => numbers(householder_product::lower),
    "igamma" => f(incomplete_gamma::lower),
    "igamma_grad_a" => f(igamma_grad_a::lower),
    "igammac" => f(incomplete_gamma::upper),
    "imag" => f(complex::never_real),
    "integer_pow" => f(integer_pow::lower),
    "iota" => f(iota::lower),
    "iota_2x32_shape" => f(iota_2x32_shape::lower),
    "is_finite" => f(is_finite::lower),
    "jit" => f(call::jaxpr),
    "le" => op("LessOrEqual"),
    "le_to" => f(total_order::le),
    "lgamma" => f(lgamma::lower),
    "log" => op("Log"),
    "log1p" => f(log1p::lower),
    "log2" => f(log2::lower),
    "logistic" => op("Sigmoid"),
    "lt" => op("Less"),
    "lt_to" => f(total_order::lt),
    "lu" => numbers(lu::lower),
    "lu_pivots_to_permutation" => f(lu_pivots_to_permutation::lower),
    "max" => f(extremum::max),
    "min" => f(extremum::min),
    "mul" => op("Mul"),
    "mulhi" => f(mulhi::lower),
    "ne" => f(ne::lower),
    "neg" => op("Neg"),
    "nextafter" => f(nextafter::lower),
    "not" => f(bitwise::not),
    "one_minus_square" => f(one_minus_square::lower),
    "onnx_function" => numbers(onnx_function::lower),
    "optimization_barrier" => f(identity::lower),
    "or" => f(bitwise::or),
    "ormqr" => numbers(ormqr::lower),
    "pad" => f(pad::lower),
    "philox2x32" => f(philox::two),
    "philox4x32" => f(philox::four),
    "pjit" => f(call::jaxpr),
    "platform_index" => f(platform_index::lower),
    "pmax" => f(collective::max),
    "pmin" => f(collective::min),
    "polygamma" => f(polygamma::lower),
    "polynomial" => numbers(polynomial::lower),
    "population_count" => f(population_count::lower),
    "pow" => f(pow::lower),
    "psum" => f(collective::sum),
    "qr" => numbers(qr::lower),
    "random_bits" => f(call::call_jaxpr),
    "random_clone" => f(identity::lower),
    "random_fold_in" => f(call::call_jaxpr),
    "random_gamma" => f(call::call_jaxpr),
    "random_seed" => f(call::call_jaxpr),
    "random_split" => f(call::call_jaxpr),
    "random_unwrap" => f(identity::lower),
    "random_wrap" => f(identity::lower),
    "real" => f(complex::never_real),
    "reduce" => numbers(reduce::lower),
    "reduce_and" => f(reduce::and),
    "reduce_max" => f(reduce::max),
    "reduce_min" => f(reduce::min),
    "reduce_or" => f(reduce::or),
    "reduce_precision" => f(reduce_precision::lower),
    "reduce_prod" => f(reduce::prod),
    "reduce_sum" => f(reduce::sum),
    "reduce_window" => numbers(reduce_window::lower),
    "reduce_window_max" => numbers(reduce_window_max::lower),
    "reduce_window_min" => numbers(reduce_window_min::lower),
    "reduce_window_sum" => numbers(reduce_window_sum::lower),
    "reduce_xor" => f(reduce::xor),
    "regularized_incomplete_beta" => f(regularized_incomplete_beta::lower),
    "rem" => f(division::rem),
    "remat" => f(call::jaxpr),
    "remat2" => f(call::jaxpr),
    "reshape" => f(reshape::lower),
    "reshard" => f(identity::lower),
    "rev" => f(rev::lower),
    "rng_bit_generator" => f(rng_bit_generator::lower),
    "round" => f(round::lower),
    "rsqrt" => f(rsqrt::lower),
    "scan" => f(scan::lower),
    "scatter" => f(scatter::set),
    "scatter-add" => f(scatter::add),
    "scatter-max" => f(scatter::max),
    "scatter-min" => f(scatter::min),
    "scatter-mul" => f(scatter::mul),
    "scatter-sub" => f(scatter::sub),
    "schur" => numbers(schur::lower),
    "select_and_gather_add" => f(select_and_gather_add::lower),
    "select_and_scatter_add" => f(select_and_scatter_add::lower),
    "select_n" => f(select_n::lower),
    "sharding_constraint" => f(identity::lower),
    "shift_left" => f(shift::left),
    "shift_right_arithmetic" => f(shift::right_arithmetic),
    "shift_right_logical" => f(shift::right_logical),
    "sign" => op("Sign"),
    "sin" => op("Sin"),
    "sinh" => op("Sinh"),
    "slice" => f(slice::lower),
    "sort" => f(sort::lower),
    "split" => f(split::lower),
    "sqrt" => op("Sqrt"),
    "square" => f(square::lower),
    "squeeze" => f(squeeze::lower),
    "stack" => f(stack::stack),
    "stop_gradient" => f(identity::lower),
    "sub" => op("Sub"),
    "svd" => numbers(svd::lower),
    "symmetric_product" => f(symmetric_product::lower),
    "tan" => op("Tan"),
    "tanh" => op("Tanh"),
    "threefry2x32" => f(threefry::two),
    "threefry4x32" => f(threefry::four),
    "tile" => f(tile::lower),
    "top_k" => f(top_k::lower),
    "transpose" => f(transpose::lower),
    "triangular_solve" => numbers(triangular_solve::lower),
    "tridiagonal" => numbers(tridiagonal::lower),
    "tridiagonal_solve" => numbers(tridiagonal_solve::lower),
    "unstack" => f(stack::unstack),
    "while" => f(while_::lower),
    "xor" => f(bitwise::xor),
    "zeta" => f(zeta::lower),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        assert!(primitives().is_sorted(), "keep the table in alphabetical order");
    }
}
