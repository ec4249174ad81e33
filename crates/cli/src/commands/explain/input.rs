//! The text to explain: a file, standard input or the argument itself.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use super::findings::resolve;
use crate::failure::Failure;
use crate::log::cut;
use crate::model::Index;
use crate::nearest::{nearest, similar};
use crate::terminal::Terminal;

/// The maximum number of bytes read from a log. They are taken from the end, which contains the
/// failure. The number is even, so that no UTF-16 code unit is split.
const MOST: usize = 1 << 24;

/// Reads the text that `given` refers to.
pub(super) fn read(
    given: Option<&str>,
    index: &Index<'_>,
    terminal: &mut Terminal<'_>,
) -> Result<String, Failure> {
    let (read, path) = match given {
        None | Some("-") => {
            let Some(input) = terminal.input.as_mut() else {
                let message = "nothing to explain: give a log file, a message or a name";
                return Err(Failure::Request(message.to_owned()));
            };
            (tail(input, MOST), PathBuf::from("standard input"))
        }
        Some(text) => {
            let path = PathBuf::from(text);
            match path.metadata() {
                Ok(about) if !about.is_dir() => (tail_of_file(&path), path),
                // A folder cannot be explained, but a module path such as `blocks.0` may also be a
                // folder.
                found => {
                    return match why_no_file(text, found.is_ok(), index) {
                        Some(why) => Err(Failure::Request(why)),
                        None => Ok(text.to_owned()),
                    };
                }
            }
        }
    };
    let (bytes, is_cut) = read.map_err(Failure::io(&path))?;
    if is_cut {
        let size = MOST >> 20;
        terminal.remark(&format!("the log is long; only its last {size} MiB were read"))?;
    }
    let text = decode(&bytes);
    if text.trim().is_empty() {
        terminal.remark(
            "the log is empty; programs report errors on another stream: python serve.py 2>&1 | jax2onnx explain …",
        )?;
    }
    Ok(text)
}

/// Returns an error message if `text` looks like a path, and is neither a name nor a message.
fn why_no_file(text: &str, is_folder: bool, index: &Index<'_>) -> Option<String> {
    let is_word = !text.is_empty() && !text.contains(char::is_whitespace);
    if !(is_word || is_folder) || resolve(index, text).is_some() {
        return None;
    }
    if is_folder {
        return Some(format!("{}: this is a directory, not a log file", cut(text)));
    }
    let path = Path::new(text);
    let like = nearest(text, index.names());
    let has_folder = path.parent().is_some_and(|p| p.parent().is_some() && p.is_dir());
    let has_separator = text.contains(std::path::is_separator);
    let is_file = has_extension(path)
        || text.starts_with(['.', '~'])
        || has_folder
        || has_separator && like.is_empty();
    is_file.then(|| {
        let like = similar(like.into_iter().map(cut));
        format!("{}: there is no such file, node or value{like}", cut(text))
    })
}

/// Returns `true` for extensions such as `.log`, `.txt` and `.err`, but not for the `.0` of a
/// module.
fn has_extension(path: &Path) -> bool {
    let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    (1..=5).contains(&extension.len())
        && extension.starts_with(|c: char| c.is_ascii_alphabetic())
        && extension.chars().all(|c| c.is_ascii_alphanumeric())
}

fn tail_of_file(path: &Path) -> io::Result<(Vec<u8>, bool)> {
    let mut file = File::open(path)?;
    let about = file.metadata()?;
    let skipped = about.len().saturating_sub(MOST as u64).next_multiple_of(2);
    // A pipe has no length and cannot seek.
    if !about.is_file() || skipped == 0 {
        return tail(&mut file, MOST);
    }
    file.seek(SeekFrom::Start(skipped))?;
    let (bytes, _) = tail(&mut file, MOST)?;
    Ok((bytes, true))
}

/// Returns the last `most` bytes, and `true` if there were more.
fn tail(input: &mut dyn Read, most: usize) -> io::Result<(Vec<u8>, bool)> {
    let (mut bytes, mut is_cut) = (Vec::new(), false);
    loop {
        let read = input.take(most as u64).read_to_end(&mut bytes)?;
        if bytes.len() > most {
            let surplus = (bytes.len() - most).next_multiple_of(2);
            bytes.drain(..surplus);
            is_cut = true;
        }
        if read < most {
            return Ok((bytes, is_cut));
        }
    }
}

/// Decodes a log. Windows shells write UTF-16, often without a byte order mark.
fn decode(bytes: &[u8]) -> String {
    let text = match bytes {
        [0xff, 0xfe, rest @ ..] => utf16(rest, u16::from_le_bytes),
        [0xfe, 0xff, rest @ ..] => utf16(rest, u16::from_be_bytes),
        _ => match zeros(bytes) {
            (true, false) => utf16(bytes, u16::from_be_bytes),
            (false, true) => utf16(bytes, u16::from_le_bytes),
            _ => {
                let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
                String::from_utf8_lossy(bytes).into_owned()
            }
        },
    };
    if text.contains('\r') { text.replace("\r\n", "\n") } else { text }
}

/// Returns whether most bytes at even positions are 0, and whether most at odd positions are. ASCII
/// text in UTF-16 has such zeros.
fn zeros(bytes: &[u8]) -> (bool, bool) {
    let pairs = bytes.len() / 2;
    let count = |at: usize| bytes.chunks_exact(2).filter(|pair| pair[at] == 0).count();
    (count(0) * 2 > pairs, count(1) * 2 > pairs)
}

fn utf16(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> String {
    let units: Vec<u16> = bytes.chunks_exact(2).map(|pair| unit([pair[0], pair[1]])).collect();
    String::from_utf16_lossy(&units)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_stream_is_kept() {
        for len in [0, 3, 4, 5, 9, 64, 1001] {
            let bytes: Vec<u8> = (0..len).map(|i: u32| i.to_le_bytes()[0]).collect();
            let (kept, is_cut) = tail(&mut &bytes[..], 4).unwrap();
            assert!(bytes.ends_with(&kept) && kept.len() >= bytes.len().min(3), "{len}");
            assert_eq!(is_cut, bytes.len() > 4);
            assert!(
                !is_cut || (bytes.len() - kept.len()).is_multiple_of(2),
                "UTF-16 is cut between characters"
            );
        }
    }

    #[test]
    fn windows_encodings_are_read() {
        let text = "Name:'/d/Gemm' ü\n";
        let units = || "Name:'/d/Gemm' ü\r\n".encode_utf16();
        let little: Vec<u8> = units().flat_map(u16::to_le_bytes).collect();
        let big: Vec<u8> = units().flat_map(u16::to_be_bytes).collect();
        for (mark, bytes) in [(&b"\xff\xfe"[..], &little), (b"\xfe\xff", &big)] {
            assert_eq!(decode(bytes), text);
            assert_eq!(decode(&[mark, bytes].concat()), text);
        }
        assert_eq!(decode(b"\xef\xbb\xbfa\xff"), "a\u{fffd}");
        assert_eq!(decode(b"\0\0\0\0").len(), 4, "zeros are not text in any encoding");
    }

    #[test]
    fn file_extensions_differ_from_module_numbers() {
        assert!(has_extension(Path::new("a/serve.log")) && has_extension(Path::new("x.py3")));
        assert!(!has_extension(Path::new("/blocks.0")) && !has_extension(Path::new("/a.0/Add")));
    }
}
