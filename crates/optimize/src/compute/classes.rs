//! The precision class of nodes.

use onnx::operators::PrecisionClass;
use onnx::{Attr, Node};

/// Returns the precision class of `node`. A scatter that adds is a sum with any number of terms.
pub(super) fn precision(node: &Node) -> PrecisionClass {
    match node.attr("reduction") {
        Some(Attr::String(how)) if &**how != "none" => PrecisionClass::Wide,
        _ => node.operator().precision,
    }
}
