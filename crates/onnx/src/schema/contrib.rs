//! Contributed operators, which are not part of ONNX, with the parameters and attributes that this
//! project writes.

use super::AttrKind::{Float, Int};
use super::{NEWEST, Schema, attr, constraint, one, optional, required};

/// The domain of contributed operators. Its only version is 1, at every opset.
pub const CONTRIB: &str = "com.microsoft";

#[rustfmt::skip]
static TABLE: &[Schema] = &[
    Schema {
        name: "GroupQueryAttention", since: 1, until: NEWEST,
        inputs: &[
            one("query", 0), optional("key", 0), optional("value", 0), optional("past_key", 0),
            optional("past_value", 0), one("seqlens_k", 1), one("total_sequence_length", 1),
            optional("cos_cache", 0), optional("sin_cache", 0),
        ],
        outputs: &[one("output", 0), one("present_key", 0), one("present_value", 0)],
        attrs: &[
            attr("do_rotary", Int), required("kv_num_heads", Int), attr("local_window_size", Int),
            required("num_heads", Int), attr("rotary_interleaved", Int), attr("scale", Float),
            attr("softcap", Float),
        ],
        types: &[constraint("T", 0x0038_0000), constraint("M", 0x20)],
        function: false,
    },
];

/// Returns all versions of a contributed operator.
pub(super) fn versions(name: &str) -> &'static [Schema] {
    let at = TABLE.iter().position(|schema| schema.name == name);
    at.map_or(&[], |at| &TABLE[at..=at])
}
