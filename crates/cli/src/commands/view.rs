//! `jax2onnx view`: a page with the source on the left and the graph on the right.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;

use super::profile::known;
use crate::diff::{Side, compare};
use crate::excerpt::Excerpts;
use crate::failure::{Failure, Status};
use crate::limits::PAGE;
use crate::model::{FrameOptions, Frames, Index, Model};
use crate::outputs::{keep_apart, weights};
use crate::profile::{read, share};
use crate::table::count;
use crate::terminal::Terminal;
use crate::view::{Editor, Errors, Other, Subject, Timed, data, page};

/// Writes an HTML page that shows the source beside the graph.
///
/// The page links each line to its nodes, and each node to its line.
///
/// The page is self-contained and makes no network requests. It includes the text of the model's
/// source files if they can be found. For weights, it shows the mean, the standard deviation and a
/// histogram; large weights are sampled.
#[derive(Debug, Args)]
#[command(after_help = "\
The page's address reflects the selection: `model.html#node=/blocks.0/attn/Softmax`
opens the page at a node, `model.html#model.py:41` at a line. `explain`, `profile` and
`verify` print such links with `--page model.html`.

Examples:
  jax2onnx view model.onnx --open                writes model.html
  jax2onnx view model.onnx -o model.html --profile profile.json --skip 1
  jax2onnx view before.onnx --against after.onnx -o changes.html
  jax2onnx verify int8.onnx --reference model.onnx --json > errors.json
  jax2onnx view int8.onnx -o int8.html --errors errors.json")]
pub(crate) struct View {
    /// The model file. Its weights are sampled, not loaded.
    model: PathBuf,
    /// The file to write the page to. Default: the model's name with `.html`, beside the model.
    #[arg(short, long, value_name = "FILE.html")]
    out: Option<PathBuf>,
    /// An onnxruntime profile, shown as colours and as a flame graph.
    #[arg(long, value_name = "FILE.json")]
    profile: Option<PathBuf>,
    /// Skip this number of warm-up runs of the profile.
    #[arg(long, value_name = "RUNS", default_value_t = 0, requires = "profile")]
    skip: usize,
    /// The output of `verify --json`. Each line's contribution to the error is shown as a colour.
    #[arg(long, value_name = "FILE.json")]
    errors: Option<PathBuf>,
    /// A newer model. The page shows its changes, as `diff` does.
    #[arg(long, value_name = "MODEL")]
    against: Option<PathBuf>,
    /// Do not compare the contents of parameters.
    #[arg(long, requires = "against")]
    no_weights: bool,
    #[command(flatten)]
    frames: FrameOptions,
    /// Open the page in the browser.
    #[arg(long)]
    open: bool,
    /// The URL that opens a line in your editor, with `{path}` and `{line}`. If you set this
    /// option, the page may contain absolute paths. [default: $JAX2ONNX_EDITOR, or
    /// vscode://file/{path}:{line}]
    #[arg(long, value_name = "ADDRESS")]
    editor: Option<String>,
    /// An additional folder to search for source files, besides the working directory and the
    /// model's folder.
    #[arg(long, value_name = "FOLDER")]
    source: Vec<PathBuf>,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl View {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let out = self.out.clone().unwrap_or_else(|| self.model.with_extension("html"));
        let model = Model::open_located(&self.model, self.map.as_deref())?;
        PAGE.check(&self.model, &model.proto)?;
        let newer = self.against.as_deref().map(Side::open).transpose()?;
        if let (Some(path), Some(newer)) = (&self.against, &newer) {
            PAGE.check(path, &newer.proto)?;
        }
        for model in std::iter::once(&model).chain(&newer) {
            terminal.remarks(&model.notes())?;
        }
        let index = Index::new(&model);
        let excerpts = Excerpts::new(&model).with_folders(&self.source);
        let editor = Editor::new(self.editor.as_deref(), &out)?;
        let errors = self.errors.as_deref().map(Errors::read).transpose()?;
        if let (Some(errors), Some(path)) = (&errors, &self.errors)
            && let Some(doubt) = errors.doubt(&index, path)
        {
            terminal.remark(&doubt)?;
        }
        let times = self.profile.as_deref().map(|path| read(path, self.skip)).transpose()?;
        let attributed = match (&times, &self.profile) {
            (Some(times), Some(path)) => Some((times, known(&index, times, path, terminal)?)),
            _ => None,
        };
        let choice = self.frames.choice(Frames::All, &index)?;
        let timed = attributed.map(|(profile, attributed)| {
            let shares = share(&index, &attributed, &choice);
            Timed { profile, attributed, shares }
        });
        let other = match (&self.against, &newer) {
            (Some(path), Some(newer)) => {
                let (own, side) = (Side::new(&model), Side::new(newer));
                let found = compare(&own, &side, !self.no_weights)?;
                let excerpts = Excerpts::new(newer).with_folders(&self.source);
                Some(Other { name: name(path), own, side, excerpts, found })
            }
            _ => None,
        };
        let title = name(&self.model);
        let (index, excerpts, editor) = (&index, &excerpts, &editor);
        let subject =
            Subject { title: &title, index, excerpts, editor, choice, timed, errors, other };
        let (data, missing) = data(&subject);
        if let Some(first) = missing.first() {
            let more = missing.len() - 1;
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            terminal.remark(&format!("a parameter is shown without statistics: {first}{more}"))?;
        }
        let theirs = subject.other.as_ref().map(|other| &other.excerpts);
        let sources = std::iter::once(excerpts).chain(theirs).flat_map(Excerpts::opened);
        self.check_out(&out, &model, &sources.collect::<Vec<_>>())?;
        let page = page(&data);
        onnx_file::replace_file(&out, |file| file.write_all(page.as_bytes()))
            .map_err(Failure::model(&out))?;
        let mut text = terminal.text();
        let (nodes, kilobytes) = (count(index.nodes.len(), "node"), page.len().div_ceil(1024));
        text.line(&format!("{}: {nodes}, {kilobytes} KB", out.display()));
        terminal.show(&text)?;
        if self.open {
            open(&out)?;
        }
        Ok(Status::Yes)
    }

    /// Checks that the page does not overwrite a file that it is made from.
    fn check_out(&self, out: &Path, model: &Model, sources: &[PathBuf]) -> Result<(), Failure> {
        let mut all_weights = weights(&self.model)?;
        if let Some(against) = &self.against {
            all_weights.extend(weights(against)?);
        }
        let others = [("the model", self.model.as_path())]
            .into_iter()
            .chain(self.against.iter().map(|path| ("the other model", path.as_path())))
            .chain(model.map_path.iter().map(|path| ("its source map", path.as_path())))
            .chain(self.profile.iter().map(|path| ("the profile", path.as_path())))
            .chain(self.errors.iter().map(|path| ("the errors", path.as_path())))
            .chain(all_weights.iter().map(|path| ("its weights", path.as_path())))
            .chain(sources.iter().map(|path| ("its source", path.as_path())));
        keep_apart(("--out", out), others)
    }
}

/// Returns the name of a file.
fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Opens a page in the browser: `$BROWSER`, or the system's default.
fn open(page: &Path) -> Result<(), Failure> {
    let own = std::env::var_os("BROWSER").filter(|own| !own.is_empty());
    let mut command = match own {
        Some(own) => Command::new(own),
        None if cfg!(target_os = "macos") => Command::new("open"),
        None if cfg!(windows) => Command::new("explorer"),
        None => Command::new("xdg-open"),
    };
    let page = std::path::absolute(page).unwrap_or_else(|_| page.to_owned());
    command.arg(&page).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(drop).map_err(|error| {
        let program = command.get_program().to_string_lossy().into_owned();
        Failure::Request(format!(
            "cannot open {} with `{program}`: {error}; open it yourself, or set BROWSER",
            page.display()
        ))
    })
}
