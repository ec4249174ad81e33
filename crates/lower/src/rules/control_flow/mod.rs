//! Calls, branches and loops.

pub(crate) mod call;
pub(crate) mod cond;
pub(crate) mod debug;
pub(crate) mod iteration;
pub(crate) mod onnx_function;
pub(crate) mod platform_index;
pub(crate) mod row_loop;
pub(crate) mod scan;
pub(crate) mod while_;
