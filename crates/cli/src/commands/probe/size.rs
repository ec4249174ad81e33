//! Sizes of values in bytes.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::str::FromStr;

use onnx_file::proto::{DimensionValue, GraphProto, TypeProto, TypeValue};
use tensor::{DType, Dim};

use crate::failure::Failure;

/// The size of a symbolic dimension: `B=8`.
#[derive(Clone, Debug)]
pub(super) struct DimSize {
    name: String,
    size: i64,
}

impl FromStr for DimSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "write NAME=NUMBER, for example B=8".to_owned();
        let (name, size) = text.split_once('=').ok_or_else(wrong)?;
        let size = size.trim().parse::<u32>().map_err(|_| wrong())?;
        Ok(Self { name: name.trim().to_owned(), size: i64::from(size) })
    }
}

/// Parses a size such as `64MB`, `1.5 GB` or `512KiB`.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let wrong = || "write a size such as 64MB or 2GiB".to_owned();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let scale = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "kb" | "k" => 1e3,
        "mb" | "m" => 1e6,
        "gb" | "g" => 1e9,
        "kib" => 1024.0,
        "mib" => 1_048_576.0,
        "gib" => 1_073_741_824.0,
        _ => return Err(wrong()),
    };
    let bytes = number.parse::<f64>().map_err(|_| wrong())? * scale;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the number is not negative, and too large ones saturate"
    )]
    Ok(bytes as u64)
}

/// Computes the sizes of values, with sizes for symbolic dimensions.
pub(super) struct Sizes {
    known: BTreeMap<String, i64>,
    /// Dimensions that were given no size.
    assumed: RefCell<BTreeMap<String, i64>>,
}

impl Sizes {
    pub(super) fn new(given: &[DimSize]) -> Self {
        let known = given.iter().map(|dim| (dim.name.clone(), dim.size)).collect();
        Self { known, assumed: RefCell::default() }
    }

    /// Fails if a size is given for a dimension that no value of the graph has.
    pub(super) fn check(&self, graph: &GraphProto) -> Result<(), Failure> {
        let found = RefCell::new(BTreeSet::new());
        let seen = |name: &str| {
            found.borrow_mut().insert(name.to_owned());
            Some(1)
        };
        let values = graph.input.iter().chain(&graph.output).chain(&graph.value_info);
        let tensors = values.filter_map(|value| match &value.r#type.as_ref()?.value {
            Some(TypeValue::TensorType(tensor)) => tensor.shape.as_ref(),
            _ => None,
        });
        for dim in tensors.flat_map(|shape| &shape.dim) {
            if let Some(DimensionValue::DimParam(text)) = &dim.value {
                seen(text);
                let _ = Dim::parse(text).ok().and_then(|dim| dim.eval(&seen));
            }
        }
        let found = found.into_inner();
        let Some(name) = self.known.keys().find(|name| !found.contains(*name)) else {
            return Ok(());
        };
        let is_name = |name: &&String| name.chars().all(|c| c.is_alphanumeric() || c == '_');
        let names: Vec<String> = found.iter().filter(is_name).map(|n| format!("`{n}`")).collect();
        let others = match names.as_slice() {
            [] => "all its sizes are numbers".to_owned(),
            names => format!("it has {}", names.join(", ")),
        };
        Err(Failure::Request(format!("the model has no dimension `{name}`; {others}")))
    }

    /// Returns the size of a value, or `None` if a dump cannot hold it or its type is unknown.
    pub(super) fn bytes(&self, ty: &TypeProto) -> Option<u64> {
        let Some(TypeValue::TensorType(tensor)) = &ty.value else { return None };
        let dtype = DType::from_onnx_code(tensor.elem_type).filter(|dtype| is_recorded(*dtype))?;
        let dims = &tensor.shape.as_ref()?.dim;
        let elements = dims.iter().try_fold(1_u64, |n, dim| {
            let size = match &dim.value {
                Some(DimensionValue::DimValue(size)) => *size,
                Some(DimensionValue::DimParam(text)) => self.symbolic(text),
                None => self.assume("?"),
            };
            n.checked_mul(u64::try_from(size).ok()?)
        })?;
        elements.checked_mul(u64::from(dtype.bits() / 8))
    }

    fn symbolic(&self, text: &str) -> i64 {
        if let Some(size) = self.known.get(text) {
            return *size;
        }
        let of_variable =
            |name: &str| Some(self.known.get(name).copied().unwrap_or_else(|| self.assume(name)));
        let size = Dim::parse(text).ok().and_then(|dim| dim.eval(&of_variable));
        size.unwrap_or_else(|| self.assume(text))
    }

    fn assume(&self, name: &str) -> i64 {
        *self.assumed.borrow_mut().entry(name.to_owned()).or_insert(1)
    }

    /// Describes the sizes of symbolic dimensions: ` with B=8`.
    pub(super) fn said(&self) -> String {
        let assumed = self.assumed.borrow();
        let all: Vec<String> = self
            .known
            .iter()
            .chain(&*assumed)
            .map(|(name, size)| format!("{name}={size}"))
            .collect();
        let help = if assumed.is_empty() { "" } else { "; `--size` sets other sizes" };
        if all.is_empty() { String::new() } else { format!(" with {}{help}", all.join(", ")) }
    }
}

/// Returns `true` if safetensors files have the element type.
fn is_recorded(dtype: DType) -> bool {
    let unusual = matches!(dtype, DType::F8E4M3FNUZ | DType::F8E5M2FNUZ | DType::F8E8M0FNU);
    dtype.bits() >= 8 && !dtype.is_complex() && !unusual
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in
            [("64MB", 64_000_000), ("1.5 GB", 1_500_000_000), ("512KiB", 524_288), ("77", 77)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "MB", "3 parsecs", "-1"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn dimensions_are_expressions() {
        let sizes = Sizes::new(&["B=8".parse().unwrap()]);
        assert_eq!(sizes.symbolic("4*B + 3"), 35);
        assert_eq!(sizes.said(), " with B=8");
        assert_eq!(sizes.symbolic("B*T"), 8);
        assert_eq!(sizes.said(), " with B=8, T=1; `--size` sets other sizes");
    }

    #[test]
    fn dumps_hold_the_types_of_safetensors_files() {
        for recorded in [DType::F32, DType::Bool, DType::F8E4M3FN] {
            assert!(is_recorded(recorded), "{recorded:?}");
        }
        for other in [DType::F8E4M3FNUZ, DType::F8E8M0FNU, DType::I4, DType::C64] {
            assert!(!is_recorded(other), "{other:?}");
        }
    }
}
