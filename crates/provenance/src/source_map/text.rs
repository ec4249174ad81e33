//! Serialisation of the map: JSON, compressed if that makes it shorter.

use std::fmt;
use std::io::{Read, Write};
use std::marker::PhantomData;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use serde::de::{Error as _, SeqAccess, Visitor};
use sha2::{Digest, Sha256};

use super::{SourceMap, Tables, VERSION};

/// The prefix of a compressed map.
const COMPRESSED: &str = "zlib:";

/// The compression level. The result is a tenth larger than at the best level and takes a tenth of
/// the time.
const LEVEL: u32 = 4;

/// The maximum size of a decompressed map, far beyond that of any real model. A hostile map must
/// not exhaust memory.
const LARGEST: u64 = 1 << 26;

/// The maximum ratio of decompressed to compressed bytes. In the maps of real models, it is about
/// ten.
const RATIO: u64 = 200;

/// The maximum number of entries in a table.
const ENTRIES: usize = 1 << 20;

/// The reason why a text is not a source map.
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
    /// Returns the map as text.
    pub fn to_text(&self) -> String {
        // Tables of strings and numbers can always be serialised, and writing to memory cannot
        // fail.
        let json = serde_json::to_string(&self.tables).unwrap_or_default();
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::new(LEVEL));
        let packed = encoder.write_all(json.as_bytes()).and_then(|()| encoder.finish());
        let packed = packed.map(|bytes| format!("{COMPRESSED}{}", STANDARD.encode(bytes)));
        packed.ok().filter(|text| text.len() < json.len()).unwrap_or(json)
    }

    /// Parses the text of a map.
    pub fn parse(text: &str) -> Result<Self, SourceMapError> {
        let text = text.trim();
        let tables: Tables = match text.strip_prefix(COMPRESSED) {
            None => read(text)?,
            Some(packed) => {
                let packed = STANDARD.decode(packed).map_err(malformed)?;
                let most = LARGEST.min((1 << 20) + RATIO * packed.len() as u64);
                let mut json = String::new();
                let mut decoder = ZlibDecoder::new(packed.as_slice()).take(most + 1);
                decoder.read_to_string(&mut json).map_err(malformed)?;
                if json.len() as u64 > most {
                    let size = packed.len();
                    return Err(malformed(format!(
                        "its {size} compressed bytes expand to more than {most} bytes of text"
                    )));
                }
                read(&json)?
            }
        };
        tables.check()?;
        Ok(Self::from_tables(tables))
    }
}

/// Deserializes a table of at most [`ENTRIES`] entries.
pub(super) fn bounded<'de, D, T>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    D: serde::Deserializer<'de>,
    T: serde::Deserialize<'de>,
{
    struct Bounded<T>(PhantomData<T>);
    impl<'de, T: serde::Deserialize<'de>> Visitor<'de> for Bounded<T> {
        type Value = Vec<T>;

        fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
            formatter.write_str("a list")
        }

        fn visit_seq<S: SeqAccess<'de>>(self, mut entries: S) -> Result<Vec<T>, S::Error> {
            let mut found = Vec::new();
            while let Some(entry) = entries.next_element()? {
                if found.len() == ENTRIES {
                    let problem = format!("a table has more than {ENTRIES} entries");
                    return Err(S::Error::custom(problem));
                }
                found.push(entry);
            }
            Ok(found)
        }
    }
    deserializer.deserialize_seq(Bounded(PhantomData))
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
    /// Checks that every reference points into its table, and that callers precede the calls they
    /// make, so that following them terminates.
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
        for file in &self.edited {
            within(*file, self.files.len(), "file")?;
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
        for idle in &self.idle {
            for origin in std::iter::once(&idle.0).chain(&idle.1) {
                within(*origin, self.origins.len(), "origin")?;
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

/// Returns `sha256:` followed by the digest in hexadecimal.
pub fn digest(bytes: &[u8]) -> String {
    let hex: String = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect();
    format!("sha256:{hex}")
}

#[cfg(test)]
mod tests {
    use std::panic::Location;

    use super::*;
    use crate::{
        Call, Emitter, Frame, FrameKind, MapNode, Merged, Origins, Sources, Span, Stacks, Stage,
    };

    fn frame(function: &str, line: u32, kind: FrameKind) -> Frame {
        let span = Span { line, column: 4, end_line: line, end_column: 9 };
        let function = function.into();
        Frame { file: "model.py".into(), path: "/m/model.py".into(), function, span, kind }
    }

    /// Returns a map of two nodes: `b`, inside a jitted function called on line 7, reads `a`.
    fn sample() -> SourceMap {
        sample_with(&[])
    }

    fn sample_with(edited: &[String]) -> SourceMap {
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
        let b = origins.absorb(b, &[(a, Merged::Yes)]);
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
        let sources = Sources { text: Some(&text), library: None, embed: true, edited };
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
    fn an_edited_file_has_neither_digest_nor_text() {
        let map = sample();
        assert_eq!(map.edited().count(), 0);
        assert!(map.file("model.py").unwrap().0.is_some());
        let map = sample_with(&["/m/model.py".to_owned()]);
        let map = SourceMap::parse(&map.to_text()).unwrap();
        assert_eq!(map.edited().collect::<Vec<_>>(), ["model.py"]);
        assert_eq!(map.file("model.py"), Some((None, None)));
    }

    #[test]
    fn names_lead_back_to_lines() {
        let map = sample();
        for name in ["/Sin", "/Sin_output_0"] {
            let sources = map.sources(map.position(name).unwrap(), &[]);
            assert_eq!(sources.len(), 1);
            assert_eq!(sources[0].site.as_ref().unwrap().span.line, 7);
            assert_eq!(sources[0].scope, "blocks.0");
        }
        let merged = map.sources(map.position("y").unwrap(), &[]);
        assert_eq!(merged.len(), 2);
        let lines: Vec<u32> = merged[0].stack.iter().map(|f| f.span.line).collect();
        assert_eq!(lines, [3, 7], "the inner frames, then the caller's");
        assert_eq!(merged[0].site.as_ref().unwrap().function, "main");
        assert_eq!(map.position("z"), None);
    }

    #[test]
    fn nodes_upstream_are_found_up_to_those_outside() {
        let map = sample();
        assert_eq!(map.between(vec![1], |_| false), [1, 0]);
        assert_eq!(map.between(vec![1], |node| node == 0), [1]);
    }

    #[test]
    fn maps_that_grow_are_errors() {
        let good = serde_json::to_string(&sample().tables).unwrap();
        let pack = |json: &str| {
            let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
            encoder.write_all(json.as_bytes()).unwrap();
            format!("{COMPRESSED}{}", STANDARD.encode(encoder.finish().unwrap()))
        };
        let scopes = |count: usize| {
            let scopes = format!("\"scopes\":[{}", "\"\",".repeat(count));
            good.replace("\"scopes\":[", &scopes)
        };
        assert!(SourceMap::parse(&pack(&scopes(10_000))).is_ok());
        let error = SourceMap::parse(&pack(&scopes(5_000_000))).unwrap_err().to_string();
        assert!(error.contains("compressed bytes expand to more than"), "{error}");
        let error = SourceMap::parse(&scopes(2_000_000)).unwrap_err().to_string();
        assert!(error.contains("a table has more than 1048576 entries"), "{error}");
    }

    /// A thousand calls to a function, each with a stack of a thousand frames.
    #[test]
    fn calls_with_long_stacks_are_cut() {
        let (frames, calls) = (1000, 1000);
        let stacks: Vec<String> = (0..frames).map(|at| format!("[0,{}]", at - 1)).collect();
        let chain: Vec<String> = (0..calls).map(|_| format!("[{},-1,0]", frames - 1)).collect();
        let others: Vec<String> = (1..calls).map(|call| call.to_string()).collect();
        let json = format!(
            r#"{{"version":1,"files":[["m.py",null,null]],"functions":["f"],
            "frames":[[0,0,1,0,1,0,0]],"stacks":[{}],"scopes":[""],
            "emitters":[["onnx_function","lower","f.rs",1]],"calls":[{},[0,0,0]],
            "callers":[[0,[{}]]],"origins":[[{calls},0,0,[{}]]],"inputs":[],
            "nodes":[["/A",0,[],[]]]}}"#,
            stacks.join(","),
            chain.join(","),
            others.join(","),
            vec!["0"; 300].join(","),
        );
        let map = SourceMap::parse(&json).unwrap();
        let sources = map.sources(0, &[]);
        let frames: usize = sources.iter().flat_map(|s| &s.others).map(|o| o.stack.len()).sum();
        assert!(frames > 1000 && frames < 20_000, "{frames}");
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

    #[test]
    fn a_map_lists_its_nodes_and_values() {
        let map = sample();
        assert_eq!((map.len(), map.is_empty()), (2, false));
        assert!(map.has_node("/Cos") && !map.has_node("y"));
        assert!(map.has_input("x") && !map.has_input("y"));
        assert_eq!([0, 1, 2].map(|node| map.node_name(node)), [Some("/Sin"), Some("/Cos"), None]);
        assert_eq!([0, 2].map(|node| map.scope(node)), [Some("blocks.0"), None]);
        let nothing = SourceMap::build(
            &[],
            &[],
            &Origins::default(),
            &Stacks::default(),
            None,
            Sources::default(),
        );
        assert_eq!((nothing.len(), nothing.is_empty()), (0, true));
    }

    /// A function that is called on line 7 in a module, and on line 9 outside of all.
    #[test]
    fn nodes_of_a_function_are_seen_from_each_of_its_calls() {
        let (mut stacks, mut origins) = (Stacks::default(), Origins::default());
        let mut stack = |function, line, kind| {
            let (id, frame) = (stacks.reserve(), stacks.intern(frame(function, line, kind)));
            stacks.resolve(id, &[frame]);
            Some(id)
        };
        let at = Location::caller().into();
        let emitter = |name| Emitter { name, stage: Stage::Lower, at };
        let call = emitter(crate::FUNCTION_CALL);
        let [first, second] = [7, 9].map(|line| {
            let stack = stack("main", line, FrameKind::User);
            origins.call(Call { stack, caller: None })
        });
        let inner = stack("nn.dot", 3, FrameKind::Library);
        let inner = origins.call(Call { stack: inner, caller: Some((first, call)) });
        let [block, body] = ["blocks.0", "F/up"].map(|path| origins.scope(Origins::ROOT, path));
        let nodes = [
            (origins.origin(Some(first), block, call), "/F", vec![1]),
            (origins.origin(Some(inner), body, emitter("sin")), "/F/Sin", vec![]),
            (origins.origin(Some(second), Origins::ROOT, call), "/F_1", vec![1]),
        ];
        origins.called_again(first, nodes[2].0);
        let node = |(origin, name, inputs): &(_, &'static str, Vec<usize>)| MapNode {
            name: (*name).into(),
            origin: *origin,
            inputs: inputs.clone(),
            outputs: vec![*name],
        };
        let nodes: Vec<_> = nodes.iter().map(node).collect();
        let map = SourceMap::build(&[], &nodes, &origins, &stacks, None, Sources::default());
        assert_eq!([0, 1, 2].map(|node| map.is_call(node)), [true, false, true]);
        assert_eq!([0, 1, 2].map(|node| map.result_of_call(node)), [Some(1), None, Some(1)]);
        let pairs = [(1, 0), (1, 2), (0, 1), (0, 2), (2, 0)];
        let called = pairs.map(|(node, call)| map.is_called_by(node, call));
        assert_eq!(called, [true, true, false, false, false]);
        let seen = |calls: &[usize]| {
            let source = map.own_source(1, calls).unwrap();
            let lines: Vec<u32> = source.stack.iter().map(|frame| frame.span.line).collect();
            let site = source.site.unwrap().span.line;
            let others: Vec<_> = source
                .others
                .iter()
                .map(|other| (other.inside, other.stack[1].span.line))
                .collect();
            (source.scope.into_owned(), lines, site, others)
        };
        assert_eq!(seen(&[0]), ("blocks.0/up".to_owned(), vec![3, 7], 7, vec![]));
        assert_eq!(seen(&[2]), ("up".to_owned(), vec![3, 9], 9, vec![]));
        assert_eq!(seen(&[]), ("F/up".to_owned(), vec![3, 7], 7, vec![(1, 9)]));
        assert_eq!(seen(&[1]), seen(&[]), "a node that calls nothing");
    }

    #[test]
    fn the_innermost_frame_outside_jax_represents_a_stack_without_the_users() {
        let (mut stacks, mut origins) = (Stacks::default(), Origins::default());
        let stack = stacks.reserve();
        let frames = [
            frame("sin", 1, FrameKind::Jax),
            frame("dot", 2, FrameKind::Library),
            frame("apply", 3, FrameKind::Library),
        ]
        .map(|frame| stacks.intern(frame));
        stacks.resolve(stack, &frames);
        let call = origins.call(Call { stack: Some(stack), caller: None });
        let emitter = Emitter { name: "sin", stage: Stage::Lower, at: Location::caller().into() };
        let origin = origins.origin(Some(call), Origins::ROOT, emitter);
        let node = MapNode { name: "/Sin".into(), origin, inputs: vec![], outputs: vec!["y"] };
        let map = SourceMap::build(&[], &[node], &origins, &stacks, None, Sources::default());
        let source = map.own_source(0, &[]).unwrap();
        assert_eq!(source.site.unwrap().place(), "model.py:2");
        assert_eq!(
            source.stack.iter().map(super::super::lookup::MapFrame::kind).collect::<Vec<_>>()[..2],
            [FrameKind::Jax, FrameKind::Library]
        );
    }

    #[test]
    fn a_table_must_be_a_list() {
        let good = serde_json::to_string(&sample().tables).unwrap();
        let bad = good.replace("\"inputs\":[\"x\"]", "\"inputs\":7");
        assert_ne!(bad, good);
        let error = SourceMap::parse(&bad).unwrap_err().to_string();
        assert!(error.contains("expected a list"), "{error}");
    }
}
