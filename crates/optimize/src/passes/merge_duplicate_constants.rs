//! Merges equal constants. Parameters (named constants) stay separate unless they are the same
//! array, because users may replace one of them later.

use std::borrow::Cow;
use std::hash::{Hash, Hasher};

use onnx::{Graph, Use, ValueId};
use rustc_hash::{FxHashMap, FxHasher};
use tensor::Tensor;

use crate::{Changed, Editor, Error, Pass};

pub(crate) const PASS: Pass = Pass { name: "merge_duplicate_constants", run };

/// The size up to which a constant is hashed as a whole, in bytes.
const SMALL: usize = 256;

/// The number of eight-byte samples of a larger constant that are hashed first.
const SAMPLES: usize = 16;

fn run(edit: &mut Editor<'_>) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for (survivor, duplicate) in duplicates(edit.graph()) {
        if !edit.spend(PASS.name) {
            break;
        }
        edit.replace_uses(duplicate, survivor);
        changed = Changed::Yes;
    }
    Ok(changed)
}

/// Returns pairs of constants where the first can replace the second.
fn duplicates(graph: &Graph) -> Vec<(ValueId, ValueId)> {
    let constants: Vec<_> = graph.live_tensors().collect();
    let mut pairs = Vec::new();
    let mut merge = |first: ValueId, other: ValueId| {
        // Block results are distinct, so a returned constant is preserved.
        let returned = graph.value(other).uses().any(|u| matches!(u, Use::Output(..)));
        if !returned {
            pairs.push((first, other));
        }
        !returned
    };

    // Merges identical arrays. The named one survives, or else the first.
    let (mut rest, arrays): (Vec<_>, _) = constants.into_iter().partition(|(_, t)| t.is_empty());
    for same in groups(arrays, |t| (t.dtype(), t.shape().to_vec(), t.address())) {
        let named = same.iter().find(|(id, _)| graph.parameter(*id).is_some());
        let Some(&survivor) = named.or(same.first()) else { continue };
        rest.push(survivor);
        for other in same.into_iter().filter(|other| other.0 != survivor.0) {
            if !merge(survivor.0, other.0) {
                rest.push(other);
            }
        }
    }

    // Merges equal elements. Permuted constants are not reordered just for the comparison.
    let is_stored = |t: &Tensor| source(t).stored_bytes().is_some();
    rest.retain(|(id, t)| graph.constant(*id).is_some() && is_stored(t));
    for alike in groups(rest, sample).into_iter().filter(|alike| alike.len() > 1) {
        for equal in groups(alike, content) {
            let mut equal = equal.into_iter();
            let Some((survivor, tensor)) = equal.next() else { continue };
            for (other, candidate) in equal {
                if tensor.ty() == candidate.ty() && *source(tensor) == *source(candidate) {
                    merge(survivor, other);
                }
            }
        }
    }
    pairs.sort_unstable_by_key(|(_, other)| *other);
    pairs
}

/// Groups constants by key, in the order of their first members.
fn groups<K: Eq + Hash>(
    constants: Vec<(ValueId, &Tensor)>,
    key: impl Fn(&Tensor) -> K,
) -> Vec<Vec<(ValueId, &Tensor)>> {
    let mut positions: FxHashMap<K, usize> = FxHashMap::default();
    let mut groups: Vec<Vec<_>> = Vec::new();
    for (id, tensor) in constants {
        let at = *positions.entry(key(tensor)).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => group.push((id, tensor)),
            None => groups.push(vec![(id, tensor)]),
        }
    }
    groups
}

/// Returns the elements before a cast, which is not computed just for the comparison.
fn source(tensor: &Tensor) -> Cow<'_, Tensor> {
    tensor.cast_from().map_or(Cow::Borrowed(tensor), Cow::Owned)
}

/// Hashes the type, the shape and a sample of the elements.
fn sample(tensor: &Tensor) -> u64 {
    let mut hasher = FxHasher::default();
    let source = source(tensor);
    let bytes = source.stored_bytes().unwrap_or_default();
    (tensor.dtype(), tensor.shape()).hash(&mut hasher);
    if bytes.len() <= SMALL {
        hasher.write(bytes);
    } else {
        let step = bytes.len() / SAMPLES;
        bytes.chunks(step).for_each(|chunk| hasher.write(&chunk[..chunk.len().min(8)]));
    }
    hasher.finish()
}

/// Hashes all elements. Only constants with equal samples are read in full.
fn content(tensor: &Tensor) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(source(tensor).stored_bytes().unwrap_or_default());
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use provenance::Origins;
    use tensor::{DType, Tensor};

    use super::{PASS, duplicates};
    use crate::testing::{graph, passes_to};
    use crate::{Editor, Options};

    #[test]
    fn equal_constants_are_merged() {
        let long = vec!["3"; 40].join(", ");
        let other = format!("{}, 4", vec!["3"; 39].join(", "));
        passes_to(
            &PASS,
            &format!(
                "g (int64[40] x) => (int64[40] y) {{
                    a = Constant <value_ints = [{long}]> ()
                    b = Constant <value_ints = [{long}]> ()
                    c = Constant <value_ints = [{other}]> ()
                    s = Add (x, a)
                    t = Add (s, b)
                    y = Add (t, c)
                }}"
            ),
            &format!(
                "g (int64[40] x) => (int64[40] y) {{
                    a = Constant <value_ints = [{long}]> ()
                    c = Constant <value_ints = [{other}]> ()
                    s = Add (x, a)
                    t = Add (s, a)
                    y = Add (t, c)
                }}"
            ),
        );
    }

    #[test]
    fn type_and_shape_must_match() {
        let text = "g (float[1] x) => (float[1] y) {
            a = Constant <value = float {0}> ()
            b = Constant <value = float[1] {0}> ()
            c = Constant <value = int32 {0}> ()
            d = Constant <value = float {-0.0}> ()
            s = Add (x, a)
            t = Add (s, b)
            e = Cast <to = 1> (c)
            u = Add (t, d)
            y = Add (u, e)
        }";
        passes_to(&PASS, text, text);
    }

    #[test]
    fn casts_of_equal_elements_are_merged() {
        let count = |last: f32| {
            let mut origins = Origins::default();
            let text = "g (float16[2] x) => (float16[2] y) { s = Add (x, x) y = Mul (s, x) }";
            let mut graph = graph(text, &mut origins);
            let ids = graph.all_nodes();
            for (id, last) in ids.into_iter().zip([2.0, last]) {
                let bytes: Vec<u8> = [1.0, last].into_iter().flat_map(f32::to_le_bytes).collect();
                let tensor = Tensor::new(DType::F32, &[2], Arc::new(bytes)).unwrap();
                let constant = graph.add_constant(tensor.cast(DType::F16).unwrap());
                let mut edit = Editor::new(&mut graph, &mut origins, &Options::default());
                edit.set_input(id, 1, Some(constant));
            }
            duplicates(&graph).len()
        };
        assert_eq!((count(2.0), count(3.0)), (1, 0));
    }

    #[test]
    fn parameters_stay_separate() {
        let text = "g (float[2] x) => (float[2] y) <float[2] a = {0, 0}, float[2] b = {0, 0}> {
            c = Constant <value_floats: floats = [0, 0]> ()
            s = Add (x, a)
            t = Add (s, b)
            y = Add (t, c)
        }";
        passes_to(&PASS, text, text);
    }

    #[test]
    fn returned_constants_stay_separate() {
        let text = "g (float[2] x) => (float[2] y, float[2] a, float[2] b) {
            a = Constant <value_floats: floats = [1, 2]> ()
            b = Constant <value_floats: floats = [1, 2]> ()
            s = Add (x, a)
            y = Add (s, b)
        }";
        passes_to(&PASS, text, text);
    }
}
