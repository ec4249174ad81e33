//! Structural numbering of values: identifies equal computations in models whatever their names.
//!
//! Values of two models have the same number if the same operators compute them from the same
//! inputs, matched by position, and from the same weights, matched by name.

use prost::Message as _;
use rustc_hash::FxHashMap;

use crate::LARGE;
use crate::proto::{AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto};

/// The largest nesting depth of graphs whose nodes are compared.
const DEEPEST: usize = 64;

/// The numbers of values, shared by all models that are compared.
#[derive(Debug, Default)]
struct Structures {
    known: FxHashMap<Vec<u8>, u32>,
}

/// The numbers of the values in scope, by name.
type Values<'m> = FxHashMap<&'m str, u32>;

/// The number of an operand that is not in scope.
const UNKNOWN: u32 = 0;

impl Structures {
    /// Returns the numbers of the values of a model's main graph, by name.
    fn of<'m>(&mut self, model: &'m ModelProto) -> FxHashMap<&'m str, u32> {
        let Some(graph) = &model.graph else { return FxHashMap::default() };
        let mut values = self.constants(graph);
        let inputs = graph.input.iter().filter(|input| !values.contains_key(input.name.as_str()));
        for (position, input) in inputs.collect::<Vec<_>>().into_iter().enumerate() {
            values.insert(&input.name, self.number(Key::of("input").number(position)));
        }
        self.nodes(&graph.node, &mut values, 0);
        values
    }

    fn constants<'m>(&mut self, graph: &'m GraphProto) -> Values<'m> {
        graph.initializer.iter().map(|t| (t.name.as_str(), self.constant(t))).collect()
    }

    fn constant(&mut self, tensor: &TensorProto) -> u32 {
        let mut key = Key::of("constant").number(tensor.data_type);
        key = tensor.dims.iter().fold(key, |key, dim| key.number(*dim));
        let data = tensor.raw_data.as_deref().unwrap_or_default();
        // Large tensors are compared by name, because a model may store their contents elsewhere.
        let is_small = !data.is_empty() && data.len() < LARGE;
        let contents = if is_small { data } else { tensor.name.as_bytes() };
        self.number(key.number(u8::from(is_small)).bytes(contents))
    }

    fn nodes<'m>(&mut self, nodes: &'m [NodeProto], values: &mut Values<'m>, depth: usize) {
        for node in nodes {
            let mut attributes: Vec<(&str, u32)> = Vec::new();
            for attribute in &node.attribute {
                attributes.push((&attribute.name, self.attribute(attribute, values, depth)));
            }
            attributes.sort_unstable();
            let mut key = Key::of(&node.domain).bytes(node.op_type.as_bytes());
            for (name, value) in attributes {
                key = key.bytes(name.as_bytes()).number(value);
            }
            key = key.bytes(b"operands");
            for name in &node.input {
                key = key.number(values.get(name.as_str()).copied().unwrap_or(UNKNOWN));
            }
            for (position, name) in node.output.iter().enumerate().filter(|(_, n)| !n.is_empty()) {
                let number = self.number(key.clone().number(position));
                values.insert(name, number);
            }
        }
    }

    fn attribute<'m>(&mut self, of: &'m AttributeProto, values: &Values<'m>, depth: usize) -> u32 {
        if let Some(tensor) = &of.t {
            return self.constant(tensor);
        }
        if of.g.is_none() && of.graphs.is_empty() {
            return self.number(Key::of("attribute").bytes(&of.encode_to_vec()));
        }
        let mut key = Key::of("graphs");
        for graph in of.g.as_deref().into_iter().chain(&of.graphs) {
            for result in self.body(graph, values, depth + 1) {
                key = key.number(result);
            }
        }
        self.number(key)
    }

    /// Returns the numbers of a graph's results.
    fn body<'m>(&mut self, graph: &'m GraphProto, outer: &Values<'m>, depth: usize) -> Vec<u32> {
        let mut values = outer.clone();
        values.extend(self.constants(graph));
        for (position, input) in graph.input.iter().enumerate() {
            values.insert(&input.name, self.number(Key::of("formal").number(position)));
        }
        if depth < DEEPEST {
            self.nodes(&graph.node, &mut values, depth);
        }
        let number = |name: &str| values.get(name).copied().unwrap_or(UNKNOWN);
        graph.output.iter().map(|output| number(&output.name)).collect()
    }

    fn number(&mut self, key: Key) -> u32 {
        let next = u32::try_from(self.known.len() + 1).unwrap_or(u32::MAX);
        *self.known.entry(key.0).or_insert(next)
    }
}

/// An unambiguous encoding of a value's definition. Strings are prefixed with their lengths.
#[derive(Clone)]
struct Key(Vec<u8>);

impl Key {
    fn of(kind: &str) -> Self {
        Self(Vec::new()).bytes(kind.as_bytes())
    }

    fn bytes(self, bytes: &[u8]) -> Self {
        let mut key = self.number(bytes.len());
        key.0.extend_from_slice(bytes);
        key
    }

    fn number(mut self, number: impl TryInto<i64>) -> Self {
        self.0.extend_from_slice(&number.try_into().unwrap_or(i64::MAX).to_le_bytes());
        self
    }
}

/// Returns each value of `one` together with a value of `other` that is computed in the same way.
pub fn same_values<'m>(one: &'m ModelProto, other: &'m ModelProto) -> Vec<(&'m str, &'m str)> {
    let mut structures = Structures::default();
    let (one, other) = (structures.of(one), structures.of(other));
    let mut found: FxHashMap<u32, &str> = FxHashMap::default();
    for (name, number) in other {
        // Choose the least name, so that the result does not depend on the order of the map.
        found.entry(number).and_modify(|known| *known = name.min(*known)).or_insert(name);
    }
    one.into_iter().filter_map(|(name, number)| Some((name, *found.get(&number)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{TypeProto, ValueInfoProto};

    fn node(op: &str, inputs: &[&str], output: &str) -> NodeProto {
        NodeProto {
            op_type: op.to_owned(),
            input: inputs.iter().map(|name| (*name).to_owned()).collect(),
            output: vec![output.to_owned()],
            ..Default::default()
        }
    }

    fn model(input: &str, nodes: Vec<NodeProto>) -> ModelProto {
        let value = |name: &str| ValueInfoProto {
            name: name.to_owned(),
            r#type: Some(TypeProto::default()),
            ..Default::default()
        };
        let weight = |name: &str, raw: Vec<u8>| TensorProto {
            name: name.to_owned(),
            dims: vec![i64::try_from(raw.len()).unwrap()],
            data_type: 3,
            raw_data: Some(raw.into()),
            ..Default::default()
        };
        let graph = GraphProto {
            node: nodes,
            input: vec![value(input)],
            initializer: vec![weight("small", vec![1, 2]), weight("large", vec![0; LARGE])],
            ..Default::default()
        };
        ModelProto { graph: Some(graph), ..Default::default() }
    }

    #[test]
    fn names_inside_bodies_do_not_matter() {
        let branch = |op: &str, name: &str| GraphProto {
            node: vec![node(op, &["x"], name)],
            output: vec![ValueInfoProto { name: name.to_owned(), ..Default::default() }],
            ..Default::default()
        };
        let choice = |op: &str, name: &str| {
            let body = AttributeProto {
                name: "then_branch".to_owned(),
                g: Some(Box::new(branch(op, name))),
                ..Default::default()
            };
            model("x", vec![NodeProto { attribute: vec![body], ..node("If", &["x"], "y") }])
        };
        let is_same = |other| same_values(&choice("Sin", "a"), &other).contains(&("y", "y"));
        assert!(is_same(choice("Sin", "b")));
        assert!(!is_same(choice("Cos", "a")));
    }

    #[test]
    fn values_match_if_computed_alike() {
        let one = model(
            "x",
            vec![
                node("Sin", &["x"], "a"),
                node("Add", &["a", "small"], "b"),
                node("Mul", &["b", "large"], "c"),
            ],
        );
        let mut other = model(
            "input",
            vec![
                node("Cos", &["input"], "0"),
                node("Sin", &["input"], "1"),
                node("Add", &["1", "two"], "2"),
                node("Mul", &["2", "large"], "3"),
                node("Mul", &["0", "large"], "4"),
            ],
        );
        let graph = other.graph.as_mut().unwrap();
        graph.initializer[0].name = "two".to_owned();
        let mut found = same_values(&one, &other);
        found.sort_unstable();
        assert_eq!(
            found,
            [
                ("a", "1"),
                ("b", "2"),
                ("c", "3"),
                ("large", "large"),
                ("small", "two"),
                ("x", "input")
            ]
        );
        let graph = other.graph.as_mut().unwrap();
        graph.initializer[1].name = "other".to_owned();
        graph.node[3].input[1] = "other".to_owned();
        assert!(same_values(&one, &other).iter().all(|(name, _)| !["c", "large"].contains(name)));
    }

    #[test]
    fn values_match_only_if_attributes_and_bodies_do() {
        let with_body = |op: &str, number: i64| {
            let mut outer = node("Loop", &["x"], "y");
            let body = GraphProto {
                node: vec![node(op, &["x"], "r")],
                output: vec![ValueInfoProto { name: "r".to_owned(), ..Default::default() }],
                ..Default::default()
            };
            let graph = AttributeProto {
                name: "body".to_owned(),
                g: Some(Box::new(body)),
                ..Default::default()
            };
            let axis =
                AttributeProto { name: "axis".to_owned(), i: Some(number), ..Default::default() };
            outer.attribute = vec![graph, axis];
            model("x", vec![outer])
        };
        let same =
            |a: &ModelProto, b: &ModelProto| same_values(a, b).iter().any(|(name, _)| *name == "y");
        assert!(same(&with_body("Sin", 1), &with_body("Sin", 1)));
        assert!(!same(&with_body("Sin", 1), &with_body("Cos", 1)));
        assert!(!same(&with_body("Sin", 1), &with_body("Sin", 2)));
    }
}
