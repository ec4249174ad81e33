//! The source map, for Python.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use cli::{Fused, Lookup, OptimizedNode, source_map_of};
use pipeline::Family;
use provenance::{Diagnostic, MapFrame};
use pyo3::prelude::*;

use crate::error::{raise, writing};

/// The maximum size of a map that is read, far beyond that of any real model.
const LARGEST: u64 = 1 << 28;

/// A frame of a call stack.
#[pyclass(frozen, get_all, module = "jax2onnx._core")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// The file, relative to the working directory of the export or to its package's folder.
    file: String,
    /// The line, counted from 1.
    line: u32,
    /// The column, counted from 0.
    column: u32,
    /// The last line of the expression.
    end_line: u32,
    /// The column after the end of the expression.
    end_column: u32,
    /// The function's qualified name.
    function: String,
    /// The owner of the code: `user`, `library` or `jax`.
    kind: &'static str,
}

impl Frame {
    fn new(frame: &MapFrame<'_>) -> Self {
        Self {
            file: frame.file.to_owned(),
            line: frame.span.line,
            column: frame.span.column,
            end_line: frame.span.end_line,
            end_column: frame.span.end_column,
            function: frame.function.to_owned(),
            kind: frame.kind().as_str(),
        }
    }
}

#[pymethods]
impl Frame {
    fn __repr__(&self) -> String {
        format!("{}:{}:{} in {}", self.file, self.line, self.column, self.function)
    }
}

/// One source of a node.
#[pyclass(frozen, get_all, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct Source {
    /// The frame in the user's code. `None` if the node is one of several in an optimised model
    /// that nothing tells apart.
    site: Option<Frame>,
    /// The module instance, such as `blocks.3/attn`.
    scope: String,
    /// The rule or rewrite that emitted the node.
    rule: String,
    /// All frames, innermost first, through every enclosing call.
    stack: Vec<Frame>,
    /// The stacks of other calls of the functions that contain the node, if the call is ambiguous.
    callers: Vec<Vec<Frame>>,
    /// All candidates for `site`. There are several if the node is ambiguous, or if the function
    /// call is ambiguous and the function itself has no line of the user's code.
    sites: Vec<Frame>,
    /// `True` if the node does not compute this operation, which had no effect or became a part of
    /// the node's layout.
    idle: bool,
}

impl Source {
    fn new(source: provenance::Source<'_>) -> Self {
        let frames = |stack: &[MapFrame<'_>]| stack.iter().map(Frame::new).collect::<Vec<_>>();
        let others = source.others.iter().filter_map(|other| other.site.as_ref());
        let mut sites: Vec<&MapFrame<'_>> = Vec::new();
        for site in source.site.iter().chain(others) {
            if !sites.contains(&site) {
                sites.push(site);
            }
        }
        Self {
            site: source.site.as_ref().map(Frame::new),
            sites: sites.into_iter().map(Frame::new).collect(),
            stack: frames(&source.stack),
            callers: source
                .others
                .iter()
                .map(|other| frames(&other.stack[other.inside..]))
                .collect(),
            scope: source.scope.into_owned(),
            rule: source.rule,
            idle: source.is_idle,
        }
    }

    /// Returns the one source of a node that has one of these sources, which is unknown. Only what
    /// they have in common is known.
    fn one_of(sources: Vec<provenance::Source<'_>>) -> Option<Self> {
        let mut sources = sources.into_iter().map(Self::new);
        let mut common = sources.next()?;
        for other in sources {
            for site in other.sites {
                if !common.sites.contains(&site) {
                    common.sites.push(site);
                }
            }
            if common.scope != other.scope {
                common.scope.clear();
            }
            common.idle &= other.idle;
            if common.rule != other.rule {
                common.rule.clear();
            }
            if common.stack != other.stack {
                common.stack.clear();
                common.callers.clear();
            }
        }
        let is_same_line =
            |site: &Frame, other: &Frame| (&site.file, site.line) == (&other.file, other.line);
        if let Some(site) = &common.site
            && !common.sites.iter().all(|other| is_same_line(site, other))
        {
            common.site = None;
        }
        Some(common)
    }
}

#[pymethods]
impl Source {
    fn __repr__(&self) -> String {
        let sites: Vec<String> = match &self.site {
            Some(site) => vec![site.__repr__()],
            None => self.sites.iter().map(Frame::__repr__).collect(),
        };
        let site = if sites.is_empty() { "?".to_owned() } else { sites.join(" or ") };
        format!("{site} ({}, {})", self.scope, self.rule)
    }
}

/// A node, as Python describes it.
type Node = (String, String, usize, Vec<String>, Vec<String>);

/// The source locations of a model's nodes.
#[pyclass(frozen, module = "jax2onnx._core")]
#[derive(Debug)]
pub(crate) struct SourceMap {
    map: provenance::SourceMap,
    /// The digest of its text, unless it was found by means of its model.
    #[pyo3(get)]
    digest: Option<String>,
}

impl SourceMap {
    fn of_text(text: &str) -> Result<Self, provenance::SourceMapError> {
        let map = provenance::SourceMap::parse(text)?;
        Ok(Self { map, digest: Some(provenance::digest(text.as_bytes())) })
    }
}

#[pymethods]
impl SourceMap {
    /// Reads the text of a map.
    #[staticmethod]
    fn parse(py: Python<'_>, text: &str) -> PyResult<Self> {
        Self::of_text(text).map_err(|error| invalid(py, error.to_string()))
    }

    /// Reads a map file, or the map inside a model file or beside it.
    #[staticmethod]
    fn read(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        let shown = path.display();
        let failed = |source| writing(py, onnx_file::Error::Io { path: path.clone(), source });
        match source_map_of(&path) {
            Ok(Ok(map)) => Ok(Self { map, digest: None }),
            Ok(Err(why)) => Err(invalid(py, format!("{shown}: {why}"))),
            Err(error @ onnx_file::Error::Io { .. }) => Err(writing(py, error)),
            Err(error) => {
                let mut text = Vec::new();
                let file = File::open(&path).map_err(failed)?;
                file.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
                let text = str::from_utf8(&text).ok().filter(|text| !text.is_empty());
                let map = text.and_then(|text| Self::of_text(text).ok());
                map.ok_or_else(|| invalid(py, format!("{shown}: {error}")))
            }
        }
    }

    /// Returns the sources of the node that computes the value `name`, or is named `name`; its own
    /// source comes first.
    fn lookup(&self, name: &str) -> Vec<Source> {
        let sources =
            self.map.find(name).map(|node| self.map.sources(node, &[])).unwrap_or_default();
        sources.into_iter().map(Source::new).collect()
    }

    /// Returns the sources of the nodes of a model that a runtime may have optimised. Each node is
    /// given by its name, its operator, the number of the graph or function that contains it, and the names that
    /// it reads and writes.
    fn lookup_nodes(&self, nodes: Vec<Node>) -> Vec<Vec<Source>> {
        let optimized = nodes.iter().map(|(name, op, body, inputs, outputs)| OptimizedNode {
            name,
            op,
            body: *body,
            inputs,
            outputs,
        });
        let fused = Fused::new(&self.map, optimized.collect());
        let sources = |node| match fused.possible_sources(node) {
            (sources, true) => Source::one_of(sources).into_iter().collect(),
            (sources, false) => sources.into_iter().map(Source::new).collect(),
        };
        (0..nodes.len()).map(sources).collect()
    }

    /// Returns the names of the nodes, in the order of the map.
    fn names(&self) -> Vec<&str> {
        (0..self.map.len()).filter_map(|node| self.map.node_name(node)).collect()
    }

    /// Returns the number of nodes in the map.
    fn __len__(&self) -> usize {
        self.map.len()
    }
}

fn invalid(py: Python<'_>, message: String) -> PyErr {
    let help = Some(
        "export it with jax2onnx.export or stacktrace_metadata=\"sourcemap\", or pass the map file"
            .to_owned(),
    );
    let diagnostic = Diagnostic { code: "no-source-map", message, places: vec![], help };
    raise(py, Family::InvalidInput, &diagnostic)
}
