//! `jax2onnx show`: a model as a person wants to read it.

mod node;

use std::path::PathBuf;

use clap::Args;

use crate::failure::{Failure, Status};
use crate::model::{BodyKind, Index, Model, type_text};
use crate::style::Style;
use crate::table::table;
use crate::terminal::Terminal;

/// The nodes of a model, each with its type, its line of Python and the rule that emitted it.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  jax2onnx show model.onnx")]
pub(crate) struct Show {
    /// The model file. Its weights are not loaded.
    model: PathBuf,
    /// The source map, if it is neither in the model nor beside it.
    #[arg(long, value_name = "FILE")]
    map: Option<PathBuf>,
    /// Only this node, by its name or that of a result, with its whole stack.
    #[arg(long, value_name = "NAME")]
    node: Option<String>,
}

impl Show {
    pub(crate) fn run(&self, terminal: &mut Terminal<'_>) -> Result<Status, Failure> {
        let model = Model::open(&self.model, self.map.as_deref())?;
        for remark in &model.remarks {
            terminal.remark(remark)?;
        }
        let index = Index::new(&model);
        let mut text = terminal.text();
        if let Some(name) = &self.node {
            node::describe(&mut text, &index, node::find(&index, name)?);
            terminal.show(&text)?;
            return Ok(Status::Yes);
        }
        let opsets = model.proto.opset_import.iter().map(|set| match set.domain.as_str() {
            "" => format!("opset {}", set.version),
            domain => format!("{domain} {}", set.version),
        });
        let opsets: Vec<_> = opsets.collect();
        let (graph, ir) = (index.graph, model.proto.ir_version);
        text.line(&format!("{} · {} · IR {ir}", graph.name, opsets.join(", ")));
        for (title, values) in [("input", &graph.input), ("output", &graph.output)] {
            for value in values {
                let ty = value.r#type.as_ref().map_or("?".to_owned(), type_text);
                text.line(&format!("{title:<6}  {}: {ty}", value.name));
            }
        }
        text.line("");
        let mut rows = Vec::new();
        let mut body = 0;
        for (position, node) in index.nodes.iter().enumerate() {
            if let (true, BodyKind::Function(function)) =
                (node.body != body, index.bodies[node.body].kind)
            {
                rows.push(vec![format!("function {}.{}", function.domain, function.name)]);
            }
            body = node.body;
            let origin = index.origin(position).unwrap_or_default();
            rows.push(vec![
                format!("{}{}", "  ".repeat(node.depth), node.proto.name),
                node.op(),
                index.results(node),
                origin.site.map(|site| site.place()).unwrap_or_default(),
                origin.rule,
            ]);
        }
        let columns = [
            ("node", Style::Bold),
            ("op", Style::Plain),
            ("result", Style::Plain),
            ("call site", Style::Cyan),
            ("rule", Style::Dim),
        ];
        table(&mut text, &columns, &rows, terminal.width);
        terminal.show(&text)?;
        Ok(Status::Yes)
    }
}
