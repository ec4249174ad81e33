//! Turns tracebacks into frames. Each distinct frame is looked up once.

use std::borrow::Cow;
use std::cell::RefCell;
use std::sync::Arc;

use provenance::{Frame, FrameId, FrameKind, Span, StackId, Stacks};
use pyo3::prelude::*;
use pyo3::types::PyList;
use rustc_hash::FxHashMap;

use super::{Address, address};
use crate::jax_names::{
    self, CONVERTER_PACKAGE, FUNCTION_FRAME, JAX_PACKAGES, STANDARD_LIBRARY_MODULE, attr,
};

/// The tracebacks behind stack ids, and what is known about their frames.
#[derive(Debug)]
pub(crate) struct Tracebacks(RefCell<Known>);

#[derive(Debug)]
struct Known {
    /// In the order of their stack ids.
    tracebacks: Vec<(StackId, Py<PyAny>, Part)>,
    parts: FxHashMap<(StackId, Part), StackId>,
    by_address: FxHashMap<Address, StackId>,
    frames: FxHashMap<(Address, i64), Resolved>,
    code: FxHashMap<Address, Code>,
    roots: Roots,
}

/// Which frames of a traceback a stack consists of: those inside the call of one function and
/// outside that of another, counted from the outermost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Part {
    inside: Option<usize>,
    outside: Option<usize>,
}

/// What a frame of a traceback is.
#[derive(Clone, Copy, Debug)]
enum Resolved {
    Frame(FrameId),
    /// A frame of this project, which does not concern the user.
    Hidden,
    /// The frame of this project between a function of the model and its caller.
    Function,
    /// The frame that traced the function: what follows belongs to its caller.
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
    pub(super) fn new(py: Python<'_>, absolute_paths: bool) -> PyResult<Self> {
        Ok(Self(RefCell::new(Known {
            tracebacks: Vec::new(),
            parts: FxHashMap::default(),
            by_address: FxHashMap::default(),
            frames: FxHashMap::default(),
            code: FxHashMap::default(),
            roots: Roots::find(py, absolute_paths)?,
        })))
    }

    /// The stack of a traceback object.
    pub(super) fn stack(&self, traceback: &Bound<'_, PyAny>, stacks: &mut Stacks) -> StackId {
        let mut known = self.0.borrow_mut();
        let known = &mut *known;
        *known.by_address.entry(address(traceback)).or_insert_with(|| {
            let id = stacks.reserve();
            known.tracebacks.push((id, traceback.clone().unbind(), Part::default()));
            id
        })
    }

    /// The part of a stack that is inside the call of the function at one depth and outside the one
    /// at another.
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

    /// The frame that represents the definition of a function: its file, name and first line.
    pub(crate) fn definition(&self, (path, function, line): (String, String, u32)) -> Frame {
        let (kind, file) = self.0.borrow().roots.classify(&path);
        let span = Span { line, column: 0, end_line: line, end_column: 0 };
        Frame { file: file.into(), path: path.into(), function: function.into(), span, kind }
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
        let (kind, file) = self.roots.classify(&path);
        let tracer = kind == FrameKind::Jax && jax_names::is_tracer(&function);
        let calls = kind == FrameKind::Converter && function == FUNCTION_FRAME;
        let (file, path, function) = (file.into(), path.into(), function.into());
        let read = Code { file, path, function, kind, tracer, calls };
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

/// The folders that show whose code a file is.
#[derive(Debug)]
struct Roots {
    absolute: bool,
    working: String,
    jax: Vec<String>,
    converter: Option<String>,
    standard: Option<String>,
}

impl Roots {
    fn find(py: Python<'_>, absolute: bool) -> PyResult<Self> {
        let folder = |module: &str| -> PyResult<Option<String>> {
            let file: Option<String> = py.import(module)?.getattr(attr::__file__(py))?.extract()?;
            Ok(file.as_deref().and_then(|f| f.rsplit_once('/')).map(|(dir, _)| format!("{dir}/")))
        };
        let jax = JAX_PACKAGES.iter().map(|m| folder(m)).collect::<PyResult<Vec<_>>>()?;
        let working = std::env::current_dir().unwrap_or_default();
        Ok(Self {
            absolute,
            working: format!("{}/", working.display()),
            jax: jax.into_iter().flatten().collect(),
            converter: folder(CONVERTER_PACKAGE)?,
            standard: folder(STANDARD_LIBRARY_MODULE)?,
        })
    }

    /// Whose code a file is, and the name under which it is recorded.
    fn classify(&self, path: &str) -> (FrameKind, String) {
        let (kind, relative) = self.relative(&without_detours(path));
        (kind, if self.absolute { path.to_owned() } else { relative })
    }

    /// Whose code a file is, and a name that reveals nothing about the machine: never an absolute
    /// path.
    fn relative(&self, path: &str) -> (FrameKind, String) {
        const INSTALLED: [&str; 2] = ["/site-packages/", "/dist-packages/"];
        let installed =
            INSTALLED.iter().find_map(|dir| path.rsplit_once(dir)).map(|(_, rest)| rest);
        let under = |root: &String| path.starts_with(root.as_str());
        let from_package = |root: &str| {
            let parent = root.trim_end_matches('/').rsplit_once('/');
            path[parent.map_or(0, |(dir, _)| dir.len() + 1)..].to_owned()
        };
        if let Some(root) = self.converter.as_ref().filter(|root| under(root)) {
            return (FrameKind::Converter, from_package(root));
        }
        if let Some(root) = self.jax.iter().find(|root| under(root)) {
            return (FrameKind::Jax, from_package(root));
        }
        if let Some(rest) = installed {
            return (FrameKind::Library, rest.to_owned());
        }
        if path.starts_with("<frozen ") {
            return (FrameKind::Library, path.to_owned());
        }
        if let Some(root) = self.standard.as_ref().filter(|root| under(root)) {
            return (FrameKind::Library, path[root.len()..].to_owned());
        }
        let relative = path.strip_prefix(&self.working);
        let shown = relative.unwrap_or_else(|| path.rsplit('/').next().unwrap_or(path));
        (FrameKind::User, shown.to_owned())
    }
}

/// A path without `.` and `..`, which would lead out of the folder that it starts with.
fn without_detours(path: &str) -> Cow<'_, str> {
    if !path.starts_with('/') || !path.split('/').any(|part| matches!(part, "." | "..")) {
        return Cow::Borrowed(path);
    }
    let mut parts = Vec::new();
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    Cow::Owned(format!("/{}", parts.join("/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_are_not_recorded() {
        let roots = Roots {
            absolute: false,
            working: "/home/me/project/".into(),
            jax: vec!["/py/site-packages/jax/".into(), "/src/jaxlib/".into()],
            converter: Some("/home/me/src/jax2onnx/".into()),
            standard: Some("/py/lib/".into()),
        };
        let classify = |path| roots.classify(path);
        let own = |kind, text: &str| (kind, text.to_owned());
        assert_eq!(classify("/home/me/project/a/b.py"), own(FrameKind::User, "a/b.py"));
        assert_eq!(classify("/elsewhere/c.py"), own(FrameKind::User, "c.py"));
        assert_eq!(classify("/home/me/project/../../bob/c.py"), own(FrameKind::User, "c.py"));
        assert_eq!(classify("/home/me/x/../project/./a/b.py"), own(FrameKind::User, "a/b.py"));
        assert_eq!(classify("../../bob/c.py"), own(FrameKind::User, "c.py"));
        assert_eq!(classify("<stdin>"), own(FrameKind::User, "<stdin>"));
        assert_eq!(classify("/py/site-packages/jax/x.py"), own(FrameKind::Jax, "jax/x.py"));
        assert_eq!(classify("/src/jaxlib/x.py"), own(FrameKind::Jax, "jaxlib/x.py"));
        assert_eq!(classify("/py/site-packages/flax/x.py"), own(FrameKind::Library, "flax/x.py"));
        assert_eq!(classify("/py/lib/functools.py"), own(FrameKind::Library, "functools.py"));
        let converter = classify("/home/me/src/jax2onnx/x.py");
        assert_eq!(converter, own(FrameKind::Converter, "jax2onnx/x.py"));
    }
}
