//! Patterns: the spellings of operators.
//!
//! The text consists of entries. Each has a head and one or more spellings, every one after a `=`.
//!
//! ```text
//! square(x) = Mul(x, x) = Pow(x, 2)
//! LeakyRelu <alpha = @alpha> (x) = Where(GreaterOrEqual(x, 0), x, Mul(x, @alpha))
//! ```
//!
//! - A name matches any value, and the same value at each occurrence.
//! - `@name` is a number that is known at export: a constant with a single value, the axes of a
//!   reduction, or an attribute.
//! - A number matches a constant.
//! - `count(@axes)` is the number of elements that a reduction combines.
//! - `spread(x)` has one value per group of channels, repeated for each channel of the group.
//! - `first_half(x)`, `second_half(x)`, `even(x)` and `odd(x)` are parts of the last axis. With a
//!   second argument, as in `first_half(x, @n)`, they are parts of its first `@n` elements.
//! - `front(x, @n)` are the first `@n` elements, and `rest(x, @n)` are the elements after them.
//! - `interleaved(x, y)` alternates elements of `x` and `y` along the last axis.
//! - `moved(x)` is `x` behind any number of transposes and reshapes.
//! - In the replacement, `?name` is an operand that is omitted unless a condition binds it.
//!
//! A head with a capital letter is an ONNX operator: its spellings are recognised and replaced by
//! the head. All other heads are words for use in other spellings.

use std::sync::Arc;

use onnx::schema::{self, AttrKind};
use onnx::{Attr, Op, intern};
use rustc_hash::FxHashMap;

use super::parts::Part;
use super::syntax::{self, Argument, Entry, Expression};

/// The position of a name in [`Spelling::names`].
pub(super) type Name = usize;

/// A pattern that a value may match.
#[derive(Clone, Debug)]
pub(super) enum Pattern {
    /// Any value.
    Value(Name),
    /// An operand that may be omitted if no other operand follows it.
    Optional(Name),
    /// A constant whose elements all have this value.
    Number(f64),
    /// A constant whose elements all have the same value.
    Hole(Name),
    /// The number of elements along the axes of a reduction.
    Count(Name),
    /// One value per group of channels, repeated for each channel of the group.
    Spread(Arc<Pattern>),
    /// A part of the last axis, or of its leading elements if a name gives their number.
    Part(Part, Arc<Pattern>, Option<Name>),
    /// The alternating elements of two values, along the last axis.
    Interleaved(Arc<[Pattern; 2]>),
    /// The inner pattern behind any number of transposes and reshapes.
    Moved(Arc<Pattern>),
    /// An ONNX node.
    Node(Arc<Node>),
    /// One of the spellings of a word.
    Word(&'static str, Arc<[Pattern]>),
}

/// An ONNX node to match or to emit.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) op: &'static str,
    pub(super) attrs: Vec<(&'static str, Attribute)>,
    pub(super) args: Vec<Pattern>,
}

/// An attribute: a given value or a hole.
#[derive(Clone, Debug)]
pub(super) enum Attribute {
    Is(Attr),
    Hole(Name),
}

/// One spelling of an operator.
#[derive(Clone, Debug)]
pub(super) struct Spelling {
    /// The free names of the spelling.
    pub(super) names: Vec<String>,
    /// The pattern to match.
    pub(super) pattern: Arc<Node>,
    /// The node that replaces the match.
    pub(super) replacement: Arc<Node>,
}

/// Returns the operator that is equivalent with a negated or inverted constant: `x - c` for `x +
/// -c`.
pub(super) fn respelled(op: &str) -> Option<&'static str> {
    Some(match op {
        "Add" => "Sub",
        "Sub" => "Add",
        "Mul" => "Div",
        "Div" => "Mul",
        _ => return None,
    })
}

impl Node {
    /// Returns `true` if the second operand is a constant.
    pub(super) fn ends_in_constant(&self) -> bool {
        let constant =
            |p: &Pattern| matches!(p, Pattern::Number(_) | Pattern::Hole(_) | Pattern::Count(_));
        matches!(self.args.as_slice(), [_, last] if constant(last))
    }

    /// Returns the most characteristic node of the pattern: this one, or the operand that it only
    /// scales, shifts or lays out differently.
    pub(super) fn core(&self) -> &Node {
        let is_rest = |op| matches!(op, "Mul" | "Reshape" | "Transpose");
        match self.args.first() {
            Some(Pattern::Node(inner)) if is_rest(self.op) => inner.core(),
            Some(Pattern::Node(inner)) if self.op == "Add" && is_rest(inner.op) => inner.core(),
            _ => self,
        }
    }
}

/// The maximum nesting depth of words.
const DEPTH: usize = 24;

/// Compiles the spellings of operators in named texts, with all words expanded.
pub(super) fn compile(texts: &[(&str, &str)]) -> Result<Vec<Spelling>, String> {
    let mut entries = Vec::new();
    for (name, text) in texts {
        entries.extend(syntax::parse(text).map_err(|error| format!("{name}.txt, {error}"))?);
    }
    let is_operator = |entry: &&Entry| entry.head.name.starts_with(|c: char| c.is_uppercase());
    let words: FxHashMap<&str, &Entry> = entries
        .iter()
        .filter(|entry| !is_operator(entry))
        .map(|entry| (entry.head.name.as_str(), entry))
        .collect();
    let mut spellings = Vec::new();
    for entry in entries.iter().filter(is_operator) {
        for spelling in &entry.spellings {
            let compiler = Compiler { words: &words, names: Vec::new() };
            spellings.extend(compiler.spelling(&entry.head, spelling)?);
        }
    }
    Ok(spellings)
}

struct Compiler<'a> {
    words: &'a FxHashMap<&'a str, &'a Entry>,
    /// The free names so far.
    names: Vec<String>,
}

/// The bindings of a word's parameters.
type Meaning<'a> = FxHashMap<&'a str, Pattern>;

impl Compiler<'_> {
    /// Compiles one spelling for each spelling of its outermost word.
    fn spelling(mut self, head: &Expression, text: &Expression) -> Result<Vec<Spelling>, String> {
        let patterns = match self.expression(text, &Meaning::default(), 0)? {
            Pattern::Word(_, patterns) => patterns.to_vec(),
            other => vec![other],
        };
        let Pattern::Node(replacement) = self.expression(head, &Meaning::default(), 0)? else {
            return Err(format!("`{}` stands for nothing", head.name));
        };
        let one = |pattern| match pattern {
            Pattern::Node(pattern) => {
                let (names, replacement) = (self.names.clone(), replacement.clone());
                Ok(Spelling { names, pattern, replacement })
            }
            _ => Err(format!("a spelling of `{}` is not a node", head.name)),
        };
        patterns.into_iter().map(one).collect()
    }

    fn expression(
        &mut self,
        text: &Expression,
        meaning: &Meaning<'_>,
        depth: usize,
    ) -> Result<Pattern, String> {
        if depth > DEPTH {
            return Err(format!("`{}` refers to itself", text.name));
        }
        let mut args = Vec::new();
        for argument in &text.args {
            args.push(match argument {
                Argument::Number(number) => Pattern::Number(*number),
                Argument::Optional(name) => Pattern::Optional(self.position(name)),
                Argument::Value(name) | Argument::Hole(name) => {
                    match (meaning.get(name.as_str()), argument) {
                        (Some(known), _) => known.clone(),
                        (None, Argument::Hole(_)) => Pattern::Hole(self.position(name)),
                        (None, _) => Pattern::Value(self.position(name)),
                    }
                }
                Argument::Expression(inner) => self.expression(inner, meaning, depth + 1)?,
            });
        }
        match (text.name.as_str(), args.as_slice()) {
            ("count", [Pattern::Hole(axes)]) => return Ok(Pattern::Count(*axes)),
            ("spread", [inner]) => return Ok(Pattern::Spread(Arc::new(inner.clone()))),
            ("moved", [inner]) => return Ok(Pattern::Moved(Arc::new(inner.clone()))),
            ("interleaved", [a, b]) => {
                return Ok(Pattern::Interleaved(Arc::new([a.clone(), b.clone()])));
            }
            _ => {}
        }
        if let Some(part) = Part::parse(&text.name) {
            return match args.as_slice() {
                [of] => Ok(Pattern::Part(part, Arc::new(of.clone()), None)),
                [of, Pattern::Hole(whole)] => {
                    Ok(Pattern::Part(part, Arc::new(of.clone()), Some(*whole)))
                }
                _ => Err(format!("`{}` is a part of one value", text.name)),
            };
        }
        if let Some(word) = self.words.get(text.name.as_str()) {
            return self.word(word, args, depth);
        }
        let op = intern(&text.name);
        let domains = ["", schema::CONTRIB];
        if domains.iter().all(|domain| schema::versions(&Op { domain, name: op }).is_empty()) {
            return Err(format!("`{op}` is neither an operator nor a word"));
        }
        let mut attrs = Vec::new();
        for (name, argument) in &text.attrs {
            let attribute = match argument {
                Argument::Hole(hole) => match meaning.get(hole.as_str()) {
                    Some(Pattern::Hole(known)) => Attribute::Hole(*known),
                    Some(_) => return Err(format!("`{name}` of `{op}` is not a number")),
                    None => Attribute::Hole(self.position(hole)),
                },
                Argument::Value(text) => Attribute::Is(Attr::String(text.as_str().into())),
                Argument::Number(number) => Attribute::Is(literal(op, name, *number)),
                Argument::Expression(_) | Argument::Optional(_) => {
                    return Err(format!("`{name}` of `{op}` is not a number"));
                }
            };
            attrs.push((intern(name), attribute));
        }
        Ok(Pattern::Node(Arc::new(Node { op, attrs, args })))
    }

    /// Expands `word` with these arguments.
    fn word(&mut self, word: &Entry, args: Vec<Pattern>, depth: usize) -> Result<Pattern, String> {
        let formals = word.head.args.iter().map(|formal| match formal {
            Argument::Value(name) | Argument::Hole(name) => Ok(name.as_str()),
            Argument::Optional(_) | Argument::Number(_) | Argument::Expression(_) => {
                Err(format!("a parameter of `{}` is not a name", word.head.name))
            }
        });
        let formals: Vec<_> = formals.collect::<Result<_, _>>()?;
        if formals.len() != args.len() {
            return Err(format!("`{}` takes {} arguments", word.head.name, formals.len()));
        }
        let meaning = formals.into_iter().zip(args).collect();
        let mut patterns = Vec::new();
        for spelling in &word.spellings {
            match self.expression(spelling, &meaning, depth + 1)? {
                Pattern::Word(_, inner) => patterns.extend(inner.iter().cloned()),
                other => patterns.push(other),
            }
        }
        Ok(Pattern::Word(intern(&word.head.name), patterns.into()))
    }

    fn position(&mut self, name: &str) -> Name {
        self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        })
    }
}

/// Converts a number to the type of the attribute `name` of `op`.
#[expect(clippy::cast_possible_truncation, reason = "the text says what fits")]
fn literal(op: &'static str, name: &str, number: f64) -> Attr {
    let schema = schema::versions(&Op::onnx(op)).last();
    match schema.and_then(|schema| schema.attr(name)).map(|spec| spec.kind) {
        Some(AttrKind::Int) => Attr::Int(number as i64),
        _ => Attr::Float(number as f32),
    }
}
