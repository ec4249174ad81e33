//! Types in JAX's notation: `f32[B,4]`.

use onnx_file::proto::{
    DimensionValue, OperatorSetIdProto, TensorProto, TensorTypeProto, TypeProto, TypeValue,
};
use tensor::DType;

/// Formats a type, with `?` for unknown parts.
pub(crate) fn type_text(ty: &TypeProto) -> String {
    let inner = |ty: &Option<Box<TypeProto>>| ty.as_deref().map_or("?".to_owned(), type_text);
    match &ty.value {
        Some(TypeValue::TensorType(tensor)) => tensor_type_text(tensor),
        Some(TypeValue::SparseTensorType(tensor)) => format!("sparse {}", tensor_type_text(tensor)),
        Some(TypeValue::SequenceType(sequence)) => format!("seq({})", inner(&sequence.elem_type)),
        Some(TypeValue::OptionalType(optional)) => {
            format!("optional({})", inner(&optional.elem_type))
        }
        Some(TypeValue::MapType(map)) => {
            format!("map({}, {})", dtype_text(map.key_type), inner(&map.value_type))
        }
        Some(TypeValue::OpaqueType(opaque)) => format!("opaque({}.{})", opaque.domain, opaque.name),
        None => "?".to_owned(),
    }
}

fn tensor_type_text(tensor: &TensorTypeProto) -> String {
    let dtype = dtype_text(tensor.elem_type);
    let Some(shape) = &tensor.shape else { return format!("{dtype}[…]") };
    let dims = shape.dim.iter().map(|dim| match &dim.value {
        Some(DimensionValue::DimValue(size)) => size.to_string(),
        Some(DimensionValue::DimParam(name)) => name.clone(),
        None => "?".to_owned(),
    });
    format!("{dtype}[{}]", dims.collect::<Vec<_>>().join(","))
}

/// Formats an operator set that a model imports.
pub(crate) fn opset_text(set: &OperatorSetIdProto) -> String {
    match set.domain.as_str() {
        "" => format!("opset {}", set.version),
        domain => format!("{domain} {}", set.version),
    }
}

/// Formats the type of a tensor.
pub(crate) fn tensor_text(tensor: &TensorProto) -> String {
    let dims: Vec<String> = tensor.dims.iter().map(i64::to_string).collect();
    format!("{}[{}]", dtype_text(tensor.data_type), dims.join(","))
}

/// Returns the name of an element type.
fn dtype_text(code: i32) -> &'static str {
    // The only ONNX element type that JAX lacks.
    if code == 8 { "string" } else { DType::from_onnx_code(code).map_or("?", DType::short_name) }
}
