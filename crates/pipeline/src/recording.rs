//! Recordings: a program as text together with all settings of its conversion, so that it can be
//! converted again without Python, and sent with a bug report.

use std::collections::BTreeMap;
use std::sync::Arc;

use jaxpr::text::{Document, Printed, TextError};
use jaxpr::{FromParam, Param, ParamError, Params, Program};
use lower::Boundary;
use onnx::Assumptions;
use optimize::Forms;
use optimize::compute::Compute;
use optimize::weights::Weights;
use provenance::{Detail, Frame, FrameKind, Origins, Sources, Span, StackId, Stacks, WEIGHTS};
use tensor::{DType, Type};

use crate::{Converted, Error, Lines, Options, Target, convert};

/// A program, and the settings of its conversion.
#[derive(Debug)]
pub struct Recording {
    /// The program.
    pub program: Program,
    /// The names and layouts of its inputs and outputs.
    pub boundary: Boundary,
    /// The settings of the conversion.
    pub options: Options,
    /// The source lines of the program.
    pub stacks: Stacks,
    /// The arrays whose values are missing, with the parameter names if they have one.
    pub elided: Vec<(Option<Arc<str>>, Type)>,
    entry: Option<StackId>,
    function: Option<Frame>,
    embed_sources: bool,
}

/// An error while reading a recording.
#[derive(Debug, thiserror::Error)]
pub enum RecordingError {
    /// The text is not a program.
    #[error("{0}")]
    Text(#[from] TextError),
    /// The header before the program cannot be read.
    #[error("`model[…]`: {0}")]
    Header(#[from] ParamError),
    /// An unknown field.
    #[error("`model[…]` has no field `{0}`; there are: {fields}", fields = FIELDS.join(", "))]
    Field(Arc<str>),
    /// The conversion used rules that users wrote, which are Python functions.
    #[error("{} lowered by rules written in Python, which a recording does not hold", are(.0))]
    External(Vec<Arc<str>>),
    /// Not every input or output has a name.
    #[error("`model[…]`: the number of names is {names}, but the number of {side} is {count}")]
    Names {
        /// The word "inputs" or "outputs".
        side: &'static str,
        /// The number of names.
        names: usize,
        /// The expected number of names.
        count: usize,
    },
}

const FIELDS: [&str; 20] = [
    "made_by",
    "name",
    "inputs",
    "outputs",
    "inputs_as_nchw",
    "outputs_as_nchw",
    "input_types",
    "output_types",
    "true_by_default",
    "false_by_default",
    "opset",
    "target",
    "operators",
    "compute",
    "weights",
    "assume",
    "stacktrace",
    "source_map",
    "source_text",
    "function",
];

/// Prints the recording of a conversion before it starts. Without `weights`, the values of
/// parameters and of other large arrays are left out.
pub fn record(
    program: &Program,
    boundary: &Boundary,
    options: &Options,
    lines: &Lines<'_>,
    weights: bool,
) -> String {
    let text = |text: &str| Param::Str(text.into());
    let texts = |all: &[String]| Param::List(all.iter().map(|one| text(one)).collect());
    let positions = |all: &[usize]| {
        Param::List(all.iter().filter_map(|one| i64::try_from(*one).ok()).map(Param::Int).collect())
    };
    let types = |all: &BTreeMap<usize, DType>| match all.keys().next_back() {
        None => Param::None,
        Some(last) => {
            let name = |i| all.get(&i).map_or(Param::None, |dtype| text(dtype.numpy_name()));
            Param::List((0..=*last).map(name).collect())
        }
    };
    let values = [
        text(concat!("jax2onnx ", env!("CARGO_PKG_VERSION"))),
        text(&boundary.model_name),
        texts(&boundary.input_names),
        texts(&boundary.output_names),
        positions(&boundary.inputs_as_nchw),
        positions(&boundary.outputs_as_nchw),
        types(&boundary.input_types),
        types(&boundary.output_types),
        positions(&with_default(boundary, true)),
        positions(&with_default(boundary, false)),
        options.opset.map_or(Param::None, Param::Int),
        if options.target == Target::default() { Param::None } else { text(options.target.name) },
        options.forms.to_text().map_or(Param::None, |forms| text(&forms)),
        options.compute.to_text().map_or(Param::None, |compute| text(&compute)),
        options.weights.to_text().map_or(Param::None, |weights| text(&weights)),
        match options.lowering.assumptions.to_string() {
            none if none.is_empty() => Param::None,
            some => text(&some),
        },
        text(options.detail.as_str()),
        Param::Bool(options.source_map),
        Param::Bool(lines.sources.embed),
        lines.function.map_or(Param::None, |frame| Param::Fields(definition(frame))),
    ];
    let header = Params(FIELDS.iter().map(|name| (*name).into()).zip(values).collect());
    let (stacks, entry) = (Some(lines.stacks), lines.entry);
    jaxpr::text::print(&Printed { header: &header, program, stacks, entry, weights })
}

fn definition(frame: &Frame) -> Vec<(Arc<str>, Param)> {
    vec![
        ("file".into(), Param::Str(Arc::clone(&frame.file))),
        ("name".into(), Param::Str(Arc::clone(&frame.function))),
        ("line".into(), Param::Int(i64::from(frame.span.line))),
        ("kind".into(), Param::Str(frame.kind.as_str().into())),
    ]
}

impl Recording {
    /// Parses a recording. Arrays whose values are missing may take `limit` bytes.
    pub fn parse(text: &str, limit: usize) -> Result<Self, RecordingError> {
        let Document { header, program, stacks, entry, elided, external } =
            jaxpr::text::parse(text, limit)?;
        if !external.is_empty() {
            return Err(RecordingError::External(external));
        }
        if let Some((name, _)) = header.0.iter().find(|(name, _)| !FIELDS.contains(&&**name)) {
            return Err(RecordingError::Field(Arc::clone(name)));
        }
        let boundary = boundary(&header, &program)?;
        let detail: Option<Arc<str>> = field(&header, "stacktrace")?;
        let detail = detail.map_or(Ok(Detail::Off), |word| {
            word.parse().map_err(|_| wrong("stacktrace", "off, minimal, full or sourcemap", &word))
        })?;
        let opset = field(&header, "opset")?;
        let target: Option<Arc<str>> = field(&header, "target")?;
        let target = target.map_or(Ok(Target::default()), |name| {
            Target::find(&name).ok_or_else(|| wrong("target", "the name of a target", &name))
        })?;
        let forms: Option<Arc<str>> = field(&header, "operators")?;
        let forms = forms.as_deref().unwrap_or_default();
        let forms = Forms::parse(forms, opset.unwrap_or(target.opset))
            .ok_or_else(|| wrong("operators", "forms such as `Gelu=native`", forms))?;
        let compute: Option<Arc<str>> = field(&header, "compute")?;
        let compute = compute.as_deref().unwrap_or_default();
        let compute = Compute::parse(compute)
            .ok_or_else(|| wrong("compute", "precisions such as `*=float16`", compute))?;
        let formats: Option<Arc<str>> = field(&header, "weights")?;
        let formats = formats.as_deref().unwrap_or_default();
        let weights = Weights::parse(formats)
            .ok_or_else(|| wrong("weights", "formats such as `*=int4:32`", formats))?;
        let assumed: Option<Arc<str>> = field(&header, "assume")?;
        let assumptions = Assumptions::parse(assumed.as_deref().unwrap_or_default())
            .map_err(|name| wrong("assume", "names of assumptions", name))?;
        let options = Options {
            opset,
            target,
            forms,
            compute,
            weights,
            lowering: lower::Options { assumptions, ..lower::Options::default() },
            detail,
            source_map: field(&header, "source_map")?.unwrap_or_default(),
            ..Options::default()
        };
        let embed_sources = field(&header, "source_text")?.unwrap_or_default();
        let function = field(&header, "function")?.map(|fields| frame(&fields)).transpose()?;
        Ok(Self { program, boundary, options, stacks, elided, entry, function, embed_sources })
    }

    /// Converts the program. `sources` reads the user's files, for their digests.
    pub fn convert(
        &mut self,
        sources: Option<&provenance::ReadText<'_>>,
        origins: &mut Origins,
    ) -> Result<Converted, Error> {
        if !self.elided.is_empty() {
            let note = match self.elided.len() {
                1 => "1 array has made-up values".to_owned(),
                count => format!("{count} arrays have made-up values"),
            };
            self.options.metadata = vec![(WEIGHTS.to_owned(), note)];
        }
        let Self { program, boundary, options, stacks, entry, function, .. } = self;
        let sources =
            Sources { text: sources, library: None, embed: self.embed_sources, edited: &[] };
        let lines = Lines { stacks, entry: *entry, function: function.as_ref(), sources };
        convert(program, boundary, options, &lines, origins)
    }
}

fn boundary(header: &Params, program: &Program) -> Result<Boundary, RecordingError> {
    let main = program.main.map(|main| program.jaxpr(main));
    let counts = main.map_or((0, 0), |main| (main.inputs.len(), main.outputs.len()));
    let names = |name: &'static str, letter: &str, count: usize| {
        let given: Option<Vec<Arc<str>>> = field(header, name)?;
        let names: Vec<String> = match given {
            Some(names) => names.iter().map(ToString::to_string).collect(),
            None => (0..count).map(|i| format!("{letter}{i}")).collect(),
        };
        match names.len() == count {
            true => Ok(names),
            false => Err(RecordingError::Names { side: name, names: names.len(), count }),
        }
    };
    let model_name: Option<Arc<str>> = field(header, "name")?;
    Ok(Boundary {
        model_name: model_name.map_or_else(|| "jax_model".to_owned(), |name| name.to_string()),
        input_names: names("inputs", "x", counts.0)?,
        output_names: names("outputs", "y", counts.1)?,
        inputs_as_nchw: field(header, "inputs_as_nchw")?.unwrap_or_default(),
        outputs_as_nchw: field(header, "outputs_as_nchw")?.unwrap_or_default(),
        input_types: types(header, "input_types")?,
        output_types: types(header, "output_types")?,
        defaults: defaults(header)?,
    })
}

/// Returns the inputs whose default is `value`.
fn with_default(boundary: &Boundary, value: bool) -> Vec<usize> {
    boundary.defaults.iter().filter(|(_, default)| **default == value).map(|(i, _)| *i).collect()
}

fn defaults(header: &Params) -> Result<BTreeMap<usize, bool>, ParamError> {
    let listed = |name: &'static str, value: bool| {
        let inputs: Vec<usize> = field(header, name)?.unwrap_or_default();
        Ok::<_, ParamError>(inputs.into_iter().map(move |i| (i, value)))
    };
    // An input in both lists is true by default.
    Ok(listed("false_by_default", false)?.chain(listed("true_by_default", true)?).collect())
}

/// Returns the element types that a field lists by position.
fn types(header: &Params, name: &str) -> Result<BTreeMap<usize, DType>, ParamError> {
    let listed: Option<Vec<Option<Arc<str>>>> = field(header, name)?;
    let named = listed.iter().flatten().enumerate();
    let named = named.filter_map(|(i, dtype)| Some((i, dtype.as_deref()?)));
    named
        .map(|(i, dtype)| match DType::from_numpy_name(dtype) {
            Some(found) => Ok((i, found)),
            None => Err(wrong(name, "element types", dtype)),
        })
        .collect()
}

/// Returns a field of the header, or `None` if it is missing or `None`.
fn field<T: FromParam>(header: &Params, name: &str) -> Result<Option<T>, ParamError> {
    if header.raw(name).is_some() { header.get(name) } else { Ok(None) }
}

fn wrong(name: &str, expected: &'static str, found: &str) -> ParamError {
    ParamError { name: name.to_owned(), expected, found: format!("`{found}`") }
}

fn frame(fields: &Params) -> Result<Frame, ParamError> {
    let file: Arc<str> = fields.get("file")?;
    let line = fields.get::<i64>("line")?;
    let line = u32::try_from(line).map_err(|_| wrong("line", "a line", &line.to_string()))?;
    let word: Arc<str> = fields.get("kind")?;
    let kind = FrameKind::from_word(&word)
        .ok_or_else(|| wrong("kind", "user, library, jax or converter", &word))?;
    let span = Span { line, column: 0, end_line: line, end_column: 0 };
    Ok(Frame { path: Arc::clone(&file), file, function: fields.get("name")?, span, kind })
}

fn are(names: &[Arc<str>]) -> String {
    let texts: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    format!("{} {}", texts.join(", "), if names.len() == 1 { "is" } else { "are" })
}
