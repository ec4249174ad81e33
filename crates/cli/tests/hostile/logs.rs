//! Malicious logs and source maps.

use cli::fuzz;

use crate::measure::within;
use crate::seed;

const MIB: usize = 1 << 20;

#[test]
fn logs_that_almost_match_are_read_quickly() {
    let model = seed("map.onnx");
    let pieces = [
        "Node (",
        "Node (/Add) Op (",
        "running Add node. Name:'",
        "running Add node. Name:'/Add' Status Message:",
        " in node (",
        "In node 1 with name: ",
        "ForeignNode[",
        "[ONNX Layer: /Add\u{1f}",
        "/Add /Scan ",
        "\x1b[",
        "/MatMulAddFusion",
        "_inlfunc_",
        "\n ",
        "é",
    ];
    for piece in pieces {
        let log = piece.repeat(MIB / 8 / piece.len());
        within(128 * MIB, || fuzz::log(&model, log.as_bytes()));
    }
}

#[test]
fn logs_may_be_binary() {
    let model = seed("map.onnx");
    let noise: Vec<u8> =
        (0..MIB / 8).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[1]).collect();
    within(64 * MIB, || fuzz::log(&model, &noise));
}

/// Returns a map with these tables; all others are empty.
fn map(tables: &[(&str, String)]) -> String {
    let names = [
        "files",
        "functions",
        "frames",
        "stacks",
        "scopes",
        "emitters",
        "calls",
        "origins",
        "inputs",
        "nodes",
    ];
    let tables = names.iter().map(|name| {
        let table = tables.iter().find(|(known, _)| known == name);
        format!("\"{name}\":[{}]", table.map_or("", |(_, table)| table))
    });
    format!("{{\"version\":1,{}}}", tables.collect::<Vec<_>>().join(","))
}

#[test]
fn long_chains_of_calls_are_read_quickly() {
    let (count, list) = (50_000, |entry: &dyn Fn(usize) -> String| {
        (0..50_000).map(entry).collect::<Vec<_>>().join(",")
    });
    for with_frames in [false, true] {
        let stack = if with_frames { count - 1 } else { -1 };
        let text = map(&[
            ("files", "[\"m.py\",null,null]".into()),
            ("functions", "\"f\"".into()),
            ("frames", "[0,0,1,0,1,0,2]".into()),
            ("stacks", list(&|i| format!("[0,{}]", i as i64 - 1))),
            ("scopes", "\"\"".into()),
            ("emitters", "[\"e\",\"lower\",\"e.rs\",1]".into()),
            ("calls", list(&|i| format!("[{stack},{},-1]", i as i64 - 1))),
            ("origins", list(&|_| format!("[{},0,0,[]]", count - 1))),
            ("nodes", list(&|i| format!("[\"n{i}\",{i},[{}],[]]", (i + 1) % 50_000))),
        ]);
        within(128 * MIB, || fuzz::source_map(text.as_bytes()));
    }
}

#[test]
fn a_map_that_refers_to_itself_is_an_error() {
    let bad = [
        ("stacks", "[0,0]"),
        ("calls", "[-1,0,-1]"),
        ("calls", "[-2,-1,-1]"),
        ("nodes", "[\"n\",7,[],[]]"),
        ("frames", "[9,9,1,0,1,0,0]"),
    ];
    for (table, entry) in bad {
        let text = map(&[(table, entry.into())]);
        assert!(provenance::SourceMap::parse(&text).is_err(), "{text}");
    }
    assert!(provenance::SourceMap::parse(&map(&[])).is_ok());
}
