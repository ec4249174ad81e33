//! ONNX's text syntax, for people and for tests.
//!
//! ```text
//! mlp (float[B,3] x) => (float[B,4] y)
//! <
//!   float[4] bias = {0.0, 0.5, 1.0, 1.5}
//! >
//! {
//!   c0 = Constant <value_ints: ints = [0, 4]> ()
//!   t = Reshape (x, c0)  # float[B,4]
//!   y = Add <axis: int = 1> (t, bias)  # float[B,4]
//! }
//! ```
//!
//! Named constants (parameters) are initializers; unnamed ones are `Constant` nodes. Types of
//! intermediate values are inferred. Those that cannot be inferred are in the list of initializers,
//! without data. Unlike `onnx.parser`, this reads 16-bit floats with a point as numbers; a plain
//! integer is a bit pattern in both.

mod attribute;
mod build;
mod constant;
mod functions;
mod layout;
mod lexer;
mod literal;
mod model;
mod parse;
mod print;
mod syntax;

use tensor::DType;

pub use build::parse;
pub(crate) use model::{element_name, tensor_of};
pub use model::{elements, print_model};
pub use print::print;

/// ONNX's names of the element types.
const DTYPES: [(&str, DType); 25] = [
    ("bool", DType::Bool),
    ("int2", DType::I2),
    ("int4", DType::I4),
    ("int8", DType::I8),
    ("int16", DType::I16),
    ("int32", DType::I32),
    ("int64", DType::I64),
    ("uint2", DType::U2),
    ("uint4", DType::U4),
    ("uint8", DType::U8),
    ("uint16", DType::U16),
    ("uint32", DType::U32),
    ("uint64", DType::U64),
    ("float4e2m1", DType::F4E2M1FN),
    ("float8e4m3fn", DType::F8E4M3FN),
    ("float8e4m3fnuz", DType::F8E4M3FNUZ),
    ("float8e5m2", DType::F8E5M2),
    ("float8e5m2fnuz", DType::F8E5M2FNUZ),
    ("float8e8m0", DType::F8E8M0FNU),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("float", DType::F32),
    ("double", DType::F64),
    ("complex64", DType::C64),
    ("complex128", DType::C128),
];

fn dtype_name(dtype: DType) -> &'static str {
    // The table lists the types in the order of the enum, which a test checks.
    DTYPES[dtype as usize].0
}

fn dtype_named(name: &str) -> Option<DType> {
    DTYPES.iter().find(|(text, _)| *text == name).map(|(_, dtype)| *dtype)
}

#[cfg(test)]
mod tests;
