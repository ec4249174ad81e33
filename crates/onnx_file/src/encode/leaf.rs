//! Encodes the leaves of a model: small messages that need no context.

use std::collections::BTreeSet;

use prost::bytes::Bytes;
use tensor::{DType, Dim, Tensor, Type};

use crate::proto::{
    AttributeProto, AttributeType, Dimension, DimensionValue, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, TypeValue,
};
use crate::{Error, LARGE, Result};

/// Returns the IR version that introduced an element type, or zero if every opset with the type
/// already implies that version.
pub(super) fn ir_version_of(dtype: DType) -> i64 {
    match dtype {
        DType::F4E2M1FN => 11,
        DType::F8E8M0FNU => 12,
        DType::I2 | DType::U2 => 13,
        _ => 0,
    }
}

pub(super) fn opset_imports(
    opset: i64,
    domains: &BTreeSet<&'static str>,
) -> Vec<OperatorSetIdProto> {
    let others = domains.iter().map(|domain| (*domain, 1));
    let all = std::iter::once(("", opset)).chain(others);
    all.map(|(domain, version)| OperatorSetIdProto { domain: domain.to_owned(), version }).collect()
}

pub(super) fn attribute(
    name: &str,
    kind: AttributeType,
    content: AttributeProto,
) -> AttributeProto {
    AttributeProto { name: name.to_owned(), r#type: kind.into(), ..content }
}

/// Returns a `Constant` node whose result is `value`, under its name.
pub(super) fn constant_node(
    name: String,
    value: TensorProto,
    metadata_props: Vec<StringStringEntryProto>,
) -> NodeProto {
    let output = vec![value.name.clone()];
    let content = AttributeProto { t: Some(Box::new(value)), ..AttributeProto::default() };
    NodeProto {
        output,
        name,
        op_type: "Constant".to_owned(),
        attribute: vec![attribute("value", AttributeType::Tensor, content)],
        metadata_props,
        ..NodeProto::default()
    }
}

pub(super) fn entry(key: &str, value: String) -> StringStringEntryProto {
    StringStringEntryProto { key: key.to_owned(), value }
}

pub(super) fn type_proto(ty: &Type, name: &str) -> Result<TypeProto> {
    let dim = |dim: &Dim| {
        let value = match dim {
            Dim::Known(n) if *n < 0 => {
                return Err(Error::graph(format!("`{name}` has a negative size: {ty}")));
            }
            Dim::Known(n) => DimensionValue::DimValue(*n),
            Dim::Symbolic(_) => DimensionValue::DimParam(dim.to_string()),
        };
        Ok(Dimension { value: Some(value), ..Dimension::default() })
    };
    let dim = ty.shape.iter().map(dim).collect::<Result<_>>()?;
    let (elem_type, shape) = (ty.dtype.onnx_code(), Some(TensorShapeProto { dim }));
    let value = Some(TypeValue::TensorType(TensorTypeProto { elem_type, shape }));
    Ok(TypeProto { value, ..TypeProto::default() })
}

/// Encodes a tensor of the main graph. Its contents may be fetched or computed only while they are
/// written, which may fail.
pub(super) fn initializer(name: String, tensor: &Tensor) -> Result<TensorProto> {
    if tensor.byte_len() < LARGE || tensor.is_in_memory() {
        return tensor_proto(name, tensor);
    }
    Ok(TensorProto { deferred: Some(tensor.clone()), ..described(name, tensor) })
}

/// Encodes a tensor of an attribute, which becomes a part of its node.
pub(super) fn tensor_proto(name: String, tensor: &Tensor) -> Result<TensorProto> {
    let (raw_data, deferred) = match tensor.stored_bytes() {
        Some(_) => (Some(Bytes::from_owner(View(tensor.clone()))), None),
        None if tensor.byte_len() >= LARGE && tensor.is_known() => (None, Some(tensor.clone())),
        None => {
            let bytes = tensor.read().map_err(Error::contents)?.into_owned();
            (Some(Bytes::from(bytes)), None)
        }
    };
    Ok(TensorProto { raw_data, deferred, ..described(name, tensor) })
}

fn described(name: String, tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: tensor.shape().iter().map(|&d| d as i64).collect(),
        data_type: tensor.dtype().onnx_code(),
        name,
        ..TensorProto::default()
    }
}

/// A view that keeps a tensor's owner alive, so that a message need not copy the bytes.
struct View(Tensor);

impl AsRef<[u8]> for View {
    fn as_ref(&self) -> &[u8] {
        self.0.stored_bytes().unwrap_or_default()
    }
}
