//! Paths through a graph, such as `Gemm{transB=1}:Bx256 -> Clip(?, 0.0, 6.0):Bx256`.

use rustc_hash::FxHashSet;

use super::python::{Literal, split};
use super::{Dim, ListedNode, Listing, Value, joined};

/// The reason why a text is not a path.
#[derive(Debug, thiserror::Error)]
#[error("`{part}` is not {what}")]
pub struct PathError {
    part: String,
    what: &'static str,
}

/// One node of a path. A field that is `None` matches anything.
struct PathNode<'p> {
    text: &'p str,
    op: &'p str,
    attributes: Vec<(&'p str, Literal)>,
    operands: Vec<Operand<'p>>,
    dims: Option<Vec<Dim>>,
}

/// The expectation for one operand of a node.
enum Operand<'p> {
    Any,
    Absent,
    /// A constant with these elements. A number also matches an array of equal numbers.
    Constant(Literal),
    Name(&'p str),
}

impl<'p> Operand<'p> {
    fn parse(text: &'p str) -> Option<Self> {
        let is_name = |c: char| !c.is_whitespace() && !"()[]{}'\"".contains(c);
        match (text, Literal::parse(text)) {
            ("?", _) => Some(Operand::Any),
            ("none", _) => Some(Operand::Absent),
            (_, Some(Literal::Text(_))) => Some(Operand::Name(&text[1..text.len() - 1])),
            (_, Some(literal)) => Some(Operand::Constant(literal)),
            ("", None) => None,
            (name, None) => name.chars().all(is_name).then_some(Operand::Name(name)),
        }
    }

    fn matches(&self, node: &ListedNode, index: usize) -> bool {
        let name = node.inputs.get(index).filter(|name| !name.is_empty());
        match self {
            Operand::Any => true,
            Operand::Absent => name.is_none(),
            Operand::Name(wanted) => name.is_some_and(|name| name == wanted),
            Operand::Constant(wanted) => {
                let found = node.operands.get(index).and_then(Option::as_ref);
                found.is_some_and(|found| found == wanted || found.repeats(wanted))
            }
        }
    }
}

impl PathNode<'_> {
    /// Returns `true` if a node matches; `result` is the position of the result that the path
    /// continues from.
    fn matches(&self, node: &ListedNode, result: Option<usize>) -> bool {
        if !matches!(self.op, op if op == "*" || op == node.op) {
            return false;
        }
        let has = |(name, wanted): &(&str, Literal)| {
            node.attributes.iter().any(|(key, value)| key == name && value == wanted)
        };
        let values = match result {
            Some(result) => node.outputs.get(result..=result).unwrap_or_default(),
            None => &node.outputs,
        };
        self.attributes.iter().all(has)
            && self.operands.iter().enumerate().all(|(i, operand)| operand.matches(node, i))
            && (self.dims.is_none() || values.iter().any(|value| self.fits(value)))
    }

    fn fits(&self, value: &Value) -> bool {
        let (Some(wanted), Some(dims)) = (&self.dims, &value.dims) else { return false };
        let same = |(want, dim): (&Dim, &Dim)| *want == Dim::Unknown || want == dim;
        wanted.len() == dims.len() && wanted.iter().zip(dims).all(same)
    }
}

impl Listing {
    /// Describes how far the graph follows a path, and what it has instead of the next step.
    /// Returns `None` if the graph contains the path.
    pub fn missing(&self, path: &str) -> Result<Option<String>, PathError> {
        let steps: Vec<PathNode<'_>> =
            path.split("->").map(|text| step(text.trim())).collect::<Result<_, _>>()?;
        let order = self.order();
        let found = self.longest_match(&steps, &order);
        let Some(wanted) = steps.get(found.len()) else { return Ok(None) };
        let mut seen: Vec<String> = Vec::new();
        let candidates: Vec<usize> = match found.last() {
            Some(last) => self.nodes[*last].readers.iter().map(|(_, reader)| *reader).collect(),
            None => order,
        };
        for node in candidates.into_iter().map(|node| &self.nodes[node]) {
            let counts = !found.is_empty() || matches!(wanted.op, op if op == "*" || op == node.op);
            let text = short(node);
            if counts && !seen.contains(&text) {
                seen.push(text);
            }
        }
        let others = if seen.is_empty() { "nothing".to_owned() } else { seen.join(" or ") };
        let matched = steps[..found.len()].iter().map(|step| step.text.to_owned());
        Ok(Some(matched.chain([others]).collect::<Vec<_>>().join(" -> ")))
    }

    /// Returns the nodes that match the longest prefix of the steps.
    fn longest_match(&self, steps: &[PathNode<'_>], nodes: &[usize]) -> Vec<usize> {
        let mut best = Vec::new();
        // The search is depth-first. An edge that failed at a step fails there on every other way
        // to it.
        let mut failed = FxHashSet::default();
        for node in nodes {
            if self.walk(steps, *node, &mut best, &mut Vec::new(), &mut failed) {
                break;
            }
        }
        best
    }

    /// Follows the steps from `node`. Returns `true` if all of them match. `best` is the longest
    /// match so far.
    fn walk(
        &self,
        steps: &[PathNode<'_>],
        node: usize,
        best: &mut Vec<usize>,
        way: &mut Vec<usize>,
        failed: &mut FxHashSet<(usize, usize, usize, usize)>,
    ) -> bool {
        let Some(step) = steps.get(way.len()) else { return false };
        let entry = &self.nodes[node];
        let is_last = way.len() + 1 == steps.len();
        if (is_last || entry.readers.is_empty()) && step.matches(entry, None) {
            if way.len() + 1 > best.len() {
                *best = [way.as_slice(), &[node]].concat();
            }
            return is_last;
        }
        for (result, reader) in entry.readers.iter().filter(|_| !is_last) {
            let edge = (way.len(), node, *result, *reader);
            if failed.contains(&edge) || !step.matches(entry, Some(*result)) {
                continue;
            }
            way.push(node);
            if way.len() > best.len() {
                best.clone_from(way);
            }
            let found = self.walk(steps, *reader, best, way, failed);
            way.pop();
            if found {
                return true;
            }
            failed.insert(edge);
        }
        false
    }
}

/// Formats a node as a step of a path.
fn short(node: &ListedNode) -> String {
    let Some(dims) = node.outputs.first().and_then(|value| value.dims.as_ref()) else {
        return node.op.clone();
    };
    let shape = if dims.is_empty() { "scalar".to_owned() } else { joined(dims, "x") };
    format!("{}:{shape}", node.op)
}

/// Parses a step such as `Gemm{transB=1}(?, kernel):Bx256`.
fn step(text: &str) -> Result<PathNode<'_>, PathError> {
    let malformed = || PathError { part: text.to_owned(), what: "a step" };
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    // A double colon follows a domain, a single colon precedes a shape.
    let mut end = text.find(|c: char| !is_word(c) && c != '.' && c != '*').unwrap_or(text.len());
    if let Some(name) = text[end..].strip_prefix("::") {
        end += 2 + name.find(|c: char| !is_word(c)).unwrap_or(name.len());
    }
    let (op, mut rest) = (&text[..end], text[end..].trim_start());
    if op.is_empty() || op.ends_with(':') || (op.contains('*') && op != "*") {
        return Err(malformed());
    }
    let mut attributes = Vec::new();
    if let Some(inside) = rest.strip_prefix('{') {
        let (inside, after) = inside.split_once('}').ok_or_else(malformed)?;
        for part in split(inside).into_iter().map(str::trim).filter(|part| !part.is_empty()) {
            let entry = part
                .split_once('=')
                .and_then(|(name, value)| Some((name.trim(), Literal::parse(value)?)));
            let wrong = || PathError { part: part.to_owned(), what: "an attribute" };
            attributes.push(entry.ok_or_else(wrong)?);
        }
        rest = after.trim_start();
    }
    let mut operands = Vec::new();
    if let Some(inside) = rest.strip_prefix('(') {
        let (inside, after) = inside.rsplit_once(')').ok_or_else(malformed)?;
        for part in split(inside).into_iter().map(str::trim) {
            let wrong = || PathError { part: part.to_owned(), what: "an operand" };
            operands.push(Operand::parse(part).ok_or_else(wrong)?);
        }
        rest = after.trim_start();
    }
    let dims = match rest.strip_prefix(':') {
        Some(shape) => Some(dims(shape.trim())?),
        None if rest.is_empty() => None,
        None => return Err(malformed()),
    };
    Ok(PathNode { text, op, attributes, operands, dims })
}

/// Parses a shape: `Bx256`, `[B, 256]` or `scalar`.
fn dims(text: &str) -> Result<Vec<Dim>, PathError> {
    if matches!(text, "scalar" | "[]") {
        return Ok(Vec::new());
    }
    let parts: Vec<&str> = match text.strip_prefix('[').and_then(|text| text.strip_suffix(']')) {
        Some(inside) => inside.split(',').map(str::trim).collect(),
        None => text.split('x').collect(),
    };
    let dim = |part: &&str| match part.chars().next() {
        Some('?') if part.len() == 1 => Some(Dim::Unknown),
        Some('0'..='9') => part.parse().ok().map(Dim::Size),
        Some('a'..='z' | 'A'..='Z' | '_') => {
            let is_name = part.chars().all(|c| c.is_alphanumeric() || c == '_');
            is_name.then(|| Dim::Name((*part).to_owned()))
        }
        _ => None,
    };
    let wrong = || PathError { part: text.to_owned(), what: "a shape" };
    parts.iter().map(dim).collect::<Option<_>>().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use onnx::text;
    use onnx_file::{EncodeOptions, encode};
    use provenance::Origins;

    use super::*;

    /// Returns a listing with a node that has two results, a branch, and an operator of another
    /// domain.
    fn listing() -> Listing {
        let text = "g (float[B,4] x, float[4,2] w) => (float[B,2] y, float[B,2] z, float t) {
            h = MatMul (x, w)
            a, b = Split <axis = 1, num_outputs = 2> (h)
            c = Concat <axis = 1> (b, a)
            y = Relu (c)
            z = my.domain.Turn (h)
            m = Mul (h, h)
            t = ReduceSum <keepdims = 0> (m)
        }";
        let graph = text::parse(text, &mut Origins::default()).unwrap();
        Listing::new(&encode(&graph, &EncodeOptions::new(23)).unwrap().proto)
    }

    #[test]
    fn paths_are_found() {
        let listing = listing();
        for path in [
            "MatMul",
            "MatMul -> Split -> Concat -> Relu",
            "MatMul:Bx2 -> Split:Bx1 -> *:[B, 2]",
            "MatMul:?x2->Split{axis=1, num_outputs=2}",
            "* -> my.domain::Turn:Bx2",
            "MatMul -> Mul -> ReduceSum{keepdims=0}:scalar",
            "Mul(?, h):Bx2 -> ReduceSum{keepdims=0}(?, none)",
            "MatMul(x, 'w') -> Mul(h)",
        ] {
            assert_eq!(listing.missing(path).unwrap(), None, "{path}");
        }
    }

    #[test]
    fn a_missing_path_lists_the_nodes_that_follow() {
        let listing = listing();
        for (path, instead) in [
            ("Gemm", "nothing"),
            ("MatMul:Bx3", "MatMul:Bx2"),
            ("MatMul:Bx2x1", "MatMul:Bx2"),
            ("MatMul -> Relu", "MatMul -> Split:Bx1 or my.domain::Turn:Bx2 or Mul:Bx2"),
            ("MatMul -> Split{axis=0}", "MatMul -> Split:Bx1 or my.domain::Turn:Bx2 or Mul:Bx2"),
            ("Split -> Concat -> Neg", "Split -> Concat -> Relu:Bx2"),
            ("Relu -> Neg", "Relu -> nothing"),
            ("Mul(?, 3)", "Mul:Bx2"),
            ("Mul(2)", "Mul:Bx2"),
            ("Mul(?, none)", "Mul:Bx2"),
            ("MatMul(w)", "MatMul:Bx2"),
            ("Concat -> Relu -> Neg -> Neg", "Concat -> Relu -> nothing"),
        ] {
            assert_eq!(listing.missing(path).unwrap().as_deref(), Some(instead), "{path}");
        }
    }

    #[test]
    fn malformed_paths_are_errors() {
        for (path, problem) in [
            ("", "`` is not a step"),
            ("MatMul ->", "`` is not a step"),
            ("Mat*", "`Mat*` is not a step"),
            ("my.domain::", "`my.domain::` is not a step"),
            ("Gemm{transB=1", "`Gemm{transB=1` is not a step"),
            ("Gemm{transB}", "`transB` is not an attribute"),
            ("Gemm{transB=}", "`transB=` is not an attribute"),
            ("Gemm(?,)", "`` is not an operand"),
            ("Gemm(?", "`Gemm(?` is not a step"),
            ("Gemm(a b)", "`a b` is not an operand"),
            ("Gemm(a{)", "`a{` is not an operand"),
            ("Gemm:?a", "`?a` is not a shape"),
            ("Gemm more", "`Gemm more` is not a step"),
            ("Gemm:Bx", "`Bx` is not a shape"),
            ("Gemm:[B,]", "`[B,]` is not a shape"),
            ("Gemm:2b", "`2b` is not a shape"),
        ] {
            let found = listing().missing(path).unwrap_err().to_string();
            assert_eq!(found, problem, "{path}");
        }
    }

    #[test]
    fn constants_are_compared_by_value() {
        let eights = ["2.0"; 8].join(", ");
        let nines = ["2.0"; 9].join(", ");
        let text = format!(
            "g (float[B_1,3] x, bool[2] f) => (float[B_1,3] y, float[B_1,3] z, float[B_1,3] u, bool[2] v, float[8] e, float[9] n) {{
                one = Constant <value_float = 1.0> ()
                ones = Constant <value = float[3] {{1.0, 1.0, 1.0}}> ()
                two = Constant <value = float[1,3] {{1.0, 1.0, 2.0}}> ()
                flags = Constant <value = bool[2] {{1, 0}}> ()
                eights = Constant <value = float[8] {{{eights}}}> ()
                nines = Constant <value = float[9] {{{nines}}}> ()
                y = Add (x, one)
                z = Sub (x, ones)
                u = Mul (x, two)
                v = And (f, flags)
                e = Exp (eights)
                n = Neg (nines)
            }}"
        );
        let mut origins = Origins::default();
        let mut graph = text::parse(&text, &mut origins).unwrap();
        onnx::assign_names(&mut graph, &origins);
        let listing = Listing::new(&encode(&graph, &EncodeOptions::new(23)).unwrap().proto);
        for (path, is_there) in [
            ("Add(?, 1)", true),
            ("Add(?, 1.0):B_1x3", true),
            ("Add(?, 2)", false),
            ("Sub(?, 1)", true),
            ("Sub(?, 2)", false),
            ("Sub(?, [1, 1, 1])", true),
            ("Sub(?, [1, 1, 2])", false),
            ("Mul(?, 1)", false),
            ("Mul(?, [[1, 1, 2]])", true),
            ("And(?, [True, False])", true),
            ("And(?, [False, True])", false),
            ("And(?, True)", false),
            ("Exp(2)", true),
            ("Neg(2)", false),
        ] {
            assert_eq!(listing.missing(path).unwrap().is_none(), is_there, "{path}");
        }
    }

    #[test]
    fn integer_attributes_are_found_by_result() {
        let listing = listing();
        assert_eq!(listing.integer("b", "num_outputs"), Some(2));
        assert_eq!(listing.integer("c", "axis"), Some(1));
        assert_eq!(listing.integer("c", "num_outputs"), None);
        assert_eq!(listing.integer("y", "axis"), None);
    }

    #[test]
    fn commas_in_quotes_and_brackets_separate_nothing() {
        let path = "Pad{mode='a, b', pads=[1, 2], note=\"it's, 1\"}(x, [1, 2])";
        assert_eq!(listing().missing(path).unwrap().as_deref(), Some("nothing"));
    }
}
