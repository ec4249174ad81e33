//! The map as text: JSON, compressed when that makes it shorter.

use std::io::{Read, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use sha2::{Digest, Sha256};

use super::{SourceMap, Tables, VERSION};

/// The prefix of a compressed map.
const COMPRESSED: &str = "zlib:";

/// The result is a tenth larger than with the best level, and takes a tenth of the time.
const LEVEL: u32 = 4;

/// The largest map that is decompressed, far beyond that of any real model. A hostile one must not
/// exhaust memory.
const LARGEST: u64 = 1 << 26;

/// Why a text is not a source map.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SourceMapError {
    /// The text is damaged.
    #[error("not a source map: {0}")]
    Malformed(String),
    /// A newer converter wrote it.
    #[error("the source map has version {0}; this program reads version {VERSION}")]
    Version(u32),
}

fn malformed(reason: impl std::fmt::Display) -> SourceMapError {
    SourceMapError::Malformed(format!("{reason}"))
}

impl SourceMap {
    /// The map as text.
    pub fn to_text(&self) -> String {
        // Tables of strings and numbers can always be serialised, and writing to memory cannot
        // fail.
        let json = serde_json::to_string(&self.tables).unwrap_or_default();
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(LEVEL));
        let packed = encoder.write_all(json.as_bytes()).and_then(|()| encoder.finish());
        let packed = packed.map(|bytes| format!("{COMPRESSED}{}", STANDARD.encode(bytes)));
        packed.ok().filter(|text| text.len() < json.len()).unwrap_or(json)
    }

    /// Reads the text of a map.
    pub fn parse(text: &str) -> Result<Self, SourceMapError> {
        let text = text.trim();
        let tables: Tables = match text.strip_prefix(COMPRESSED) {
            None => read(text)?,
            Some(packed) => {
                let packed = STANDARD.decode(packed).map_err(malformed)?;
                let mut json = String::new();
                let mut decoder = ZlibDecoder::new(packed.as_slice()).take(LARGEST);
                decoder.read_to_string(&mut json).map_err(malformed)?;
                read(&json)?
            }
        };
        tables.check()?;
        Ok(Self::from_tables(tables))
    }
}

fn read(json: &str) -> Result<Tables, SourceMapError> {
    #[derive(serde::Deserialize)]
    struct Version {
        version: u32,
    }
    let Version { version } = serde_json::from_str(json).map_err(malformed)?;
    if version != VERSION {
        return Err(SourceMapError::Version(version));
    }
    serde_json::from_str(json).map_err(malformed)
}

impl Tables {
    /// Checks that every reference points into its table, and that callers come before what they
    /// call, so that following them terminates.
    fn check(&self) -> Result<(), SourceMapError> {
        let within = |index: u32, len: usize, what: &str| {
            let good = (index as usize) < len;
            if good { Ok(()) } else { Err(malformed(format!("there is no {what} {index}"))) }
        };
        let before = |index: i64, own: usize, what: &str| match usize::try_from(index) {
            Ok(index) if index >= own => Err(malformed(format!("{what} {index} is out of order"))),
            Err(_) if index != -1 => Err(malformed(format!("{what} {index} is negative"))),
            _ => Ok(()),
        };
        for frame in &self.frames {
            within(frame.0, self.files.len(), "file")?;
            within(frame.1, self.functions.len(), "function")?;
        }
        for (own, stack) in self.stacks.iter().enumerate() {
            within(stack.0, self.frames.len(), "frame")?;
            before(stack.1, own, "stack")?;
        }
        for (own, call) in self.calls.iter().enumerate() {
            before(call.0, self.stacks.len(), "stack")?;
            before(call.1, own, "call")?;
            before(call.2, self.emitters.len(), "emitter")?;
        }
        for callers in &self.callers {
            for call in std::iter::once(&callers.0).chain(&callers.1) {
                within(*call, self.calls.len(), "call")?;
            }
        }
        for origin in &self.origins {
            before(origin.0, self.calls.len(), "call")?;
            within(origin.1, self.scopes.len(), "scope")?;
            within(origin.2, self.emitters.len(), "emitter")?;
            for other in &origin.3 {
                within(*other, self.origins.len(), "origin")?;
            }
        }
        for node in &self.nodes {
            within(node.1, self.origins.len(), "origin")?;
            for input in &node.2 {
                within(*input, self.nodes.len(), "node")?;
            }
        }
        Ok(())
    }
}

/// `sha256:` and the digest in hexadecimal digits.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::{
        Call, Emitter, Frame, FrameKind, Fused, MapNode, OptimizedNode, Origins, Sources, Span,
        Stacks, Stage,
    };

    fn frame(function: &str, line: u32, kind: FrameKind) -> Frame {
        let span = Span { line, column: 4, end_line: line, end_column: 9 };
        let function = function.into();
        Frame { file: "model.py".into(), path: "/m/model.py".into(), function, span, kind }
    }

    /// Two nodes: `b`, inside a jitted function that is called on line 7, reads `a`.
    fn sample() -> SourceMap {
        let (mut stacks, mut origins) = (Stacks::default(), Origins::default());
        let mut stack = |function, line, kind| {
            let (id, frame) = (stacks.reserve(), stacks.intern(frame(function, line, kind)));
            stacks.resolve(id, &[frame]);
            Some(id)
        };
        let outer = stack("main", 7, FrameKind::User);
        let inner = stack("inner", 3, FrameKind::Jax);
        let emitter = Emitter { name: "sin", stage: Stage::Lower, at: Location::caller().into() };
        let outer = origins.call(Call { stack: outer, caller: None });
        let inner = origins.call(Call { stack: inner, caller: Some((outer, emitter)) });
        let scope = origins.scope(Origins::ROOT, "blocks.0");
        let a = origins.origin(Some(outer), scope, emitter);
        let b = origins.origin(Some(inner), scope, emitter);
        let b = origins.absorb(b, &[a]);
        let nodes = [
            MapNode {
                name: "/Sin".into(),
                origin: a,
                inputs: vec![],
                outputs: vec!["/Sin_output_0"],
            },
            MapNode { name: "/Cos".into(), origin: b, inputs: vec![0], outputs: vec!["y"] },
        ];
        let text = |path: &str| Some(format!("text of {path}"));
        let sources = Sources { text: Some(&text), embed: true };
        SourceMap::build(&["x"], &nodes, &origins, &stacks, None, sources)
    }

    #[test]
    fn maps_round_trip() {
        let map = sample();
        assert_eq!(SourceMap::parse(&map.to_text()).unwrap(), map);
        let json = serde_json::to_string(&map.tables).unwrap();
        assert_eq!(SourceMap::parse(&json).unwrap(), map);
    }

    #[test]
    fn names_lead_back_to_lines() {
        let map = sample();
        for name in ["/Sin", "/Sin_output_0"] {
            let sources = map.sources(map.find(name).unwrap(), &[]);
            assert_eq!(sources.len(), 1);
            assert_eq!(sources[0].site.as_ref().unwrap().span.line, 7);
            assert_eq!(sources[0].scope, "blocks.0");
        }
        let merged = map.sources(map.find("y").unwrap(), &[]);
        assert_eq!(merged.len(), 2);
        let lines: Vec<u32> = merged[0].stack.iter().map(|f| f.span.line).collect();
        assert_eq!(lines, [3, 7], "the inner frames, then the caller's");
        assert_eq!(merged[0].site.as_ref().unwrap().function, "main");
        assert_eq!(map.find("z"), None);
    }

    #[test]
    fn a_fused_node_stands_for_everything_between_its_inputs_and_outputs() {
        let map = sample();
        let between = |read: &[&str], computed: &str| {
            let inputs: Vec<String> = read.iter().map(|name| (*name).to_owned()).collect();
            let (inputs, outputs) = (inputs.as_slice(), &[computed.to_owned()][..]);
            let node = OptimizedNode { name: "fused", op: "Fused", body: 0, inputs, outputs };
            Fused::new(&map, vec![node]).exported(0)
        };
        assert_eq!(between(&[], "y"), [1]);
        assert_eq!(between(&["/Sin_output_0"], "y"), [1]);
        assert_eq!(between(&["x"], "y"), [1, 0], "up to the model's own input");
        assert_eq!(between(&["/Sin"], "/Cos"), [1], "results by the names of their nodes");
        assert_eq!(between(&["?"], "y"), [1], "an unknown input is not a boundary");
    }

    #[test]
    fn damaged_maps_are_errors() {
        let good = serde_json::to_string(&sample().tables).unwrap();
        let version = good.replace("\"version\":1", "\"version\":9");
        assert_eq!(SourceMap::parse(&version).unwrap_err(), SourceMapError::Version(9));
        for bad in ["", "{", "zlib:!", "zlib:AAAA", "[]", "{\"version\":1}"] {
            assert!(SourceMap::parse(bad).is_err(), "{bad}");
        }
        let cyclic = good.replace("\"stacks\":[[0,-1]", "\"stacks\":[[0,0]");
        assert_ne!(cyclic, good);
        assert!(SourceMap::parse(&cyclic).is_err());
        for cut in 0..good.len() {
            let _ = SourceMap::parse(&good[..cut]);
        }
    }
}
