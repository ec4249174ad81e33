//! The parser for the text of patterns.

/// A head and its spellings.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) head: Expression,
    pub(super) spellings: Vec<Expression>,
}

/// `Name <attribute = 1> (argument, …)`.
#[derive(Debug)]
pub(super) struct Expression {
    pub(super) name: String,
    pub(super) attrs: Vec<(String, Argument)>,
    pub(super) args: Vec<Argument>,
}

/// An operand, or the value of an attribute.
#[derive(Debug)]
pub(super) enum Argument {
    Value(String),
    /// A value that may be missing.
    Optional(String),
    Hole(String),
    Number(f64),
    Expression(Expression),
}

/// Parses all entries of a text.
pub(super) fn parse(text: &str) -> Result<Vec<Entry>, String> {
    let mut reader = Reader { rest: text, text };
    let mut entries = Vec::new();
    while !reader.peek().is_empty() {
        let head = reader.expression()?;
        let mut spellings = Vec::new();
        while reader.eat("=") {
            spellings.push(reader.expression()?);
        }
        if spellings.is_empty() {
            return Err(reader.error("a `=` and a spelling"));
        }
        entries.push(Entry { head, spellings });
    }
    Ok(entries)
}

struct Reader<'a> {
    text: &'a str,
    rest: &'a str,
}

impl<'a> Reader<'a> {
    fn error(&self, expected: &str) -> String {
        let read = &self.text[..self.text.len() - self.rest.len()];
        let line = read.matches('\n').count() + 1;
        format!("line {line}: expected {expected}")
    }

    /// Skips blanks and comments, and returns the remaining text.
    fn peek(&mut self) -> &'a str {
        loop {
            self.rest = self.rest.trim_start();
            if !self.rest.starts_with('#') {
                return self.rest;
            }
            self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        }
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = self.peek().strip_prefix(sign);
        self.rest = found.unwrap_or(self.rest);
        found.is_some()
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        if self.eat(sign) { Ok(()) } else { Err(self.error(&format!("`{sign}`"))) }
    }

    fn take(&mut self, accept: impl Fn(char) -> bool) -> &'a str {
        let rest = self.peek();
        let (taken, rest) = rest.split_at(rest.find(|c| !accept(c)).unwrap_or(rest.len()));
        self.rest = rest;
        taken
    }

    fn name(&mut self) -> Result<String, String> {
        match self.take(|c| c.is_ascii_alphanumeric() || c == '_') {
            "" => Err(self.error("a name")),
            name => Ok(name.to_owned()),
        }
    }

    fn list<T>(
        &mut self,
        close: &str,
        item: impl Fn(&mut Self) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let mut items = Vec::new();
        while !self.eat(close) {
            items.push(item(self)?);
            if !self.eat(",") && !self.peek().starts_with(close) {
                return Err(self.error(&format!("`,` or `{close}`")));
            }
        }
        Ok(items)
    }

    fn expression(&mut self) -> Result<Expression, String> {
        let name = self.name()?;
        self.after(name)
    }

    /// Parses the rest of an expression after its name.
    fn after(&mut self, name: String) -> Result<Expression, String> {
        let mut attrs = Vec::new();
        if self.eat("<") {
            attrs = self.list(">", |reader| {
                let name = reader.name()?;
                reader.expect("=")?;
                Ok((name, reader.argument()?))
            })?;
        }
        self.expect("(")?;
        let args = self.list(")", Self::argument)?;
        Ok(Expression { name, attrs, args })
    }

    fn argument(&mut self) -> Result<Argument, String> {
        if self.eat("@") {
            return self.name().map(Argument::Hole);
        }
        if self.eat("?") {
            return self.name().map(Argument::Optional);
        }
        if self.peek().starts_with(|c: char| c.is_ascii_digit() || c == '-') {
            let number = self.take(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-'));
            let parsed = number.parse().map(Argument::Number);
            return parsed.map_err(|_| self.error("a number"));
        }
        let name = self.name()?;
        if self.peek().starts_with(['(', '<']) {
            return self.after(name).map(Argument::Expression);
        }
        Ok(Argument::Value(name))
    }
}

#[cfg(test)]
mod tests {
    use crate::recognize::pattern::compile;

    #[test]
    fn errors_name_the_text_and_the_line() {
        let error = |text: &str| compile(&[("some", text)]).unwrap_err();
        assert_eq!(
            error("# A comment.\nRelu(x)\n    = Max(x, 0)\n    ="),
            "some.txt, line 4: expected a name"
        );
        assert_eq!(error("Relu(x)"), "some.txt, line 1: expected a `=` and a spelling");
        assert_eq!(error("Relu(x = Max(x, 0)"), "some.txt, line 1: expected `,` or `)`");
        assert_eq!(error("Relu(x)\n = Max(x, -)"), "some.txt, line 2: expected a number");
    }

    #[test]
    fn words_have_meanings() {
        let error = |text: &str| compile(&[("some", text)]).unwrap_err();
        assert_eq!(error("Relu(x) = Maximum(x, 0)"), "`Maximum` is neither an operator nor a word");
        assert_eq!(error("Relu(x) = again(x) again(x) = again(x)"), "`again` refers to itself");
        assert_eq!(error("Relu(x) = most(x) most(x, y) = Max(x, y)"), "`most` takes 2 arguments");
        assert_eq!(error("Relu(x) = moved(x)"), "a spelling of `Relu` is not a node");
        assert_eq!(error("Relu(x) = even(x, y, @z)"), "`even` is a part of one value");
    }
}
