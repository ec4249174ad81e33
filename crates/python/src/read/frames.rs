//! Turns tracebacks into frames. Each distinct frame is looked up once.

use std::cell::RefCell;
use std::sync::Arc;

use provenance::{Frame, FrameId, FrameKind, Span, StackId, Stacks};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustc_hash::FxHashMap;

use super::files::{Files, LoadedTexts, UsedParts};
use super::{Address, address};
use crate::jax_names::{self, EINSUM, FUNCTION_FRAME, attr};

/// The tracebacks behind stack ids, and the known frames.
#[derive(Debug)]
pub(crate) struct Tracebacks(RefCell<Known>);

#[derive(Debug)]
struct Known {
    /// The tracebacks in the order of their stack ids.
    tracebacks: Vec<(StackId, Py<PyAny>, Part)>,
    parts: FxHashMap<(StackId, Part), StackId>,
    by_address: FxHashMap<Address, StackId>,
    frames: FxHashMap<(Address, i64), Resolved>,
    code: FxHashMap<Address, Code>,
    /// The code objects of the user's files.
    of_user: FxHashMap<Address, Py<PyAny>>,
    /// The user's functions of which only the definition matters, by path.
    definitions: FxHashMap<String, Vec<(String, u32)>>,
    files: Files,
}

/// The part of a traceback that a stack consists of: the frames inside the call of one function and
/// outside that of another, counted from the outermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Part {
    inside: Option<usize>,
    outside: Option<usize>,
}

/// The role of a frame in a traceback.
#[derive(Clone, Copy, Debug)]
enum Resolved {
    Frame(FrameId),
    /// A frame of this project, which does not concern the user.
    Hidden,
    /// The frame of this project between a function of the model and its caller.
    Function,
    /// The frame that traced the function. The frames after it belong to its caller.
    Boundary,
}

#[derive(Clone, Debug)]
struct Code {
    file: Arc<str>,
    path: Arc<str>,
    function: Arc<str>,
    kind: FrameKind,
    tracer: bool,
    calls: bool,
}

impl Tracebacks {
    pub(super) fn new(py: Python<'_>, absolute_paths: bool, packages: &[String]) -> PyResult<Self> {
        Ok(Self(RefCell::new(Known {
            tracebacks: Vec::new(),
            parts: FxHashMap::default(),
            by_address: FxHashMap::default(),
            frames: FxHashMap::default(),
            code: FxHashMap::default(),
            of_user: FxHashMap::default(),
            definitions: FxHashMap::default(),
            files: Files::new(py, absolute_paths, packages)?,
        })))
    }

    /// Returns the stack of a traceback object.
    pub(super) fn stack(&self, traceback: &Bound<'_, PyAny>, stacks: &mut Stacks) -> StackId {
        let mut known = self.0.borrow_mut();
        let known = &mut *known;
        *known.by_address.entry(address(traceback)).or_insert_with(|| {
            let id = stacks.reserve();
            known.tracebacks.push((id, traceback.clone().unbind(), Part::default()));
            id
        })
    }

    /// Returns `true` if `jnp.einsum` opened the innermost scope of a traceback: it called a
    /// function that runs in a scope.
    pub(super) fn is_in_einsum(&self, traceback: &Bound<'_, PyAny>) -> PyResult<bool> {
        let mut known = self.0.borrow_mut();
        let py = traceback.py();
        let (codes, _): (Bound<'_, PyList>, Bound<'_, PyAny>) =
            traceback.call_method0(attr::raw_frames(py))?.extract()?;
        let name = |code: &Bound<'_, PyAny>| -> PyResult<String> {
            code.getattr(attr::co_qualname(py))?.extract()
        };
        let mut is_scope = false;
        for code in codes.iter() {
            let function = name(&code)?;
            if is_scope {
                return Ok(function == EINSUM && known.code(&code)?.kind == FrameKind::Jax);
            }
            is_scope = jax_names::is_in_scope(&function);
        }
        Ok(false)
    }

    /// Returns the part of a stack inside the function call at one depth and outside the call at
    /// another.
    pub(super) fn part(
        &self,
        py: Python<'_>,
        stacks: &mut Stacks,
        stack: StackId,
        inside: Option<usize>,
        outside: Option<usize>,
    ) -> StackId {
        let mut known = self.0.borrow_mut();
        let known = &mut *known;
        let part = Part { inside, outside };
        let Some(at) = known.position(stack).filter(|_| part != Part::default()) else {
            return stack;
        };
        *known.parts.entry((stack, part)).or_insert_with(|| {
            let id = stacks.reserve();
            let traceback = known.tracebacks[at].1.clone_ref(py);
            known.tracebacks.push((id, traceback, part));
            id
        })
    }

    /// Returns a frame for the definition of a function: its file, name and first line.
    pub(crate) fn definition(
        &self,
        py: Python<'_>,
        (path, function, line): (String, String, u32),
    ) -> PyResult<Frame> {
        let mut known = self.0.borrow_mut();
        let (kind, file) = known.files.classify(py, &path)?;
        known.definitions.entry(path.clone()).or_default().push((function.clone(), line));
        let span = Span { line, column: 0, end_line: line, end_column: 0 };
        Ok(Frame { file: file.into(), path: path.into(), function: function.into(), span, kind })
    }

    /// Returns the texts of the user's files that stacks were resolved to.
    pub(crate) fn texts(&self, py: Python<'_>) -> PyResult<LoadedTexts> {
        let known = self.0.borrow();
        let mut offsets: FxHashMap<Address, Vec<i64>> = FxHashMap::default();
        for (code, instruction) in known.frames.keys() {
            offsets.entry(*code).or_default().push(*instruction);
        }
        let mut used: FxHashMap<&str, UsedParts> = FxHashMap::default();
        for (address, code) in &known.of_user {
            let (Some(about), Some(offsets)) = (known.code.get(address), offsets.remove(address))
            else {
                continue;
            };
            used.entry(&*about.path).or_default().0.push((code.clone_ref(py), offsets));
        }
        for (path, definitions) in &known.definitions {
            used.entry(path).or_default().1.clone_from(definitions);
        }
        known.files.texts(py, used)
    }

    /// Looks up the frames of every stack.
    pub(super) fn resolve_all(&self, py: Python<'_>, stacks: &mut Stacks) -> PyResult<()> {
        let mut known = self.0.borrow_mut();
        let tracebacks = std::mem::take(&mut known.tracebacks);
        for (id, traceback, part) in &tracebacks {
            known.resolve(*id, traceback.bind(py), *part, stacks)?;
        }
        known.tracebacks = tracebacks;
        Ok(())
    }

    /// Looks up the frames of one stack.
    pub(crate) fn resolve(
        &self,
        py: Python<'_>,
        stacks: &mut Stacks,
        stack: StackId,
    ) -> PyResult<()> {
        let mut known = self.0.borrow_mut();
        let Some(at) = known.position(stack) else {
            return Ok(());
        };
        let (_, traceback, part) = &known.tracebacks[at];
        let (traceback, part) = (traceback.clone_ref(py), *part);
        known.resolve(stack, traceback.bind(py), part, stacks)
    }
}

impl Known {
    fn position(&self, stack: StackId) -> Option<usize> {
        self.tracebacks.binary_search_by_key(&stack, |(id, ..)| *id).ok()
    }

    fn resolve(
        &mut self,
        stack: StackId,
        traceback: &Bound<'_, PyAny>,
        part: Part,
        stacks: &mut Stacks,
    ) -> PyResult<()> {
        let py = traceback.py();
        let (codes, instructions): (Bound<'_, PyList>, Vec<i64>) =
            traceback.call_method0(attr::raw_frames(py))?.extract()?;
        let mut frames = Vec::with_capacity(codes.len());
        let mut calls = Vec::new();
        for (code, instruction) in codes.iter().zip(instructions) {
            match self.frame(traceback, &code, instruction, stacks)? {
                Resolved::Frame(frame) => frames.push(frame),
                Resolved::Hidden => {}
                Resolved::Function => calls.push(frames.len()),
                Resolved::Boundary => break,
            }
        }
        let border = |depth: usize| calls.iter().rev().nth(depth).copied();
        let end = part.inside.and_then(border).unwrap_or(frames.len());
        let start = part.outside.and_then(border).filter(|start| *start <= end).unwrap_or(0);
        stacks.resolve(stack, &frames[start..end]);
        Ok(())
    }

    fn frame(
        &mut self,
        traceback: &Bound<'_, PyAny>,
        code: &Bound<'_, PyAny>,
        instruction: i64,
        stacks: &mut Stacks,
    ) -> PyResult<Resolved> {
        let key = (address(code), instruction);
        if let Some(known) = self.frames.get(&key) {
            return Ok(*known);
        }
        let Code { file, path, function, kind, tracer, calls } = self.code(code)?;
        let resolved = if tracer {
            Resolved::Boundary
        } else if calls {
            Resolved::Function
        } else if kind == FrameKind::Converter {
            Resolved::Hidden
        } else {
            let location = attr::code_addr2location(code.py());
            let location =
                traceback.get_type().call_method1(location, (code, instruction))?.extract()?;
            Resolved::Frame(stacks.intern(Frame {
                file,
                path,
                function,
                span: span(location),
                kind,
            }))
        };
        self.frames.insert(key, resolved);
        Ok(resolved)
    }

    fn code(&mut self, code: &Bound<'_, PyAny>) -> PyResult<Code> {
        if let Some(known) = self.code.get(&address(code)) {
            return Ok(known.clone());
        }
        let py = code.py();
        let path: String = code.getattr(attr::co_filename(py))?.extract()?;
        let function: String = code.getattr(attr::co_qualname(py))?.extract()?;
        let (kind, file) = self.files.classify(py, &path)?;
        let tracer = kind == FrameKind::Jax && jax_names::is_tracer(&function);
        let calls = kind == FrameKind::Converter && function == FUNCTION_FRAME;
        let (file, path, function) = (file.into(), path.into(), function.into());
        let read = Code { file, path, function, kind, tracer, calls };
        if kind == FrameKind::User {
            self.of_user.insert(address(code), code.clone().unbind());
        }
        self.code.insert(address(code), read.clone());
        Ok(read)
    }
}

fn span((line, column, end_line, end_column): (i64, i64, i64, i64)) -> Span {
    let positive = |n: i64| u32::try_from(n).unwrap_or(0);
    Span {
        line: positive(line),
        column: positive(column),
        end_line: positive(end_line),
        end_column: positive(end_column),
    }
}
