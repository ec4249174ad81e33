//! `jax2onnx show MODEL --node NAME`: one node with its whole stack.

use crate::excerpt::Excerpts;
use crate::failure::Failure;
use crate::model::Index;
use crate::nearest::{nearest, similar};
use crate::page;
use crate::style::Text;

/// Returns the node named `name`, or the node that computes the value `name`.
pub(crate) fn find(index: &Index<'_>, name: &str) -> Result<usize, Failure> {
    index.named(name).or_else(|| index.producer(name)).ok_or_else(|| {
        let like = similar(nearest(name, index.names()));
        Failure::Absent(format!("the model has no node or value `{name}`{like}"))
    })
}

/// Writes everything that is known about a node.
pub(super) fn describe(text: &mut Text, index: &Index<'_>, node: usize) {
    let excerpts = Excerpts::new(index.model);
    let origins = index.origins(node);
    let own = origins.first().cloned().unwrap_or_default();
    page::facts(text, index, node, &own);
    page::sites(text, &excerpts, &origins);
    page::callers(text, &excerpts, &own, true);
    if origins.is_empty() {
        text.line("  the model does not record where this node came from");
    }
}
