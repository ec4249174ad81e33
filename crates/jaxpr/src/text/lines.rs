//! The source lines of equations, to and from text.
//!
//! ```text
//! frames
//!   0 user "model.py" "MLP.__call__" 41:8 41:30
//!   1 user "train.py" "main" 9:0 9:12
//! links
//!   0 1
//!   1 0 from 0
//! stacks
//!   #0 1
//! entry #0
//! ```
//!
//! A link is a frame and the link that called it; a stack begins at a link. Stacks with equal
//! frames are still different stacks: equations that share a stack come from one position in the
//! program.

use std::fmt::Write as _;

use indexmap::IndexSet;
use provenance::{Frame, FrameId, FrameKind, LinkId, Span, StackId, Stacks};
use rustc_hash::{FxBuildHasher, FxHashMap};

use super::jaxpr::Parser;
use super::token::{Token, quoted};
use tokens::{Read, fail};

/// Stacks by their numbers in the text.
#[derive(Debug, Default)]
pub(super) struct Numbered(FxHashMap<u64, StackId>);

impl Numbered {
    pub(super) fn stack(&mut self, number: u64, stacks: &mut Stacks) -> StackId {
        *self.0.entry(number).or_insert_with(|| stacks.reserve())
    }
}

impl Parser<'_> {
    /// Parses the sections after the program.
    pub(super) fn lines(&mut self) -> Read<()> {
        let mut frames = FxHashMap::default();
        let mut links = FxHashMap::default();
        if self.eat_word("frames")? {
            while let Token::Number(_) = self.token {
                let (at, number) = self.integer("the number of a frame")?;
                let frame = self.frame()?;
                let id = self.document.stacks.intern(frame);
                if frames.insert(number, id).is_some() {
                    return fail(at, format!("frame {number} is defined twice"));
                }
            }
        }
        if self.eat_word("links")? {
            while let Token::Number(_) = self.token {
                self.link(&frames, &mut links)?;
            }
        }
        if self.eat_word("stacks")? {
            while self.eat('#')? {
                let (_, number) = self.integer("the number of a stack")?;
                let stack = self.stacks.stack(number, &mut self.document.stacks);
                let link = self.known("a link", &links)?;
                self.document.stacks.begin(stack, link);
            }
        }
        if self.eat_word("entry")? {
            self.expect('#')?;
            let (_, number) = self.integer("the number of a stack")?;
            self.document.entry = Some(self.stacks.stack(number, &mut self.document.stacks));
        }
        Ok(())
    }

    fn known<T: Copy>(&mut self, what: &str, known: &FxHashMap<u64, T>) -> Read<T> {
        let (at, number) = self.integer(&format!("the number of {what}"))?;
        match known.get(&number) {
            Some(found) => Ok(*found),
            None => fail(at, format!("{what} {number} is not defined")),
        }
    }

    /// Parses a link, such as `1 0 from 0`: number, frame and caller.
    fn link(
        &mut self,
        frames: &FxHashMap<u64, FrameId>,
        links: &mut FxHashMap<u64, LinkId>,
    ) -> Read<()> {
        let (at, number) = self.integer("the number of a link")?;
        let frame = self.known("a frame", frames)?;
        let caller = if self.eat_word("from")? { Some(self.known("a link", links)?) } else { None };
        let link = self.document.stacks.chain(frame, caller);
        match links.insert(number, link) {
            None => Ok(()),
            Some(_) => fail(at, format!("link {number} is defined twice")),
        }
    }

    /// Parses a frame, such as `user "model.py" "f" 41:8 41:30`.
    fn frame(&mut self) -> Read<Frame> {
        let kind = match self.token {
            Token::Word(word) => FrameKind::from_word(word),
            _ => None,
        };
        let Some(kind) = kind else {
            return self.unexpected("one of user, library, jax and converter");
        };
        self.advance()?;
        let file = self.quoted("a file in quotes")?;
        let function = self.quoted("a function in quotes")?;
        let (line, column) = self.position()?;
        let (end_line, end_column) = self.position()?;
        let span = Span { line, column, end_line, end_column };
        Ok(Frame { path: file.clone(), file, function, span, kind })
    }

    fn position(&mut self) -> Read<(u32, u32)> {
        let (at, line) = self.integer("a line")?;
        self.expect(':')?;
        let (_, column) = self.integer("a column")?;
        match (u32::try_from(line), u32::try_from(column)) {
            (Ok(line), Ok(column)) => Ok((line, column)),
            _ => fail(at, "the position is out of range"),
        }
    }
}

/// A writer that numbers stacks and prints the numbered ones.
#[derive(Debug)]
pub(super) struct Writer<'a> {
    stacks: &'a Stacks,
    /// The stacks in the order of their numbers.
    used: Numbers<StackId>,
}

/// Items in the order of their first occurrence.
type Numbers<T> = IndexSet<T, FxBuildHasher>;

impl<'a> Writer<'a> {
    pub(super) fn new(stacks: &'a Stacks) -> Self {
        Self { stacks, used: Numbers::default() }
    }

    /// Returns the number of a stack, and assigns one on first use.
    pub(super) fn number(&mut self, stack: StackId) -> usize {
        self.used.insert_full(stack).0
    }

    /// Prints the sections after the program.
    pub(super) fn sections(mut self, entry: Option<StackId>) -> String {
        let entry = entry.map(|stack| self.number(stack));
        let mut frames = Numbers::<&Frame>::default();
        let mut links = Numbers::<LinkId>::default();
        let mut sections = [String::new(), String::new(), String::new()];
        for (number, stack) in self.used.iter().enumerate() {
            // Callers come before their callees.
            let mut fresh = Vec::new();
            let mut next = self.stacks.link(*stack);
            let first = next;
            while let Some(link) = next.filter(|link| !links.contains(link)) {
                fresh.push(link);
                next = self.stacks.follow(link).and_then(|(_, caller)| caller);
            }
            for link in fresh.into_iter().rev() {
                let Some((frame, caller)) = self.stacks.follow(link) else { continue };
                let (at, is_new) = frames.insert_full(frame);
                if is_new {
                    write_frame(&mut sections[0], at, frame);
                }
                let (number, _) = links.insert_full(link);
                // Writing to a string cannot fail.
                let _ = write!(sections[1], "\n  {number} {at}");
                if let Some(caller) = caller {
                    let _ = write!(sections[1], " from {}", links.insert_full(caller).0);
                }
            }
            if let Some(first) = first {
                let _ = write!(sections[2], "\n  #{number} {}", links.insert_full(first).0);
            }
        }
        let mut text = String::new();
        for (title, section) in ["frames", "links", "stacks"].iter().zip(&sections) {
            if !section.is_empty() {
                let _ = writeln!(text, "{title}{section}");
            }
        }
        if let Some(entry) = entry {
            let _ = writeln!(text, "entry #{entry}");
        }
        text
    }
}

fn write_frame(text: &mut String, number: usize, frame: &Frame) {
    let Span { line, column, end_line, end_column } = frame.span;
    let kind = frame.kind.as_str();
    let (file, function) = (quoted(&frame.file), quoted(&frame.function));
    // Writing to a string cannot fail.
    let _ = write!(
        text,
        "\n  {number} {kind} {file} {function} {line}:{column} {end_line}:{end_column}"
    );
}
