//! Targets: the runtimes that models are made for, one folder each.
//!
//! A target is data: its kernels, its measurements, its bugs and its properties. Everything else
//! asks for these and knows no runtime by name. To add a target, add its folder and its line in
//! [`ALL`].

mod any;
mod bugs;
mod cuda;
mod iree;
mod kernels;
mod measured;
mod mnn;
mod onnxruntime;
mod onnxruntime_releases;
mod onnxruntime_web;
mod openvino;
mod rten;
mod spellings;
mod stacked;
mod tensorrt;
#[cfg(test)]
mod testing;
mod tract;
mod webgpu;

use std::fmt;
use std::ops::Deref;

use tensor::DType;

pub(crate) use self::bugs::{Bug, add_by_sum, avoid};
pub(crate) use self::kernels::{Kernels, Right, Row};
pub(crate) use self::measured::Measured;
pub(crate) use self::spellings::loop_for_scan;

/// All targets, sorted by name.
static ALL: &[&Spec] = &[
    &any::SPEC,
    &cuda::SPEC,
    &iree::SPEC,
    &mnn::SPEC,
    &onnxruntime::SPEC,
    &onnxruntime_web::SPEC,
    &onnxruntime_releases::SPECS[0],
    &onnxruntime_releases::SPECS[1],
    &onnxruntime_releases::SPECS[2],
    &onnxruntime_releases::SPECS[3],
    &onnxruntime_releases::SPECS[4],
    &onnxruntime_releases::SPECS[5],
    &onnxruntime_releases::SPECS[6],
    &openvino::SPEC,
    &rten::SPEC,
    &tensorrt::SPEC,
    &tract::SPEC,
    &webgpu::SPEC,
];

/// The target of models unless the user names another one.
static DEFAULT: &Spec = &onnxruntime::SPEC;

/// The description of a target.
#[derive(Clone, Copy, Debug)]
pub struct Spec {
    /// The name that users give.
    pub name: &'static str,
    /// The name in messages.
    pub title: &'static str,
    /// The description of the runtime in the documentation.
    pub runtime: &'static str,
    /// The newest opset whose operators models use for speed. Only operators that they need raise it.
    pub opset: i64,
    /// The opset below which models are written only on request.
    pub lowest_opset: i64,
    /// The newest opset that the target loads.
    pub newest_opset: i64,
    /// The newest version of the file format that the target loads.
    pub newest_ir_version: i64,
    /// The kernels; `None` if the target runs all that the specification allows.
    pub(crate) kernels: Option<Kernels>,
    /// The operators of the domain [`onnx::schema::CONTRIB`] that the target has, and their types.
    pub(crate) contrib: &'static [(&'static str, &'static [DType])],
    /// `true` if products with integers round their other operand to 8 bits, on request.
    pub(crate) rounds_operands: bool,
    /// The name of the provider in the configuration of onnxruntime-genai; `None` for the CPU.
    pub provider: Option<&'static str>,
    /// The kernels on the target's device, if it has one. Other nodes run on the CPU.
    pub(crate) on_device: Option<Kernels>,
    /// `true` if nodes get casts or other forms so that they run on the device.
    pub(crate) keeps_on_device: bool,
    /// The kernels on a device that models may run on as well. Integers take forms that it has.
    pub(crate) elsewhere: Option<Kernels>,
    /// The operators that run on the CPU although their elementary forms run on the device.
    pub elementary: &'static [&'static str],
    /// `true` if the kernels of operators with [`Trait::Sums`](onnx::operators::Trait::Sums) compute in
    /// float32 on operands in half precision, and round their results once.
    pub(crate) rounds_once: bool,
    /// `Attention` takes a number up to this one, added to a score, for a mask. A query whose keys are
    /// all masked gets zeros.
    pub(crate) hides_below: f64,
    /// The measurements that decide which operators become one node.
    pub(crate) measured: &'static Measured,
    /// The bugs that models avoid, in lists that targets share.
    pub(crate) bugs: &'static [&'static [&'static Bug]],
    /// The speed of convolutions in place of products; `None` if products stay.
    pub(crate) convolutions: Option<Convolutions>,
    /// `true` if a `Resize` of the identity is the fastest way to compute weights of resampling.
    pub(crate) resizes_identities_fast: bool,
    /// `true` if an `Add` in front of a layer norm is fused with it, which is slower.
    pub(crate) fuses_sums_with_norms: bool,
    /// The operators whose equivalents at older opsets become one node again when a model is loaded.
    pub(crate) fused_on_load: &'static [&'static str],
    /// `true` if `GRU` limits sums with a bias, which hides NaN and infinities.
    pub(crate) limits_biased_sums: bool,
    /// `true` if `DFT` may treat the rows of a matrix as real signals.
    pub(crate) mistakes_matrices_for_signals: bool,
    /// The blocks of integers that `DequantizeLinear` reads.
    pub(crate) blocks: ReadableBlocks,
    /// `true` if four-bit floats are stored, but no kernel reads them.
    pub(crate) only_stores_four_bit_floats: bool,
}

/// The blocks of integers that a target reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadableBlocks {
    /// Blocks of any number of rows.
    All,
    /// Blocks of matrices whose rows are a multiple of the block size.
    Whole,
    /// None. Scales belong to columns.
    None,
}

/// The speed of convolutions with kernels of one pixel, compared with products.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Convolutions {
    /// Convolutions compute in blocks of this many channels. With other numbers of channels they
    /// are slower than products, whose weights are laid out in advance.
    pub(crate) block: i64,
    /// The least number of pixels. For fewer, a convolution per image is slower than one product of
    /// all images.
    pub(crate) pixels: u64,
    /// A convolution saves this fraction of the cost of transposing the smaller one of its operand
    /// and its result.
    pub(crate) gain: (u64, u64),
    /// An operator that adds a bias or normalises takes this fraction of the cost of transposing its
    /// operand. A convolution computes such operators along the way.
    pub(crate) pass_over: (u64, u64),
    /// A product of more channels than this is faster than its convolution, and a norm saves less
    /// and less.
    pub(crate) narrow: u64,
}

/// A target of models.
#[derive(Clone, Copy)]
pub struct Target(&'static Spec);

impl Target {
    /// Returns all targets.
    pub fn all() -> impl Iterator<Item = Target> {
        ALL.iter().map(|spec| Target(spec))
    }

    /// Returns the target without a runtime of its own, limited only by the specification.
    pub fn any() -> Self {
        Self(&any::SPEC)
    }

    /// Returns the target called `name`.
    pub fn find(name: &str) -> Option<Self> {
        Self::all().find(|target| target.name == name)
    }

    /// Returns the types in which the target has a contributed operator.
    pub fn contributed_types(self, op: &str) -> &'static [DType] {
        self.contrib.iter().find(|(name, _)| *name == op).map_or(&[], |(_, types)| types)
    }
}

impl Default for Target {
    fn default() -> Self {
        Self(DEFAULT)
    }
}

impl Deref for Target {
    type Target = Spec;

    fn deref(&self) -> &'static Spec {
        self.0
    }
}

impl PartialEq for Target {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Target {}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({})", self.name)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.title)
    }
}

#[cfg(test)]
mod tests;
