//! The table of primitives: one row for each that has an ONNX form.
//!
//! A row defines the lowering of equations on real numbers, the treatment of complex ones and of
//! PRNG keys, and the equations that JAX expands to other primitives first. Apart from rules that
//! look into jaxprs, no other code knows primitives by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::primitive::Complex::{Each, Flat, RealOnly};
use super::primitive::Control::{Branches, Iterations, While};
use super::primitive::Expansion::{
    AllEqual, AnyDiffers, Apply, ChooseAndGather, ChooseAndScatter, Fold, FoldWindows, HiPrimitive,
    KeyBits, KeyFoldIn, KeyGamma, KeySeed, KeySplit, Map, Moved, ScaledProduct, TopK,
};
use super::primitive::Keys::{self, Never as NoKeys, PassedOn};
use super::primitive::{
    Alone, Beyond, Primitive, by, by_type, call, complex_only, expanded, numbers, op, own, refused,
    row, rule, same,
};
use super::{
    bits, complex, control_flow, elementwise, fourier, indexing, linear_algebra, movement, random,
    reduction, special, windows,
};

/// This file, which is the site of nodes that a row emits directly.
pub(crate) const TABLE_FILE: &str = file!();

/// Returns the row of a primitive.
pub fn primitive(name: &str) -> Option<&'static Primitive> {
    BY_NAME.get(name).copied()
}

/// The rows by name, which are looked up for each equation.
static BY_NAME: LazyLock<FxHashMap<&str, &Primitive>> =
    LazyLock::new(|| TABLE.iter().map(|row| (row.name, row)).collect());

/// Returns all rows, in alphabetical order.
pub fn primitives() -> &'static [Primitive] {
    TABLE
}

/// The primitives that need more than a model has, such as other devices or Python, and are not
/// lowered directly.
pub const BEYOND_MODELS: &[(&str, Beyond)] = &[
    ("all_gather", Beyond::Collective(Alone::Reshaped)),
    ("all_gather_invariant", Beyond::Collective(Alone::Reshaped)),
    ("all_to_all", Beyond::Collective(Alone::Reshaped)),
    ("axis_index", Beyond::Collective(Alone::Zero)),
    ("io_callback", Beyond::Python),
    ("pbroadcast", Beyond::Collective(Alone::Same)),
    ("pcast", Beyond::Collective(Alone::Same)),
    ("pmax", Beyond::Collective(Alone::Same)),
    ("pmin", Beyond::Collective(Alone::Same)),
    ("ppermute", Beyond::Collective(Alone::Permuted)),
    ("psum", Beyond::Collective(Alone::Same)),
    ("psum_invariant", Beyond::Collective(Alone::Same)),
    ("pure_callback", Beyond::Python),
    ("pvary", Beyond::Collective(Alone::Same)),
    ("reduce_scatter", Beyond::Collective(Alone::Reshaped)),
    ("shard_map", Beyond::Devices),
];

#[rustfmt::skip]
static TABLE: &[Primitive] = &[
    row("abs", op("Abs"), own(complex::modulus::abs), NoKeys),
    row("acos", op("Acos"), own(complex::inverse::acos), NoKeys),
    row("acosh", op("Acosh"), own(complex::inverse::acosh), NoKeys),
    row("add", op("Add"), Each, NoKeys),
    row("add_any", op("Add"), Each, NoKeys),
    row("and", by_type("BitwiseAnd", "And"), RealOnly, NoKeys),
    expanded("approx_top_k", TopK),
    row("argmax", rule(reduction::arg_extremum::max),
        refused("complex numbers cannot be ranked"), NoKeys),
    row("argmin", rule(reduction::arg_extremum::min),
        refused("complex numbers cannot be ranked"), NoKeys),
    row("asin", op("Asin"), own(complex::inverse::asin), NoKeys),
    row("asinh", op("Asinh"), own(complex::inverse::asinh), NoKeys),
    row("atan", op("Atan"), own(complex::inverse::atan), NoKeys),
    row("atan2", rule(elementwise::atan2::lower), own(complex::inverse::atan2), NoKeys),
    row("atanh", op("Atanh"), own(complex::inverse::atanh), NoKeys),
    row("bessel_i0e", rule(special::bessel::i0e), RealOnly, NoKeys),
    row("bessel_i1e", rule(special::bessel::i1e), RealOnly, NoKeys),
    row("bitcast_convert_type", rule(bits::bitcast_convert_type::lower),
        own(complex::conversion::bitcast), NoKeys),
    row("broadcast_in_dim", rule(movement::broadcast_in_dim::lower), Each, by(Moved)).filling(),
    expanded("call_hi_primitive", HiPrimitive),
    row("cbrt", rule(elementwise::cbrt::lower), RealOnly, NoKeys),
    row("ceil", op("Ceil"), RealOnly, NoKeys),
    call("checkpoint", &["jaxpr"]),
    numbers("cholesky", linear_algebra::cholesky::lower, NoKeys),
    numbers("cholesky_update", linear_algebra::cholesky_update::lower, NoKeys),
    row("clamp", rule(elementwise::clamp::lower),
        refused("complex numbers have no order to clamp by"), NoKeys),
    call("closed_call", &["call_jaxpr"]),
    row("clz", rule(bits::clz::lower), RealOnly, NoKeys),
    complex_only("complex", complex::part::complex),
    call("composite", &["jaxpr", "call_jaxpr"]),
    row("concatenate", rule(movement::concatenate::lower), Each, by(Moved)),
    row("cond", rule(control_flow::cond::lower), Flat, PassedOn).runs(Branches),
    complex_only("conj", complex::part::conj),
    row("conv_general_dilated", rule(windows::conv_general_dilated::lower),
        own(complex::linear::conv), NoKeys),
    row("convert_element_type", rule(elementwise::convert_element_type::lower),
        own(complex::conversion::convert), NoKeys),
    same("copy"),
    same("copy_p"),
    call("core_call", &["call_jaxpr"]),
    row("cos", op("Cos"), own(complex::trigonometric::cos), NoKeys),
    row("cosh", op("Cosh"), own(complex::trigonometric::cosh), NoKeys),
    numbers("cumlogsumexp", reduction::cumulative::logsumexp, NoKeys),
    numbers("cummax", reduction::cumulative::max, NoKeys),
    numbers("cummin", reduction::cumulative::min, NoKeys),
    numbers("cumprod", reduction::cumulative::prod, NoKeys),
    row("cumsum", rule(reduction::cumulative::sum), Each, NoKeys),
    call("custom_jvp_call", &["call_jaxpr"]),
    row("custom_linear_solve", rule(linear_algebra::custom_linear_solve::lower),
        Flat, Keys::Refused("a linear system cannot depend on PRNG keys")),
    call("custom_vjp_call", &["call_jaxpr"]),
    call("custom_vjp_call_jaxpr", &["fun_jaxpr"]),
    call("custom_vmap_call", &["call"]),
    numbers("debug_callback", control_flow::debug::lower, PassedOn),
    numbers("debug_print", control_flow::debug::lower, PassedOn),
    same("device_put"),
    row("digamma", rule(special::digamma::lower), RealOnly, NoKeys),
    row("dim_as_value", rule(movement::dim_as_value::lower), RealOnly, NoKeys),
    row("div", rule(elementwise::division::div), own(complex::arithmetic::div), NoKeys),
    row("dot_general", rule(linear_algebra::dot_general::lower), own(complex::linear::dot), NoKeys),
    row("dynamic_slice", rule(indexing::dynamic_slice::lower), Each, by(Moved)),
    row("dynamic_update_slice", rule(indexing::dynamic_update_slice::lower), Each, by(Moved)),
    numbers("eig", linear_algebra::eig::lower, NoKeys),
    numbers("eigh", linear_algebra::eigh::lower, NoKeys),
    numbers("empty", movement::empty::lower, by(Moved)),
    numbers("empty2", movement::empty::lower, by(Moved)),
    row("eq", op("Equal"), own(complex::order::eq), by(AllEqual)),
    row("eq_to", rule(bits::total_order::eq),
        refused("complex numbers have no total order"), NoKeys),
    row("erf", op("Erf"), RealOnly, NoKeys),
    row("erf_inv", rule(special::erf_inv::lower), RealOnly, NoKeys),
    row("erfc", rule(special::erfc::lower), RealOnly, NoKeys),
    call("eval_jaxpr", &["jaxpr", "call_jaxpr"]),
    row("exp", op("Exp"), own(complex::exponential::exp), NoKeys),
    row("exp2", rule(elementwise::exp2::lower), own(complex::exponential::exp2), NoKeys),
    row("expm1", rule(elementwise::expm1::lower), own(complex::exponential::expm1), NoKeys),
    numbers("fft", fourier::fft::lower, NoKeys),
    row("floor", op("Floor"), RealOnly, NoKeys),
    row("gather", rule(indexing::gather::lower), own(complex::indexing::gather), by(Moved)),
    row("ge", op("GreaterOrEqual"), RealOnly, NoKeys),
    numbers("geqrf", linear_algebra::geqrf::lower, NoKeys),
    row("gt", op("Greater"), RealOnly, NoKeys),
    numbers("hessenberg", linear_algebra::hessenberg::lower, NoKeys),
    numbers("householder_product", linear_algebra::householder_product::lower, NoKeys),
    row("igamma", rule(special::incomplete_gamma::lower), RealOnly, NoKeys),
    row("igamma_grad_a", rule(special::igamma_grad_a::lower), RealOnly, NoKeys),
    row("igammac", rule(special::incomplete_gamma::upper), RealOnly, NoKeys),
    complex_only("imag", complex::part::imag),
    row("integer_pow", rule(elementwise::integer_pow::lower),
        own(complex::arithmetic::integer_pow), NoKeys),
    row("iota", rule(movement::iota::lower), own(complex::conversion::iota), NoKeys).filling(),
    row("iota_2x32_shape", rule(random::iota_2x32_shape::lower), RealOnly, NoKeys),
    row("is_finite", rule(elementwise::is_finite::lower), RealOnly, NoKeys),
    call("jit", &["jaxpr"]),
    same("layout_constraint"),
    row("le", op("LessOrEqual"), RealOnly, NoKeys),
    row("le_to", rule(bits::total_order::le), RealOnly, NoKeys),
    row("lgamma", rule(special::lgamma::lower), RealOnly, NoKeys),
    call("linear_call", &["callee"]),
    row("log", op("Log"), own(complex::exponential::log), NoKeys),
    row("log1p", rule(elementwise::log1p::lower), own(complex::exponential::log1p), NoKeys),
    row("log2", rule(elementwise::log2::lower), own(complex::exponential::log2), NoKeys),
    row("logistic", op("Sigmoid"), own(complex::arithmetic::logistic), NoKeys),
    row("lt", op("Less"), RealOnly, NoKeys),
    row("lt_to", rule(bits::total_order::lt), RealOnly, NoKeys),
    numbers("lu", linear_algebra::lu::lower, NoKeys),
    row("lu_pivots_to_permutation", rule(linear_algebra::lu_pivots_to_permutation::lower),
        RealOnly, NoKeys),
    row("max", by_type("Max", "Or"), own(complex::order::max), NoKeys),
    row("min", by_type("Min", "And"), own(complex::order::min), NoKeys),
    row("mul", op("Mul"), own(complex::arithmetic::mul), NoKeys),
    row("mulhi", rule(bits::mulhi::lower), RealOnly, NoKeys),
    same("name"),
    row("ne", rule(elementwise::ne::lower), own(complex::order::ne), by(AnyDiffers)),
    row("neg", op("Neg"), Each, NoKeys),
    row("nextafter", rule(elementwise::nextafter::lower), RealOnly, NoKeys),
    row("not", by_type("BitwiseNot", "Not"), RealOnly, NoKeys),
    row("one_minus_square", rule(elementwise::one_minus_square::lower),
        own(complex::arithmetic::one_minus_square), NoKeys),
    numbers("onnx_function", control_flow::onnx_function::lower, PassedOn),
    same("optimization_barrier"),
    row("or", by_type("BitwiseOr", "Or"), RealOnly, NoKeys),
    numbers("ormqr", linear_algebra::ormqr::lower, NoKeys),
    row("pad", rule(movement::pad::lower), Each, by(Moved)),
    row("philox2x32", rule(random::philox::two), RealOnly, NoKeys),
    row("philox4x32", rule(random::philox::four), RealOnly, NoKeys),
    call("pjit", &["jaxpr"]),
    row("platform_index", rule(control_flow::platform_index::lower), RealOnly, NoKeys),
    row("pmax", rule(reduction::collective::max),
        refused("the maximum of complex numbers over a mapped axis is not supported"), NoKeys),
    row("pmin", rule(reduction::collective::min),
        refused("the minimum of complex numbers over a mapped axis is not supported"), NoKeys),
    row("polygamma", rule(special::polygamma::lower), RealOnly, NoKeys),
    numbers("polynomial", elementwise::polynomial::lower, NoKeys),
    row("population_count", rule(bits::population_count::lower), RealOnly, NoKeys),
    row("pow", rule(elementwise::pow::lower), own(complex::power::pow), NoKeys),
    row("psum", rule(reduction::collective::sum), Flat, NoKeys),
    numbers("qr", linear_algebra::qr::lower, NoKeys),
    expanded("random_bits", KeyBits),
    same("random_clone"),
    expanded("random_fold_in", KeyFoldIn),
    expanded("random_gamma", KeyGamma),
    expanded("random_seed", KeySeed),
    expanded("random_split", KeySplit),
    same("random_unwrap"),
    same("random_wrap"),
    complex_only("real", complex::part::real),
    numbers("reduce", reduction::reduce::lower, NoKeys)
        .expanded_if(Fold, reduction::monoid::reduces_otherwise),
    row("reduce_and", rule(reduction::reduce::and), RealOnly, NoKeys),
    row("reduce_max", rule(reduction::reduce::max), own(complex::reduction::max), NoKeys),
    row("reduce_min", rule(reduction::reduce::min), own(complex::reduction::min), NoKeys),
    row("reduce_or", rule(reduction::reduce::or), RealOnly, NoKeys),
    row("reduce_precision", rule(bits::reduce_precision::lower), RealOnly, NoKeys),
    row("reduce_prod", rule(reduction::reduce::prod), own(complex::reduction::prod), NoKeys),
    row("reduce_sum", rule(reduction::reduce::sum), Each, NoKeys),
    numbers("reduce_window", windows::reduce_window::lower, NoKeys)
        .expanded_if(FoldWindows, reduction::monoid::reduces_otherwise),
    numbers("reduce_window_max", windows::reduce_window_max::lower, NoKeys),
    numbers("reduce_window_min", windows::reduce_window_min::lower, NoKeys),
    numbers("reduce_window_sum", windows::reduce_window_sum::lower, NoKeys),
    row("reduce_xor", rule(reduction::reduce::xor), RealOnly, NoKeys),
    row("regularized_incomplete_beta", rule(special::regularized_incomplete_beta::lower),
        RealOnly, NoKeys),
    row("rem", rule(elementwise::division::rem), RealOnly, NoKeys),
    call("remat", &["jaxpr"]),
    call("remat2", &["jaxpr"]),
    row("reshape", rule(movement::reshape::lower), Each, by(Moved)),
    same("reshard"),
    row("rev", rule(movement::rev::lower), Each, by(Moved)),
    row("rng_bit_generator", rule(random::rng_bit_generator::lower), RealOnly, NoKeys),
    row("round", rule(elementwise::round::lower), RealOnly, NoKeys),
    row("rsqrt", rule(elementwise::rsqrt::lower), own(complex::power::rsqrt), NoKeys),
    expanded("scaled_matmul_wrapper", ScaledProduct),
    row("scan", rule(control_flow::scan::lower), Flat, PassedOn).runs(Iterations).iterations_at_once(Map),
    row("scatter", rule(indexing::scatter::set), Each, by(Moved))
        .expanded_if(Apply, indexing::scatter::applies_a_function),
    row("scatter-add", rule(indexing::scatter::add), Each, NoKeys),
    row("scatter-max", rule(indexing::scatter::max), own(complex::indexing::scatter_max), NoKeys),
    row("scatter-min", rule(indexing::scatter::min), own(complex::indexing::scatter_min), NoKeys),
    row("scatter-mul", rule(indexing::scatter::mul), own(complex::indexing::scatter_mul), NoKeys),
    row("scatter-sub", rule(indexing::scatter::sub), Each, NoKeys),
    numbers("schur", linear_algebra::schur::lower, NoKeys),
    row("select_and_gather_add", rule(windows::select_and_gather_add::lower),
        refused("complex numbers cannot be ranked"), NoKeys)
        .expanded_if(ChooseAndGather, windows::window::chooses_otherwise),
    row("select_and_scatter_add", rule(windows::select_and_scatter_add::lower),
        refused("complex numbers cannot be ranked"), NoKeys)
        .expanded_if(ChooseAndScatter, windows::window::chooses_otherwise),
    row("select_n", rule(elementwise::select_n::lower), Each, by(Moved)),
    same("sharding_constraint"),
    row("shift_left", rule(bits::shift::left), RealOnly, NoKeys),
    row("shift_right_arithmetic", rule(bits::shift::right_arithmetic), RealOnly, NoKeys),
    row("shift_right_logical", rule(bits::shift::right_logical), RealOnly, NoKeys),
    row("sign", op("Sign"), own(complex::modulus::sign), NoKeys),
    row("sin", op("Sin"), own(complex::trigonometric::sin), NoKeys),
    row("sinh", op("Sinh"), own(complex::trigonometric::sinh), NoKeys),
    row("slice", rule(movement::slice::lower), Each, by(Moved)),
    row("sort", rule(reduction::sort::lower), Flat, NoKeys),
    row("split", rule(movement::split::lower), Each, by(Moved)),
    row("sqrt", op("Sqrt"), own(complex::power::sqrt), NoKeys),
    row("square", rule(elementwise::square::lower), own(complex::arithmetic::square), NoKeys),
    row("squeeze", rule(movement::squeeze::lower), Each, by(Moved)),
    row("stack", rule(movement::stack::stack), Each, by(Moved)),
    same("stop_gradient"),
    row("sub", op("Sub"), Each, NoKeys),
    numbers("svd", linear_algebra::svd::lower, NoKeys),
    row("symmetric_product", rule(linear_algebra::symmetric_product::lower),
        refused("complex matrices are not supported"), NoKeys),
    row("tan", op("Tan"), own(complex::trigonometric::tan), NoKeys),
    row("tanh", op("Tanh"), own(complex::trigonometric::tanh), NoKeys),
    row("threefry2x32", rule(random::threefry::two), RealOnly, NoKeys),
    row("threefry4x32", rule(random::threefry::four), RealOnly, NoKeys),
    row("tile", rule(movement::tile::lower), Each, by(Moved)),
    row("top_k", rule(reduction::top_k::lower),
        refused("complex numbers cannot be ranked"), NoKeys),
    row("transpose", rule(movement::transpose::lower), Each, by(Moved)),
    numbers("triangular_solve", linear_algebra::triangular_solve::lower, NoKeys),
    numbers("tridiagonal", linear_algebra::tridiagonal::lower, NoKeys),
    numbers("tridiagonal_solve", linear_algebra::tridiagonal_solve::lower, NoKeys),
    row("unstack", rule(movement::stack::unstack), Each, by(Moved)),
    row("while", rule(control_flow::while_::lower), Flat, PassedOn).runs(While),
    same("xla_metadata_value"),
    row("xor", by_type("BitwiseXor", "Xor"), RealOnly, NoKeys),
    row("zeta", rule(special::zeta::lower), RealOnly, NoKeys),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted() {
        let sorted = TABLE.is_sorted_by(|a, b| a.name < b.name);
        assert!(sorted, "keep the table in alphabetical order");
    }
}
