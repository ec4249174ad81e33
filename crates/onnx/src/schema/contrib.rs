//! Contributed operators, which are not part of ONNX, with the parameters and attributes that this
//! project writes.

use super::AttrKind::{Float, Int};
use super::{NEWEST, Schema, attr, constraint, one, optional, required};

/// The domain of contributed operators. Its only version is 1, at every opset.
pub const CONTRIB: &str = "com.microsoft";

#[rustfmt::skip]
static TABLE: &[Schema] = &[
    Schema {
        name: "GatherBlockQuantized", since: 1, until: NEWEST,
        inputs: &[
            one("data", 0), one("indices", 1), one("scales", 2), optional("zero_points", 0),
        ],
        outputs: &[one("output", 2)],
        attrs: &[
            attr("bits", Int), attr("block_size", Int), attr("gather_axis", Int),
            attr("quantize_axis", Int),
        ],
        types: &[constraint("T1", 0x200), constraint("Tind", 0x60), constraint("T2", 0x0038_0000)],
        function: false,
    },
    Schema {
        name: "GroupQueryAttention", since: 1, until: NEWEST,
        inputs: &[
            one("query", 0), optional("key", 0), optional("value", 0), optional("past_key", 0),
            optional("past_value", 0), one("seqlens_k", 1), one("total_sequence_length", 1),
            optional("cos_cache", 0), optional("sin_cache", 0), optional("position_ids", 2),
            optional("attention_bias", 0), optional("head_sink", 0),
        ],
        outputs: &[one("output", 0), one("present_key", 0), one("present_value", 0)],
        attrs: &[
            attr("do_rotary", Int), required("kv_num_heads", Int), attr("local_window_size", Int),
            required("num_heads", Int), attr("rotary_interleaved", Int), attr("scale", Float),
            attr("sliding_window_cache", Int), attr("softcap", Float),
        ],
        types: &[constraint("T", 0x0038_0000), constraint("M", 0x20), constraint("P", 0x40)],
        function: false,
    },
    Schema {
        name: "MatMulNBits", since: 1, until: NEWEST,
        inputs: &[one("A", 0), one("B", 1), one("scales", 0), optional("zero_points", 1)],
        outputs: &[one("Y", 0)],
        attrs: &[
            required("K", Int), required("N", Int), attr("accuracy_level", Int),
            attr("bits", Int), required("block_size", Int),
        ],
        types: &[constraint("T1", 0x0038_0000), constraint("T2", 0x200)],
        function: false,
    },
    Schema {
        name: "SkipSimplifiedLayerNormalization", since: 1, until: NEWEST,
        inputs: &[one("input", 0), one("skip", 0), one("gamma", 0)],
        outputs: &[
            one("output", 0), optional("mean", 0), optional("inv_std_var", 0),
            optional("input_skip_bias_sum", 0),
        ],
        attrs: &[attr("epsilon", Float)],
        types: &[constraint("T", 0x0038_0000)],
        function: false,
    },
];

/// Returns the names of the contributed operators, in alphabetical order.
pub fn contributed() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|schema| schema.name)
}

/// Returns all versions of a contributed operator.
pub(super) fn versions(name: &str) -> &'static [Schema] {
    let at = TABLE.iter().position(|schema| schema.name == name);
    at.map_or(&[], |at| &TABLE[at..=at])
}
