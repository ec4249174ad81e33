//! Files mapped into memory.

use std::fs::{self, File, Metadata};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;
use tensor::Storage;

/// Returns the metadata of the file at `path`, or an error if it is not a regular file.
pub(crate) fn regular(path: &Path) -> io::Result<Metadata> {
    let found = fs::metadata(path)?;
    if !found.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(found)
}

/// A file that is mapped into memory.
#[derive(Debug)]
pub(crate) struct Mapped(Mmap);

impl Mapped {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        // A pipe would be opened only when somebody writes to it.
        regular(path)?;
        let file = File::open(path)?;
        #[expect(unsafe_code, reason = "the only way to read a file without reading all of it")]
        // SAFETY: nobody may change the file while it is mapped, as with every reader of
        // checkpoints. If somebody truncates it, the system ends the process before a model is
        // replaced.
        let map = unsafe { Mmap::map(&file)? };
        // Tensors are read from start to end. It is fine if the system ignores this advice.
        #[cfg(unix)]
        let _ = map.advise(memmap2::Advice::Sequential);
        Ok(Self(map))
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// Loads the pages of `range` together. Otherwise the system loads a few at a time, whenever it
    /// reads the first of them. It is fine if it does not know this advice.
    #[cfg(target_os = "linux")]
    fn prepare(&self, range: Range<usize>) {
        let _ = self.0.advise_range(memmap2::Advice::PopulateRead, range.start, range.len());
    }

    #[cfg(not(target_os = "linux"))]
    fn prepare(&self, _: Range<usize>) {}

    /// Gives back the memory of the pages inside `range`. The system reads them again on the next
    /// access.
    #[cfg(unix)]
    fn release(&self, range: Range<usize>) {
        use memmap2::UncheckedAdvice;

        // Pages are at least this large. The system refuses advice about a part of a larger page.
        const PAGE: usize = 4096;
        let (start, end) = (range.start.next_multiple_of(PAGE), range.end / PAGE * PAGE);
        if start < end {
            #[expect(unsafe_code, reason = "it would be wrong for memory that is not a file's")]
            // SAFETY: the map is of a file and is never written to, so its pages always hold the
            // contents of the file, on the first and on every later read. If the advice is refused,
            // the memory is given back when the map is dropped.
            let _ = unsafe {
                self.0.unchecked_advise_range(UncheckedAdvice::DontNeed, start, end - start)
            };
        }
    }

    #[cfg(not(unix))]
    fn release(&self, _: Range<usize>) {}
}

/// A part of a mapped file.
pub(crate) struct Slice {
    file: Arc<Mapped>,
    range: Range<usize>,
}

impl Slice {
    /// Creates a view of the bytes of `file` in `range`, which must be in bounds.
    pub(crate) fn new(file: Arc<Mapped>, range: Range<usize>) -> Self {
        Self { file, range }
    }
}

impl Storage for Slice {
    fn bytes(&self) -> &[u8] {
        self.file.bytes().get(self.range.clone()).unwrap_or_default()
    }

    fn is_mapped(&self) -> bool {
        true
    }

    fn prepare(&self, read: Range<usize>) {
        self.file.prepare(self.range.start + read.start..self.range.start + read.end);
    }

    fn release(&self, read: Range<usize>) {
        self.file.release(self.range.start + read.start..self.range.start + read.end);
    }
}
