//! Which form operators take: the user's choice.

use std::collections::BTreeMap;

/// How an operator is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// As one node where the runtime is as exact and at least as fast that way.
    #[default]
    Auto,
    /// As one node wherever ONNX and the runtime have it.
    Native,
    /// As the elementary operators that it is made of.
    Elementary,
}

/// The form of every operator.
#[derive(Clone, Debug)]
pub struct Forms {
    /// The opset that the model may use.
    pub opset: i64,
    /// What holds for operators that are not named.
    pub default: Form,
    /// What holds for single operators, by their names in ONNX.
    pub named: BTreeMap<String, Form>,
}

impl Forms {
    /// The default, for models of the given opset.
    pub fn auto(opset: i64) -> Self {
        Self { opset, default: Form::Auto, named: BTreeMap::new() }
    }

    /// The form of `op`.
    pub fn of(&self, op: &str) -> Form {
        self.named.get(op).copied().unwrap_or(self.default)
    }
}

/// The operators that `normalization_mode` speaks of.
pub const NORMALIZATIONS: &[&str] = &[
    "BatchNormalization",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "RMSNormalization",
];
