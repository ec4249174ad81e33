//! x
use onnx::Graph;
use provenance::{OriginId, Origins};
#[derive(Debug, thiserror::Error)]
#[error("x")]
pub struct Error;
impl Error {
    pub fn origin(&self) -> Option<OriginId> {
        None
    }
    pub fn is_unsupported(&self) -> bool {
        false
    }
}
#[derive(Default)]
pub struct Options;
pub enum Target {
    Spec,
    OnnxRuntime,
}
pub fn optimize(_: &mut Graph, _: &mut Origins, _: &Options) -> Result<(), Error> {
    Ok(())
}
pub fn legalize(_: &mut Graph, _: &mut Origins, _: i64, _: Target) -> Result<(), Error> {
    Ok(())
}
