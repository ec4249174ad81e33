//! A group norm as `InstanceNormalization` of groups, with a scale and a bias of channels behind it →
//! `LayerNormalization`, for targets whose kernel reads another scale for each row.
//!
//! The scale and the bias are expanded to the size of an example, which runtimes do once, at load.

use onnx::{ValueId, attrs};
use tensor::{DType, Dim, Tensor};

use super::channels::{is_of_channels, is_spread, vector};
use crate::recognize::is_slow_by_rows;
use crate::rewrite::{either_order, operands};
use crate::{Match, Rewrite, Skip};

pub(crate) static REWRITE: Rewrite =
    Rewrite::of("normalize_groups", &["Add", "Mul", "Reshape"], try_at);

/// The largest group. One block of threads normalises it, so larger groups leave the GPU idle.
const MOST: i64 = 1 << 15;

/// The largest group in half precision, where instance norms have three times the error.
const MOST_IN_HALF: i64 = 1 << 16;

fn try_at(m: &mut Match<'_>) -> Result<Vec<ValueId>, Skip> {
    let y = m.result()?;
    let ty = m.ty(y).clone();
    Skip::when(is_slow_by_rows(m.forms(), ty.dtype), "the target has no fast kernel for it")?;
    let [batch, Dim::Known(channels), pixels @ ..] = &*ty.shape else {
        return Err("the number of channels is not known".into());
    };
    let pixels = Dim::all_known(pixels).ok_or("the size of a group is not known")?;
    let pixels: i64 = pixels.iter().product();
    if let Some(reader) = m.graph().only_reader(y)
        && let [result] = *reader.outputs
        && ["Add", "Mul"].iter().any(|op| of_each_channel(m, result, op).is_some())
    {
        return Err("a scale or a bias follows".into());
    }
    let (mut value, [mut bias, mut scale]) = (y, [None, None]);
    for (op, parameter) in [("Add", &mut bias), ("Mul", &mut scale)] {
        if let Some((operand, of_channels)) = of_each_channel(m, value, op)
            && m.is_used_once(operand)
        {
            (value, *parameter) = (operand, Some(of_channels));
        }
    }
    let reshape = m.producer(value, &["Reshape"]).and_then(|node| node.input(0));
    let mut normalized =
        reshape.filter(|value| m.is_used_once(*value)).ok_or("it has no groups")?;
    if let Some(sum) = m.producer(normalized, &["Add"])
        && let [Some(operand), Some(zero)] = *sum.inputs
        && m.number(zero) == Some(0.0)
        && m.is_used_once(operand)
    {
        normalized = operand;
    }
    let node = m.producer(normalized, &["InstanceNormalization"]).ok_or("it is not a norm")?;
    let epsilon = node.attr("epsilon").cloned();
    let [x, one, zero] = operands(node)?;
    if (m.number(one), m.number(zero)) != (Some(1.0), Some(0.0)) {
        return Err("the groups have a scale or a bias".into());
    }
    let groups = match &*m.ty(x).shape {
        [examples, Dim::Known(groups), ..] if examples == batch && *groups > 0 => *groups,
        _ => return Err("the number of groups is not known".into()),
    };
    let is_half = matches!(ty.dtype, DType::F16 | DType::BF16);
    let most = if is_half { MOST_IN_HALF } else { MOST };
    let each = channels / groups;
    if each * groups != *channels || !(2..=most).contains(&(each * pixels)) {
        return Err("groups are too large, or no groups of channels".into());
    }
    // The groups are a reshape of the image.
    let source = m.producer(x, &["Reshape"]).and_then(|node| node.input(0));
    let source = source.filter(|value| m.ty(*value).shape == ty.shape).unwrap_or(x);
    let rows = m.i64s(&[0, groups, each, pixels]);
    let rows = m.op("Reshape", &[source, rows], attrs! {})?;
    let mut operands = vec![rows];
    for (parameter, default) in [(scale, 1.0), (bias, 0.0)] {
        let parameter = match parameter {
            Some(value) => {
                let value = vector(m, value, &Dim::Known(*channels))?;
                let shape = m.i64s(&[1, groups, each, 1]);
                m.op("Reshape", &[value, shape], attrs! {})?
            }
            None => {
                let number = Tensor::scalar(ty.dtype, default);
                m.tensor(number.ok_or("no such constant")?)
            }
        };
        let shape = m.i64s(&[1, groups, each, pixels]);
        operands.push(m.op("Expand", &[parameter, shape], attrs! {})?);
    }
    let mut attributes = attrs! { axis: -2 };
    attributes.extend(epsilon.map(|epsilon| ("epsilon", epsilon)));
    let new = m.op("LayerNormalization", &operands, attributes)?;
    let known = ty.shape[1..].iter().map(|dim| dim.as_known().unwrap_or(-1));
    let shape: Vec<i64> = [0].into_iter().chain(known).collect();
    let shape = m.i64s(&shape);
    Ok(vec![m.op("Reshape", &[new, shape], attrs! {})?])
}

/// If `value` is the result of `op` on a constant number for each channel, returns the other operand
/// and the constant.
fn of_each_channel(m: &Match<'_>, value: ValueId, op: &str) -> Option<(ValueId, ValueId)> {
    let ty = m.ty(value);
    let channels = ty.shape.get(1)?;
    either_order(m.producer(value, &[op])?, |x, constant| {
        let mut source = constant;
        while let Some(node) = m.producer_with(source, is_spread)
            && let Some(operand) = node.input(0)
        {
            source = operand;
        }
        m.graph().tensor(source).is_some()
            && m.ty(x) == ty
            && is_of_channels(m, constant, ty.rank(), 1, channels)
    })
}

#[cfg(test)]
mod tests {
    use tensor::DType;

    use super::{REWRITE, is_slow_by_rows};
    use crate::testing::{edited_with, run};
    use crate::{Form, Forms, Options, Target};

    fn after(body: &str, forms: Forms) -> String {
        let options = Options { forms, ..Options::default() };
        let text = format!(
            "g (float[B,4,2,3] x, float[4,1,1] c) => (float[B,4,2,3] y)
            <float[4] s = {{1, 2, 3, 4}}, float[4] b = {{5, 6, 7, 8}}> {{
                to = Constant <value_ints = [0, 2, 2, 2, 3]> ()
                back = Constant <value_ints = [0, 4, 2, 3]> ()
                line = Constant <value_ints = [4, 1, 1]> ()
                one = Constant <value = float[2] {{1, 1}}> ()
                none = Constant <value = float[2] {{0, 0}}> ()
                zero = Constant <value_float: float = 0> ()
                r = Reshape (x, to) f = Reshape (s, line) a = Reshape (b, line) {body} }}"
        );
        edited_with(&options, &text, |edit| run(edit, [&REWRITE]).unwrap()).0
    }

    fn by_rows() -> Forms {
        let forms = |target| Forms { target, ..Forms::auto(23) };
        Target::all().map(forms).find(|forms| !is_slow_by_rows(forms, DType::F32)).unwrap()
    }

    const NORM: &str = "n = InstanceNormalization <epsilon = 0.5> (r, one, none)";

    #[test]
    fn scales_and_biases_of_channels_become_those_of_rows() {
        for rest in [
            "t = Reshape (n, back) m = Mul (t, f) y = Add (m, a)",
            "z = Add (n, zero) t = Reshape (z, back) m = Mul (f, t) y = Add (a, m)",
        ] {
            let text = after(&format!("{NORM} {rest}"), by_rows());
            assert!(
                text.contains("LayerNormalization <axis: int = -2, epsilon: float = 0.5>"),
                "{text}"
            );
            for gone in ["InstanceNormalization", "Mul", "Add"] {
                assert!(!text.contains(gone), "{text}");
            }
            assert_eq!(text.matches("Expand").count(), 2, "{text}");
        }
        let text =
            after(&format!("{NORM} t = Reshape (n, back) m = Mul (t, f) y = Exp (m)"), by_rows());
        assert!(text.contains("LayerNormalization") && !text.contains("Mul"), "{text}");
    }

    #[test]
    fn computed_scales_remain() {
        let text = after(
            &format!("{NORM} t = Reshape (n, back) m = Mul (t, c) y = Add (m, a)"),
            by_rows(),
        );
        assert!(
            text.contains("LayerNormalization") && text.contains("Mul (") && text.contains("Add ("),
            "{text}"
        );
    }

    #[test]
    fn other_norms_and_targets_are_unchanged() {
        let whole = "t = Reshape (n, back) m = Mul (t, f) y = Add (m, a)";
        let scaled = NORM.replace("one, none", "none, none");
        let shared = format!(
            "{NORM} t = Reshape (n, back) e = Exp (n) u = Reshape (e, back) y = Mul (t, u)"
        );
        for body in [format!("{scaled} {whole}"), shared] {
            let text = after(&body, by_rows());
            assert!(!text.contains("LayerNormalization"), "{text}");
        }
        let named = [("LayerNormalization".to_owned(), Form::Elementary)].into();
        for forms in [Forms::auto(23), Forms { named, ..by_rows() }] {
            assert!(!after(&format!("{NORM} {whole}"), forms).contains("LayerNormalization"));
        }
    }

    #[test]
    fn groups_are_not_too_large() {
        let is_fused = |dtype: &str, rows: i64, columns: i64| {
            let forms = |target| Forms { target, ..Forms::auto(23) };
            let is_fast = |forms: &Forms| {
                [DType::F16, DType::F32].iter().all(|dtype| !is_slow_by_rows(forms, *dtype))
            };
            let forms = Target::all().map(forms).find(is_fast).unwrap();
            let text = format!(
                "g ({dtype}[B,4,{rows},{columns}] x) => ({dtype}[B,4,{rows},{columns}] y) {{
                    to = Constant <value_ints = [0, 2, 2, {rows}, {columns}]> ()
                    back = Constant <value_ints = [0, 4, {rows}, {columns}]> ()
                    one = Constant <value = {dtype}[2] {{1.0, 1.0}}> ()
                    none = Constant <value = {dtype}[2] {{0.0, 0.0}}> ()
                    r = Reshape (x, to) {NORM} y = Reshape (n, back) }}"
            );
            let options = Options { forms, ..Options::default() };
            let text = edited_with(&options, &text, |edit| run(edit, [&REWRITE]).unwrap()).0;
            text.contains("LayerNormalization")
        };
        assert!(is_fused("float", 128, 128));
        assert!(!is_fused("float", 128, 129));
        assert!(is_fused("float16", 128, 256));
        assert!(!is_fused("float16", 128, 257));
    }

    #[test]
    fn groups_that_cut_channels_are_unchanged() {
        let body = "to3 = Constant <value_ints = [0, 3, 2, 2, 2]> () q = Reshape (x, to3)
            ones = Constant <value = float[3] {1, 1, 1}> () zeros = Constant <value = float[3] {0, 0, 0}> ()
            n = InstanceNormalization (q, ones, zeros) t = Reshape (n, back) y = Mul (t, f)";
        assert!(!after(body, by_rows()).contains("LayerNormalization"));
    }
}
