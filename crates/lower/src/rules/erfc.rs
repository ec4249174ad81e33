//! erfc(x) → Exp(-x²) · P((|x| - 3) / (|x| + 3)) / (|x| + 3), subtracted from 2 for x < 0; its relative
//! precision is that of Exp(-x²)

use onnx::ValueId;
use tensor::DType;

use super::Result;
use crate::Context;
use crate::formula::formula;

/// Interpolates `(x + 3) exp(x²) erfc(x)` at Chebyshev nodes from 0 to where erfc underflows.
const SINGLE: [f64; 10] = [
    -0.0003342244062,
    -0.000500258783,
    0.003077058,
    -0.001216889072,
    -0.02683621734,
    0.1195273334,
    -0.3104666589,
    0.5902284103,
    -0.88339446,
    1.074006906,
];
const SINGLE_END: f64 = 10.0;

const DOUBLE: [f64; 22] = [
    -2.8859077542120998e-9,
    -1.1057699072953121e-9,
    3.6985006537570775e-8,
    4.182491592493751e-8,
    -2.1598269333891025e-7,
    -4.001937352397039e-7,
    9.8541976340114e-7,
    2.7587257190432903e-6,
    -4.742664418311735e-6,
    -1.7467278115863077e-5,
    3.039609585838619e-5,
    0.00010756050325600694,
    -0.0002767774285227392,
    -0.0005483095146093471,
    0.0030340619492183604,
    -0.0012124166454168183,
    -0.026827234620832217,
    0.11952776128823552,
    -0.31046726190068796,
    0.590228357104083,
    -0.8833944531698824,
    1.0740069070883398,
];
const DOUBLE_END: f64 = 27.0;

pub(super) fn lower(cx: &mut Context<'_>, x: &[ValueId]) -> Result {
    formula(cx, x, |[x]| {
        let (coefficients, end) = match x.dtype() {
            DType::F64 => (&DOUBLE[..], DOUBLE_END),
            _ => (&SINGLE[..], SINGLE_END),
        };
        let size = x.abs().min(end);
        let scale = size + 3.0;
        let fit = ((size - 3.0) / scale).polynomial(coefficients);
        let right = (-x.squared()).exp() * fit / scale;
        x.less(0.0).select(2.0 - right, right)
    })
}
