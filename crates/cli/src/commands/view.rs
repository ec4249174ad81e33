//! `jax2onnx view`: a page with the source on the left and the graph on the right.

use std::io::Write;
use std::path::PathBuf;

use clap::Args;

use super::profile::known;
use crate::excerpt::Excerpts;
use crate::failure::{Failure, Status};
use crate::model::{Index, Model};
use crate::outputs::{keep_apart, weights};
use crate::profile::{read, share};
use crate::table::count;
use crate::terminal::Terminal;
use crate::view::{Timed, data, page};

/// Writes a page that shows the source beside the graph: what a line became, where a node came
/// from.
///
/// The page is self-contained. It loads nothing, and includes the text of the model's source files
/// if they can be found.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  jax2onnx view model.onnx -o model.html
  jax2onnx view model.onnx -o model.html --profile onnxruntime_profile.json --skip 1")]
pub(crate) struct View {
    /// The model file. Its weights are not loaded.
    model: PathBuf,
    /// Where to write the page.
    #[arg(short, long, value_name = "FILE.html")]
    out: PathBuf,
    /// An onnxruntime profile, shown as colours.
    #[arg(long, value_name = "FILE.json")]
    profile: Option<PathBuf>,
    /// Skip the first runs of the profile, which are warm-up.
    #[arg(long, value_name = "RUNS", default_value_t = 0, requires = "profile")]
    skip: usize,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
}

impl View {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        for remark in &model.remarks {
            terminal.remark(remark)?;
        }
        let index = Index::new(&model);
        let excerpts = Excerpts::new(&model);
        let title = self.model.file_name().unwrap_or_default().to_string_lossy();
        let data = match &self.profile {
            None => data(&index, &excerpts, &title, None),
            Some(path) => {
                let profile = read(path, self.skip)?;
                let attributed = known(&index, &profile, path, terminal)?;
                let shares = share(&index, &attributed);
                let timed = Timed { profile: &profile, attributed: &attributed, shares: &shares };
                data(&index, &excerpts, &title, Some(&timed))
            }
        };
        self.check_out(&model, &excerpts)?;
        let page = page(&data);
        onnx::replace_file(&self.out, |file| file.write_all(page.as_bytes()))
            .map_err(|error| Failure::model(self.out.clone(), error))?;
        let mut text = terminal.text();
        let (nodes, kilobytes) = (count(index.nodes.len(), "node"), page.len().div_ceil(1024));
        text.line(&format!("{}: {nodes}, {kilobytes} KB", self.out.display()));
        terminal.show(&text)?;
        Ok(Status::Yes)
    }

    /// The page must not overwrite a file that it is made from.
    fn check_out(&self, model: &Model, excerpts: &Excerpts<'_>) -> Result<(), Failure> {
        let (weights, sources) = (weights(&self.model)?, excerpts.opened());
        let others = [("the model", self.model.as_path())]
            .into_iter()
            .chain(model.map_path.iter().map(|path| ("its source map", path.as_path())))
            .chain(self.profile.iter().map(|path| ("the profile", path.as_path())))
            .chain(weights.iter().map(|path| ("its weights", path.as_path())))
            .chain(sources.iter().map(|path| ("its source", path.as_path())));
        keep_apart(("--out", &self.out), others)
    }
}
