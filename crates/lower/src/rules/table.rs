//! The table of primitives: one row for each that has an ONNX form.
//!
//! A row defines the lowering of equations on real numbers, the treatment of complex ones and of
//! PRNG keys, and the equations that JAX expands to other primitives first. Apart from rules that
//! look into jaxprs, no other code knows primitives by name.

use std::sync::LazyLock;

use rustc_hash::FxHashMap;

use super::primitive::Complex::{Each, Flat, Own, OwnBinary, OwnUnary, RealOnly, Refused};
use super::primitive::Control::{Branches, Iterations, While};
use super::primitive::Expansion::{
    AllEqual, AnyDiffers, Apply, ChooseAndGather, ChooseAndScatter, Fold, FoldWindows, HiPrimitive,
    KeyBits, KeyFoldIn, KeyGamma, KeySeed, KeySplit, Map, Moved, ScaledProduct, TopK,
};
use super::primitive::Keys::{self, Expanded, Never as NoKeys, PassedOn};
use super::primitive::Rule::{Binary, By, ByType, Op, Unary};
use super::primitive::{
    Alone, Beyond, Primitive, call, complex_only, expanded, numbers, row, same,
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
    row("abs", Op("Abs"), OwnUnary(complex::modulus::abs), NoKeys),
    row("acos", Op("Acos"), OwnUnary(complex::inverse::acos), NoKeys),
    row("acosh", Op("Acosh"), OwnUnary(complex::inverse::acosh), NoKeys),
    row("add", Op("Add"), Each, NoKeys),
    row("add_any", Op("Add"), Each, NoKeys),
    row("and", ByType("BitwiseAnd", "And"), RealOnly, NoKeys),
    expanded("approx_top_k", TopK),
    row("argmax", By(reduction::arg_extremum::max),
        Refused("complex numbers cannot be ranked"), NoKeys),
    row("argmin", By(reduction::arg_extremum::min),
        Refused("complex numbers cannot be ranked"), NoKeys),
    row("asin", Op("Asin"), OwnUnary(complex::inverse::asin), NoKeys),
    row("asinh", Op("Asinh"), OwnUnary(complex::inverse::asinh), NoKeys),
    row("atan", Op("Atan"), OwnUnary(complex::inverse::atan), NoKeys),
    row("atan2", Binary(elementwise::atan2::lower), OwnBinary(complex::inverse::atan2), NoKeys),
    row("atanh", Op("Atanh"), OwnUnary(complex::inverse::atanh), NoKeys),
    row("bessel_i0e", Unary(special::bessel::i0e), RealOnly, NoKeys),
    row("bessel_i1e", Unary(special::bessel::i1e), RealOnly, NoKeys),
    row("bitcast_convert_type", By(bits::bitcast_convert_type::lower),
        Own(complex::conversion::bitcast), NoKeys),
    row("broadcast_in_dim", By(movement::broadcast_in_dim::lower), Each, Expanded(Moved)).filling(),
    expanded("call_hi_primitive", HiPrimitive),
    row("cbrt", Unary(elementwise::cbrt::lower), RealOnly, NoKeys),
    row("ceil", Op("Ceil"), RealOnly, NoKeys),
    call("checkpoint", &["jaxpr"]),
    numbers("cholesky", linear_algebra::cholesky::lower, NoKeys),
    numbers("cholesky_update", linear_algebra::cholesky_update::lower, NoKeys),
    row("clamp", By(elementwise::clamp::lower),
        Refused("complex numbers have no order to clamp by"), NoKeys),
    call("closed_call", &["call_jaxpr"]),
    row("clz", Unary(bits::clz::lower), RealOnly, NoKeys),
    complex_only("complex", complex::part::complex),
    call("composite", &["jaxpr", "call_jaxpr"]),
    row("concatenate", By(movement::concatenate::lower), Each, Expanded(Moved)),
    row("cond", By(control_flow::cond::lower), Flat, PassedOn).runs(Branches),
    complex_only("conj", complex::part::conj),
    row("conv_general_dilated", By(windows::conv_general_dilated::lower),
        Own(complex::linear::conv), NoKeys),
    row("convert_element_type", By(elementwise::convert_element_type::lower),
        Own(complex::conversion::convert), NoKeys),
    same("copy"),
    same("copy_p"),
    call("core_call", &["call_jaxpr"]),
    row("cos", Op("Cos"), OwnUnary(complex::trigonometric::cos), NoKeys),
    row("cosh", Op("Cosh"), OwnUnary(complex::trigonometric::cosh), NoKeys),
    numbers("cumlogsumexp", reduction::cumulative::logsumexp, NoKeys),
    numbers("cummax", reduction::cumulative::max, NoKeys),
    numbers("cummin", reduction::cumulative::min, NoKeys),
    numbers("cumprod", reduction::cumulative::prod, NoKeys),
    row("cumsum", By(reduction::cumulative::sum), Each, NoKeys),
    call("custom_jvp_call", &["call_jaxpr"]),
    row("custom_linear_solve", By(linear_algebra::custom_linear_solve::lower),
        Flat, Keys::Refused("a linear system cannot depend on PRNG keys")),
    call("custom_vjp_call", &["call_jaxpr"]),
    call("custom_vjp_call_jaxpr", &["fun_jaxpr"]),
    call("custom_vmap_call", &["call"]),
    numbers("debug_callback", control_flow::debug::lower, PassedOn),
    numbers("debug_print", control_flow::debug::lower, PassedOn),
    same("device_put"),
    row("digamma", Unary(special::digamma::digamma), RealOnly, NoKeys),
    row("dim_as_value", By(movement::dim_as_value::lower), RealOnly, NoKeys),
    row("div", By(elementwise::division::div), Own(complex::arithmetic::div), NoKeys),
    row("dot_general", By(linear_algebra::dot_general::lower), Own(complex::linear::dot), NoKeys),
    row("dynamic_slice", By(indexing::dynamic_slice::lower), Each, Expanded(Moved)),
    row("dynamic_update_slice", By(indexing::dynamic_update_slice::lower), Each, Expanded(Moved)),
    numbers("eig", linear_algebra::eig::lower, NoKeys),
    numbers("eigh", linear_algebra::eigh::lower, NoKeys),
    numbers("empty", movement::empty::lower, Expanded(Moved)),
    numbers("empty2", movement::empty::lower, Expanded(Moved)),
    row("eq", Op("Equal"), OwnBinary(complex::order::eq), Expanded(AllEqual)),
    row("eq_to", By(bits::total_order::eq),
        Refused("complex numbers have no total order"), NoKeys),
    row("erf", Op("Erf"), RealOnly, NoKeys),
    row("erf_inv", Unary(special::erf_inv::lower), RealOnly, NoKeys),
    row("erfc", By(special::erfc::lower), RealOnly, NoKeys),
    call("eval_jaxpr", &["jaxpr", "call_jaxpr"]),
    row("exp", Op("Exp"), OwnUnary(complex::exponential::exp), NoKeys),
    row("exp2", By(elementwise::exp2::lower), OwnUnary(complex::exponential::exp2), NoKeys),
    row("expm1", Unary(elementwise::expm1::lower), OwnUnary(complex::exponential::expm1), NoKeys),
    numbers("fft", fourier::fft::lower, NoKeys),
    row("floor", Op("Floor"), RealOnly, NoKeys),
    row("gather", By(indexing::gather::lower), Own(complex::indexing::gather), Expanded(Moved)),
    row("ge", Op("GreaterOrEqual"), RealOnly, NoKeys),
    numbers("geqrf", linear_algebra::geqrf::lower, NoKeys),
    row("gt", Op("Greater"), RealOnly, NoKeys),
    numbers("hessenberg", linear_algebra::hessenberg::lower, NoKeys),
    numbers("householder_product", linear_algebra::householder_product::lower, NoKeys),
    row("igamma", By(special::incomplete_gamma::lower), RealOnly, NoKeys),
    row("igamma_grad_a", By(special::igamma_grad_a::lower), RealOnly, NoKeys),
    row("igammac", By(special::incomplete_gamma::upper), RealOnly, NoKeys),
    complex_only("imag", complex::part::imag),
    row("integer_pow", By(elementwise::integer_pow::lower),
        Own(complex::arithmetic::integer_pow), NoKeys),
    row("iota", By(movement::iota::lower), Own(complex::conversion::iota), NoKeys).filling(),
    row("iota_2x32_shape", By(random::iota_2x32_shape::lower), RealOnly, NoKeys),
    row("is_finite", By(elementwise::is_finite::lower), RealOnly, NoKeys),
    call("jit", &["jaxpr"]),
    same("layout_constraint"),
    row("le", Op("LessOrEqual"), RealOnly, NoKeys),
    row("le_to", By(bits::total_order::le), RealOnly, NoKeys),
    row("lgamma", Unary(special::lgamma::lgamma), RealOnly, NoKeys),
    call("linear_call", &["callee"]),
    row("log", Op("Log"), OwnUnary(complex::exponential::log), NoKeys),
    row("log1p", Unary(elementwise::log1p::lower), OwnUnary(complex::exponential::log1p), NoKeys),
    row("log2", Unary(elementwise::log2::lower), OwnUnary(complex::exponential::log2), NoKeys),
    row("logistic", Op("Sigmoid"), OwnUnary(complex::arithmetic::logistic), NoKeys),
    row("lt", Op("Less"), RealOnly, NoKeys),
    row("lt_to", By(bits::total_order::lt), RealOnly, NoKeys),
    numbers("lu", linear_algebra::lu::lower, NoKeys),
    row("lu_pivots_to_permutation", By(linear_algebra::lu_pivots_to_permutation::lower),
        RealOnly, NoKeys),
    row("max", ByType("Max", "Or"), Own(complex::order::max), NoKeys),
    row("min", ByType("Min", "And"), Own(complex::order::min), NoKeys),
    row("mul", Op("Mul"), OwnBinary(complex::arithmetic::mul), NoKeys),
    row("mulhi", Binary(bits::mulhi::lower), RealOnly, NoKeys),
    same("name"),
    row("ne", By(elementwise::ne::lower), OwnBinary(complex::order::ne), Expanded(AnyDiffers)),
    row("neg", Op("Neg"), Each, NoKeys),
    row("nextafter", By(elementwise::nextafter::lower), RealOnly, NoKeys),
    row("not", ByType("BitwiseNot", "Not"), RealOnly, NoKeys),
    row("one_minus_square", Unary(elementwise::one_minus_square::lower),
        OwnUnary(complex::arithmetic::one_minus_square), NoKeys),
    numbers("onnx_function", control_flow::onnx_function::lower, PassedOn),
    same("optimization_barrier"),
    row("or", ByType("BitwiseOr", "Or"), RealOnly, NoKeys),
    numbers("ormqr", linear_algebra::ormqr::lower, NoKeys),
    row("pad", By(movement::pad::lower), Each, Expanded(Moved)),
    row("philox2x32", By(random::philox::two), RealOnly, NoKeys),
    row("philox4x32", By(random::philox::four), RealOnly, NoKeys),
    call("pjit", &["jaxpr"]),
    row("platform_index", By(control_flow::platform_index::lower), RealOnly, NoKeys),
    row("pmax", By(reduction::collective::max),
        Refused("the maximum of complex numbers over a mapped axis is not supported"), NoKeys),
    row("pmin", By(reduction::collective::min),
        Refused("the minimum of complex numbers over a mapped axis is not supported"), NoKeys),
    row("polygamma", By(special::polygamma::lower), RealOnly, NoKeys),
    numbers("polynomial", elementwise::polynomial::lower, NoKeys),
    row("population_count", Unary(bits::population_count::lower), RealOnly, NoKeys),
    row("pow", By(elementwise::pow::lower), Own(complex::power::pow), NoKeys),
    row("psum", By(reduction::collective::sum), Flat, NoKeys),
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
    row("reduce_and", By(reduction::reduce::and), RealOnly, NoKeys),
    row("reduce_max", By(reduction::reduce::max), Own(complex::reduction::max), NoKeys),
    row("reduce_min", By(reduction::reduce::min), Own(complex::reduction::min), NoKeys),
    row("reduce_or", By(reduction::reduce::or), RealOnly, NoKeys),
    row("reduce_precision", By(bits::reduce_precision::lower), RealOnly, NoKeys),
    row("reduce_prod", By(reduction::reduce::prod), Own(complex::reduction::prod), NoKeys),
    row("reduce_sum", By(reduction::reduce::sum), Each, NoKeys),
    numbers("reduce_window", windows::reduce_window::lower, NoKeys)
        .expanded_if(FoldWindows, reduction::monoid::reduces_otherwise),
    numbers("reduce_window_max", windows::reduce_window_max::lower, NoKeys),
    numbers("reduce_window_min", windows::reduce_window_min::lower, NoKeys),
    numbers("reduce_window_sum", windows::reduce_window_sum::lower, NoKeys),
    row("reduce_xor", By(reduction::reduce::xor), RealOnly, NoKeys),
    row("regularized_incomplete_beta", By(special::regularized_incomplete_beta::lower),
        RealOnly, NoKeys),
    row("rem", By(elementwise::division::rem), RealOnly, NoKeys),
    call("remat", &["jaxpr"]),
    call("remat2", &["jaxpr"]),
    row("reshape", By(movement::reshape::lower), Each, Expanded(Moved)),
    same("reshard"),
    row("rev", By(movement::rev::lower), Each, Expanded(Moved)),
    row("rng_bit_generator", By(random::rng_bit_generator::lower), RealOnly, NoKeys),
    row("round", By(elementwise::round::lower), RealOnly, NoKeys),
    row("rsqrt", By(elementwise::rsqrt::lower), OwnUnary(complex::power::rsqrt), NoKeys),
    expanded("scaled_matmul_wrapper", ScaledProduct),
    row("scan", By(control_flow::scan::lower), Flat, PassedOn).runs(Iterations).iterations_at_once(Map),
    row("scatter", By(indexing::scatter::set), Each, Expanded(Moved))
        .expanded_if(Apply, indexing::scatter::applies_a_function),
    row("scatter-add", By(indexing::scatter::add), Each, NoKeys),
    row("scatter-max", By(indexing::scatter::max), Own(complex::indexing::scatter_max), NoKeys),
    row("scatter-min", By(indexing::scatter::min), Own(complex::indexing::scatter_min), NoKeys),
    row("scatter-mul", By(indexing::scatter::mul), Own(complex::indexing::scatter_mul), NoKeys),
    row("scatter-sub", By(indexing::scatter::sub), Each, NoKeys),
    numbers("schur", linear_algebra::schur::lower, NoKeys),
    row("select_and_gather_add", By(windows::select_and_gather_add::lower),
        Refused("complex numbers cannot be ranked"), NoKeys)
        .expanded_if(ChooseAndGather, windows::window::chooses_otherwise),
    row("select_and_scatter_add", By(windows::select_and_scatter_add::lower),
        Refused("complex numbers cannot be ranked"), NoKeys)
        .expanded_if(ChooseAndScatter, windows::window::chooses_otherwise),
    row("select_n", By(elementwise::select_n::lower), Each, Expanded(Moved)),
    same("sharding_constraint"),
    row("shift_left", By(bits::shift::left), RealOnly, NoKeys),
    row("shift_right_arithmetic", By(bits::shift::right_arithmetic), RealOnly, NoKeys),
    row("shift_right_logical", By(bits::shift::right_logical), RealOnly, NoKeys),
    row("sign", Op("Sign"), OwnUnary(complex::modulus::sign), NoKeys),
    row("sin", Op("Sin"), OwnUnary(complex::trigonometric::sin), NoKeys),
    row("sinh", Op("Sinh"), OwnUnary(complex::trigonometric::sinh), NoKeys),
    row("slice", By(movement::slice::lower), Each, Expanded(Moved)),
    row("sort", By(reduction::sort::lower), Flat, NoKeys),
    row("split", By(movement::split::lower), Each, Expanded(Moved)),
    row("sqrt", Op("Sqrt"), OwnUnary(complex::power::sqrt), NoKeys),
    row("square", By(elementwise::square::lower), OwnUnary(complex::arithmetic::square), NoKeys),
    row("squeeze", By(movement::squeeze::lower), Each, Expanded(Moved)),
    row("stack", By(movement::stack::stack), Each, Expanded(Moved)),
    same("stop_gradient"),
    row("sub", Op("Sub"), Each, NoKeys),
    numbers("svd", linear_algebra::svd::lower, NoKeys),
    row("symmetric_product", By(linear_algebra::symmetric_product::lower),
        Refused("complex matrices are not supported"), NoKeys),
    row("tan", Op("Tan"), OwnUnary(complex::trigonometric::tan), NoKeys),
    row("tanh", Op("Tanh"), OwnUnary(complex::trigonometric::tanh), NoKeys),
    row("threefry2x32", By(random::threefry::two), RealOnly, NoKeys),
    row("threefry4x32", By(random::threefry::four), RealOnly, NoKeys),
    row("tile", By(movement::tile::lower), Each, Expanded(Moved)),
    row("top_k", By(reduction::top_k::lower),
        Refused("complex numbers cannot be ranked"), NoKeys),
    row("transpose", By(movement::transpose::lower), Each, Expanded(Moved)),
    numbers("triangular_solve", linear_algebra::triangular_solve::lower, NoKeys),
    numbers("tridiagonal", linear_algebra::tridiagonal::lower, NoKeys),
    numbers("tridiagonal_solve", linear_algebra::tridiagonal_solve::lower, NoKeys),
    row("unstack", By(movement::stack::unstack), Each, Expanded(Moved)),
    row("while", By(control_flow::while_::lower), Flat, PassedOn).runs(While),
    same("xla_metadata_value"),
    row("xor", ByType("BitwiseXor", "Xor"), RealOnly, NoKeys),
    row("zeta", Binary(special::zeta::zeta), RealOnly, NoKeys),
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
