//! Element types: JAX's names on one side, ONNX's codes on the other.

use std::fmt;

/// An element type that JAX can trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    Bool,
    I2,
    I4,
    I8,
    I16,
    I32,
    I64,
    U2,
    U4,
    U8,
    U16,
    U32,
    U64,
    F4E2M1FN,
    F8E4M3FN,
    F8E4M3FNUZ,
    F8E5M2,
    F8E5M2FNUZ,
    F8E8M0FNU,
    F16,
    BF16,
    F32,
    F64,
    C64,
    C128,
}

/// The arithmetic family of an element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DTypeKind {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

/// A row of the table: the type, its NumPy name, its short name in JAX, its ONNX name, its ONNX
/// code, its width in bits and its family.
type Row = (DType, &'static str, &'static str, &'static str, i32, u32, DTypeKind);

const TABLE: &[Row] = &[
    (DType::Bool, "bool", "bool", "bool", 9, 8, DTypeKind::Bool),
    (DType::I2, "int2", "i2", "int2", 26, 2, DTypeKind::Signed),
    (DType::I4, "int4", "i4", "int4", 22, 4, DTypeKind::Signed),
    (DType::I8, "int8", "i8", "int8", 3, 8, DTypeKind::Signed),
    (DType::I16, "int16", "i16", "int16", 5, 16, DTypeKind::Signed),
    (DType::I32, "int32", "i32", "int32", 6, 32, DTypeKind::Signed),
    (DType::I64, "int64", "i64", "int64", 7, 64, DTypeKind::Signed),
    (DType::U2, "uint2", "u2", "uint2", 25, 2, DTypeKind::Unsigned),
    (DType::U4, "uint4", "u4", "uint4", 21, 4, DTypeKind::Unsigned),
    (DType::U8, "uint8", "u8", "uint8", 2, 8, DTypeKind::Unsigned),
    (DType::U16, "uint16", "u16", "uint16", 4, 16, DTypeKind::Unsigned),
    (DType::U32, "uint32", "u32", "uint32", 12, 32, DTypeKind::Unsigned),
    (DType::U64, "uint64", "u64", "uint64", 13, 64, DTypeKind::Unsigned),
    (DType::F4E2M1FN, "float4_e2m1fn", "f4e2m1fn", "float4e2m1", 23, 4, DTypeKind::Float),
    (DType::F8E4M3FN, "float8_e4m3fn", "f8e4m3fn", "float8e4m3fn", 17, 8, DTypeKind::Float),
    (DType::F8E4M3FNUZ, "float8_e4m3fnuz", "f8e4m3fnuz", "float8e4m3fnuz", 18, 8, DTypeKind::Float),
    (DType::F8E5M2, "float8_e5m2", "f8e5m2", "float8e5m2", 19, 8, DTypeKind::Float),
    (DType::F8E5M2FNUZ, "float8_e5m2fnuz", "f8e5m2fnuz", "float8e5m2fnuz", 20, 8, DTypeKind::Float),
    (DType::F8E8M0FNU, "float8_e8m0fnu", "f8e8m0fnu", "float8e8m0", 24, 8, DTypeKind::Float),
    (DType::F16, "float16", "f16", "float16", 10, 16, DTypeKind::Float),
    (DType::BF16, "bfloat16", "bf16", "bfloat16", 16, 16, DTypeKind::Float),
    (DType::F32, "float32", "f32", "float", 1, 32, DTypeKind::Float),
    (DType::F64, "float64", "f64", "double", 11, 64, DTypeKind::Float),
    (DType::C64, "complex64", "c64", "complex64", 14, 64, DTypeKind::Complex),
    (DType::C128, "complex128", "c128", "complex128", 15, 128, DTypeKind::Complex),
];

impl DType {
    /// Returns every element type, in the order of the enum.
    pub fn all() -> impl Iterator<Item = DType> {
        TABLE.iter().map(|row| row.0)
    }

    fn row(self) -> &'static Row {
        // The table lists the variants in declaration order, which a test checks.
        &TABLE[self as usize]
    }

    /// Returns the name in NumPy or ml_dtypes, such as `float32`.
    pub fn numpy_name(self) -> &'static str {
        self.row().1
    }

    /// Returns JAX's short name, such as `f32`.
    pub fn short_name(self) -> &'static str {
        self.row().2
    }

    /// Returns the name in ONNX's text syntax and in runtimes' messages, such as `float`.
    pub fn onnx_name(self) -> &'static str {
        self.row().3
    }

    /// Returns the code in `TensorProto.DataType`.
    pub fn onnx_code(self) -> i32 {
        self.row().4
    }

    /// Returns the width of one element in bits, as ONNX stores it.
    pub fn bits(self) -> u32 {
        self.row().5
    }

    /// Returns the arithmetic family.
    pub fn kind(self) -> DTypeKind {
        self.row().6
    }

    /// Returns the type that numpy calls `name`.
    pub fn from_numpy_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    /// Returns the type that JAX abbreviates as `name`.
    pub fn from_short_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    /// Returns the type that ONNX calls `name`.
    pub fn from_onnx_name(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.3 == name).map(|row| row.0)
    }

    /// Returns the type that ONNX numbers `code`.
    pub fn from_onnx_code(code: i32) -> Option<Self> {
        TABLE.iter().find(|row| row.4 == code).map(|row| row.0)
    }

    /// Returns `true` for signed and unsigned integers, but not for booleans.
    pub fn is_integer(self) -> bool {
        matches!(self.kind(), DTypeKind::Signed | DTypeKind::Unsigned)
    }

    /// Returns `true` for real floating-point types of any width.
    pub fn is_float(self) -> bool {
        self.kind() == DTypeKind::Float
    }

    /// Returns the unsigned integer type of the same width, or the type itself if no such type
    /// exists.
    pub fn unsigned(self) -> Self {
        match self.bits() {
            _ if self == DType::Bool => self,
            2 => DType::U2,
            4 => DType::U4,
            8 => DType::U8,
            16 => DType::U16,
            32 => DType::U32,
            64 => DType::U64,
            _ => self,
        }
    }

    /// Returns the number of exponent and fraction bits, for floats with a sign, infinities and NaN
    /// as in IEEE 754.
    pub fn float_fields(self) -> Option<(u32, u32)> {
        match self {
            DType::F16 => Some((5, 10)),
            DType::BF16 => Some((8, 7)),
            DType::F32 => Some((8, 23)),
            DType::F64 => Some((11, 52)),
            _ => None,
        }
    }

    /// Returns the type of the real and imaginary parts; a real type is its own component.
    pub fn component(self) -> Self {
        match self {
            DType::C64 => DType::F32,
            DType::C128 => DType::F64,
            real => real,
        }
    }

    /// Returns `true` for complex types of any width.
    pub fn is_complex(self) -> bool {
        self.kind() == DTypeKind::Complex
    }

    /// Returns the smallest and the largest value of an integer type.
    pub fn int_range(self) -> Option<(i128, i128)> {
        let bits = self.bits();
        match self.kind() {
            DTypeKind::Signed => Some((-(1 << (bits - 1)), (1 << (bits - 1)) - 1)),
            DTypeKind::Unsigned => Some((0, (1 << bits) - 1)),
            _ => None,
        }
    }

    /// Returns `true` if texts list elements as bits: 8-bit floats, and packed types.
    pub fn is_listed_as_bits(self) -> bool {
        self.bits() < 8 || (self.is_float() && self.bits() == 8)
    }

    /// Returns the number of bytes that `count` elements take in ONNX's `raw_data`, which packs
    /// types of fewer than eight bits.
    pub fn byte_len(self, count: usize) -> usize {
        (count * self.bits() as usize).div_ceil(8)
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.short_name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_in_declaration_order() {
        for (i, dtype) in DType::all().enumerate() {
            assert_eq!(dtype as usize, i, "{dtype}");
        }
        assert_eq!(TABLE.len(), DType::C128 as usize + 1);
    }

    #[test]
    fn names_and_codes_are_unique() {
        for d in DType::all() {
            assert_eq!(DType::from_numpy_name(d.numpy_name()), Some(d));
            assert_eq!(DType::from_short_name(d.short_name()), Some(d));
            assert_eq!(DType::from_onnx_name(d.onnx_name()), Some(d));
            assert_eq!(DType::from_onnx_code(d.onnx_code()), Some(d));
        }
    }

    #[test]
    fn sub_byte_types_are_packed() {
        assert_eq!(DType::I4.byte_len(3), 2);
        assert_eq!(DType::F32.byte_len(3), 12);
    }
}
