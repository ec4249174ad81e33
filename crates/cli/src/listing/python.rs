//! Values in Python's syntax.

use std::fmt;

/// A number, a string or a list.
#[derive(Clone, Debug)]
pub(super) enum Literal {
    Int(i128),
    Float(f64),
    Bool(bool),
    Text(String),
    /// An element of a list of strings, whose encoding ONNX does not specify.
    Bytes(String),
    List(Vec<Literal>),
    /// Text that is displayed and never equal to anything.
    Other(String),
}

impl PartialEq for Literal {
    fn eq(&self, other: &Self) -> bool {
        use Literal::{Bytes, List, Text};
        match (self, other) {
            (Text(a) | Bytes(a), Text(b) | Bytes(b)) => a == b,
            (List(a), List(b)) => a == b,
            _ => match (self.number(), other.number()) {
                (Some(a), Some(b)) => a == b,
                _ => false,
            },
        }
    }
}

impl Literal {
    #[expect(clippy::cast_precision_loss, reason = "attributes are compared with what was written")]
    fn number(&self) -> Option<f64> {
        match self {
            Literal::Int(value) => Some(*value as f64),
            Literal::Float(value) => Some(*value),
            Literal::Bool(value) => Some(f64::from(u8::from(*value))),
            _ => None,
        }
    }

    /// Returns `true` if this is a list of at least one element, and every element equals `number`.
    pub(super) fn repeats(&self, number: &Literal) -> bool {
        let Literal::List(elements) = self else { return false };
        !elements.is_empty() && elements.iter().all(|one| one == number || one.repeats(number))
    }

    /// Nests elements in lists, according to the sizes of the axes.
    pub(super) fn nested(elements: Vec<Literal>, dims: &[usize]) -> Literal {
        let Some((first, rest)) = dims.split_first() else {
            return elements.into_iter().next().unwrap_or(Literal::List(Vec::new()));
        };
        let size: usize = rest.iter().product();
        let mut elements = elements.into_iter();
        let mut row = || Literal::nested(elements.by_ref().take(size).collect(), rest);
        Literal::List((0..*first).map(|_| row()).collect())
    }

    /// Parses a literal in Python's syntax.
    pub(super) fn parse(text: &str) -> Option<Literal> {
        let text = text.trim();
        match text {
            "True" => return Some(Literal::Bool(true)),
            "False" => return Some(Literal::Bool(false)),
            _ => {}
        }
        for (open, close) in [('[', ']'), ('(', ')')] {
            if let Some(inside) = text.strip_prefix(open).and_then(|t| t.strip_suffix(close)) {
                let parts = split(inside).into_iter().filter(|part| !part.trim().is_empty());
                return parts.map(Literal::parse).collect::<Option<_>>().map(Literal::List);
            }
        }
        let quoted = text.strip_prefix('b').filter(|t| t.starts_with(['\'', '"'])).unwrap_or(text);
        for quote in ['\'', '"'] {
            if let Some(inside) = quoted.strip_prefix(quote).and_then(|t| t.strip_suffix(quote)) {
                return (!inside.contains(quote)).then(|| Literal::Text(inside.to_owned()));
            }
        }
        let starts = text
            .trim_start_matches(['-', '+'])
            .starts_with(|c: char| c.is_ascii_digit() || c == '.');
        let int = || text.parse().ok().map(Literal::Int);
        starts.then(|| int().or_else(|| text.parse().ok().map(Literal::Float))).flatten()
    }
}

/// Splits at the commas outside brackets and quotes.
pub(super) fn split(text: &str) -> Vec<&str> {
    let (mut depth, mut quote, mut from) = (0_usize, None, 0);
    let mut parts = Vec::new();
    for (at, c) in text.char_indices() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), _) if open == c => quote = None,
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, ',') if depth == 0 => {
                parts.push(&text[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[from..]);
    parts
}

impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Literal::Int(value) => write!(f, "{value}"),
            Literal::Float(value) => float(*value, f),
            Literal::Bool(value) => f.write_str(if *value { "True" } else { "False" }),
            Literal::Text(text) => quoted(text, f),
            Literal::Bytes(text) => f.write_str("b").and_then(|()| quoted(text, f)),
            Literal::Other(text) => f.write_str(text),
            Literal::List(items) => {
                f.write_str("[")?;
                for (position, item) in items.iter().enumerate() {
                    let comma = if position == 0 { "" } else { ", " };
                    write!(f, "{comma}{item}")?;
                }
                f.write_str("]")
            }
        }
    }
}

fn quoted(text: &str, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let quote = if text.contains('\'') && !text.contains('"') { '"' } else { '\'' };
    let mut shown = String::from(quote);
    for c in text.chars() {
        match c {
            '\\' => shown.push_str("\\\\"),
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            _ if c == quote => shown.extend(['\\', c]),
            _ if c.is_ascii_control() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            _ => shown.push(c),
        }
    }
    shown.push(quote);
    f.write_str(&shown)
}

/// Formats the shortest text that reads back as the same number, as Python does: with an exponent
/// below 1e-4 and from 1e16.
fn float(value: f64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !value.is_finite() {
        let sign = if value.is_sign_negative() && !value.is_nan() { "-" } else { "" };
        return write!(f, "{sign}{}", if value.is_nan() { "nan" } else { "inf" });
    }
    let shortest = format!("{value:e}");
    let (digits, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    // Of two equally short and equally near texts, Python chooses the even one. Rounding to that
    // many digits does the same.
    let behind = digits.split_once('.').map_or(0, |(_, behind)| behind.len());
    if value != 0.0 && !(-4..16).contains(&exponent) {
        let rounded = format!("{value:.behind$e}");
        let rounded = rounded.split_once('e').map_or(digits, |(digits, _)| digits);
        let sign = if exponent < 0 { '-' } else { '+' };
        return write!(f, "{rounded}e{sign}{:02}", exponent.abs());
    }
    let decimals = i32::try_from(behind).unwrap_or(0).saturating_sub(exponent).max(1);
    write!(f, "{value:.*}", usize::try_from(decimals).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_written_as_python_writes_them() {
        for (value, text) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (f64::from(0.1_f32), "0.10000000149011612"),
            (1e-4, "0.0001"),
            (1e-5, "1e-05"),
            (1.5e-7, "1.5e-07"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-3.4028234663852886e38, "-3.4028234663852886e+38"),
            (1e300, "1e+300"),
            (1500.0, "1500.0"),
            (f64::from(1.082_740_8_f32), "1.0827407836914062"),
            (9.536_743_164_062_5e-7, "9.5367431640625e-07"),
            (5e-324, "5e-324"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::INFINITY, "inf"),
            (f64::NAN, "nan"),
            (-f64::NAN, "nan"),
        ] {
            assert_eq!(Literal::Float(value).to_string(), text);
        }
        let list = Literal::nested((0..4).map(Literal::Int).collect(), &[2, 2]);
        assert_eq!(list.to_string(), "[[0, 1], [2, 3]]");
        assert_eq!(Literal::nested(Vec::new(), &[2, 0]).to_string(), "[[], []]");
        assert_eq!(Literal::Text("it's\n".to_owned()).to_string(), "\"it's\\n\"");
        let both = Literal::Text("it's \"a\\b\"\r\t\u{1}".to_owned());
        assert_eq!(both.to_string(), r#"'it\'s "a\\b"\r\t\x01'"#);
        assert_eq!(Literal::List(vec![Literal::Bytes("a".to_owned())]).to_string(), "[b'a']");
    }

    #[test]
    fn values_are_read_as_python_writes_them() {
        for text in ["1", "-3", "0.5", "1e-05", "True", "'a, b'", "[1, 2]", "[[1], [2.5]]", "[]"] {
            assert_eq!(Literal::parse(text).unwrap().to_string(), text);
        }
        assert!(Literal::parse("1") == Some(Literal::Float(1.0)), "as numbers they are equal");
        assert!(Literal::parse("b'x'") == Some(Literal::Bytes("x".to_owned())));
        for text in ["", "nan", "x", "[1", "'a", "1 2", "'a'b'"] {
            assert!(Literal::parse(text).is_none(), "{text}");
        }
    }
}
