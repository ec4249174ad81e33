//! The explanation in the style of a compiler diagnostic.

use serde_json::{Value, json};

use super::findings::{Explanation, Finding, Subject};
use crate::commands::show::json as show_json;
use crate::excerpt::Excerpts;
use crate::link::Page;
use crate::log::pattern::prefix;
use crate::log::{Severity, cut};
use crate::model::{FrameChoice, Index, Origin, RECORDING};
use crate::page;
use crate::style::{Style, Text};
use crate::table::count;

/// The maximum number of bytes quoted from a runtime's message.
const SAID: usize = 400;

/// Writes the whole explanation.
pub(crate) fn write<'m>(
    text: &mut Text,
    index: &Index<'m>,
    explanation: &Explanation<'m>,
    page: Option<&Page>,
    choice: &FrameChoice,
) {
    let excerpts = Excerpts::new(index.model);
    for (at, finding) in explanation.findings.iter().enumerate() {
        if at > 0 {
            text.line("");
        }
        write_finding(text, index, &excerpts, finding, page, choice);
    }
    if explanation.hidden > 0 {
        text.line("");
        text.line(&format!("… and {}", count(explanation.hidden, "more node")));
    }
    for (name, like) in &explanation.unknown {
        text.line(&format!("the model has no node or value `{}`", cut(name)));
        if is_made_up(name) {
            text.line(
                "  help: the runtime created this node while it optimised the model; explain the \
                 optimised model instead",
            );
            text.line(
                "        (SessionOptions.optimized_model_filepath), or \
                 switch optimisation off to see the exported name",
            );
        } else if !like.is_empty() {
            let like: Vec<String> = like.iter().map(|name| format!("`{}`", cut(name))).collect();
            text.line(&format!("  help: similar names: {}", like.join(", ")));
        }
    }
    if explanation.findings.is_empty() && explanation.unknown.is_empty() {
        text.line("the log does not mention any node or value of this model");
    }
}

fn write_finding<'m>(
    text: &mut Text,
    index: &Index<'m>,
    excerpts: &Excerpts<'_>,
    finding: &Finding<'m>,
    page: Option<&Page>,
    choice: &FrameChoice,
) {
    let origins = origins(index, finding);
    let label = finding.severity.name();
    let style = if finding.severity == Severity::Error { Style::Red } else { Style::Bold };
    match (&finding.meaning, &finding.said) {
        (Some(meaning), _) => {
            text.styled(style, &format!("{label}[{}]", meaning.code));
            text.styled_line(Style::Bold, &format!(": {}", meaning.message));
        }
        (None, Some((_, said))) => {
            text.styled(style, label);
            text.styled_line(Style::Bold, &format!(": {}", shortened(said)));
        }
        (None, None) => {}
    }
    page::sites(text, excerpts, &origins);
    let own = origins.first().cloned().unwrap_or_default();
    match &finding.subject {
        Subject::Node(node) => {
            page::facts(text, index, *node, &own);
        }
        Subject::Value(name, reader) => {
            page::fact(text, "value", &format!("{name}: {}", index.type_of(0, name)));
            if let Some(reader) = reader {
                let name = &index.nodes[*reader].proto.name;
                page::fact(text, "read by", &format!("{name} = {}", index.nodes[*reader].op()));
            }
        }
        Subject::Gone(name, _) => {
            page::fact(text, "node", &format!("{} (as exported)", cut(name)));
        }
        Subject::Model => {}
    }
    if let Some(renamed) = &finding.renamed {
        page::fact(text, "known as", &cut(renamed));
    }
    if let (Some((who, said)), Some(_)) = (&finding.said, &finding.meaning) {
        page::fact(text, "message", &format!("{who}: {}", shortened(said)));
    }
    if let Some(link) = page.and_then(|page| link(page, index, finding, &origins)) {
        page::fact(text, "page", &link);
    }
    page::library(text, excerpts, &own, choice);
    page::callers(text, excerpts, &own, false);
    if origins.is_empty() && !matches!(finding.subject, Subject::Model) {
        // If a map was found and rejected, a note already says so, and another export would not
        // help.
        let cure = match index.model.remarks.is_empty() {
            true => format!("; {RECORDING}"),
            false => String::new(),
        };
        text.line(&format!("  note: the model does not record where this came from{cure}"));
    }
    if let Some(doubt) = &finding.doubt {
        text.line(&format!("  note: {doubt}"));
    }
    if let Some(meaning) = &finding.meaning {
        text.styled(Style::Green, "  help: ");
        text.line(meaning.help);
    }
}

/// Returns the link to a finding in a page: to its node, or else to its line.
fn link(
    page: &Page,
    index: &Index<'_>,
    finding: &Finding<'_>,
    origins: &[Origin<'_>],
) -> Option<String> {
    let node = finding.subject.node().map(|node| index.nodes[node].proto.name.as_str());
    let site = || origins.first().and_then(|origin| origin.site.as_ref());
    let line = || site().map(|site| page.line(site.file, site.span.line));
    node.filter(|name| !name.is_empty()).map(|name| page.node(name)).or_else(line)
}

fn origins<'m>(index: &Index<'m>, finding: &Finding<'m>) -> Vec<Origin<'m>> {
    match (&finding.subject, finding.subject.node(), &finding.renamed) {
        (_, Some(node), Some(name)) => index.origins_as(node, name),
        (_, Some(node), None) => index.origins(node),
        (Subject::Gone(_, origins), ..) => origins.clone(),
        _ => Vec::new(),
    }
}

/// Returns a message on one line, without the parts that only the runtime's authors understand.
fn shortened(said: &str) -> String {
    let last = said.rsplit("Status Message: ").next().unwrap_or(said);
    // `[ONNXRuntimeError] : 1 : FAIL : The message.`
    let wrapped = last.rsplit_once("[ONNXRuntimeError] : ");
    let last = wrapped.and_then(|(_, rest)| rest.splitn(3, " : ").last()).unwrap_or(last);
    // `/onnxruntime_src/…/reshape_helper.h:91 onnxruntime::… was false. The message.`
    let last = last.split_once(" was false. ").map_or(last, |(_, message)| message);
    // `Check '…' failed at src/…/reshape.cpp:77:`, followed by the message on separate lines.
    let last = last
        .rsplit_once(" failed at ")
        .and_then(|(_, l)| l.split_once('\n'))
        .map_or(last, |(_, l)| l);
    let line = last.split_whitespace().collect::<Vec<_>>().join(" ");
    let short = prefix(&line, SAID);
    if short.len() < line.len() { format!("{short}…") } else { line }
}

/// Returns `true` for names that onnxruntime gives to nodes that it adds.
fn is_made_up(name: &str) -> bool {
    let prefixes = ["gemm_input_reshape", "gemm_output_reshape", "Transpose_token_", "Reorder"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Builds the output of `jax2onnx explain --json`.
pub(super) fn json<'m>(
    index: &Index<'m>,
    explanation: &Explanation<'m>,
    page: Option<&Page>,
) -> Value {
    let findings = explanation.findings.iter().map(|finding| {
        let name = match &finding.subject {
            Subject::Node(node) => Some(index.nodes[*node].proto.name.clone()),
            Subject::Value(name, _) | Subject::Gone(name, _) => Some(name.clone()),
            Subject::Model => None,
        };
        let meaning = finding.meaning.as_ref();
        let origins = origins(index, finding);
        let mut value = json!({
            "name": name,
            "renamed": finding.renamed,
            "code": meaning.map(|meaning| meaning.code),
            "message": meaning.map(|meaning| &meaning.message),
            "help": meaning.map(|meaning| meaning.help),
            "severity": finding.said.as_ref().map(|_| finding.severity.name()),
            "doubt": finding.doubt,
            "said": finding.said.as_ref().map(|(_, said)| said),
            "node": finding.subject.node().map(|node| show_json::node(index, node)),
            "sources": origins.iter().map(show_json::source).collect::<Vec<_>>(),
        });
        if let Some(page) = page {
            value["link"] = json!(link(page, index, finding, &origins));
        }
        value
    });
    let unknown =
        explanation.unknown.iter().map(|(name, like)| json!({"name": name, "like": like}));
    json!({
        "findings": findings.collect::<Vec<_>>(),
        "hidden": explanation.hidden,
        "unknown": unknown.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_quoted_without_their_wrapping() {
        for (said, expected) in [
            ("[ONNXRuntimeError] : 1 : FAIL : Node (a) Op (b) : c", "Node (a) Op (b) : c"),
            (
                "running Gemm node. Name:'g' Status Message: /src/op_kernel.cc:87 virtual X \
                 [ONNXRuntimeError] : 1 : FAIL : Shape mismatch",
                "Shape mismatch",
            ),
            ("running Add node. Name:'a' Status Message: f.h:1 x == y was false. Why.\n", "Why."),
            (
                "Check 'a' failed at b.cpp:77:\nthe shape (7)\n  conflicts",
                "the shape (7) conflicts",
            ),
            ("plain : a : b : c", "plain : a : b : c"),
        ] {
            assert_eq!(shortened(said), expected);
        }
        assert_eq!(shortened(&"é".repeat(1000)).chars().count(), SAID / 2 + 1);
    }
}
