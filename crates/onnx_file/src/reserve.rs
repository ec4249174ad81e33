//! Disk space that is reserved before a file is written.
//!
//! The system then allocates all of it at once, which halves the time of writing. A full disk is
//! noticed before gigabytes have been written.

use std::fs::File;
use std::io;

/// Reserves space for the first `bytes` of an empty file. Does nothing if the file system cannot.
#[cfg(target_os = "linux")]
pub(crate) fn reserve(file: &File, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(file, FallocateFlags::empty(), 0, bytes) {
        Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) => Err(error.into()),
        _ => Ok(()),
    }
}

#[cfg(not(target_os = "linux"))]
#[expect(clippy::unnecessary_wraps, reason = "the system may refuse the space on Linux")]
pub(crate) fn reserve(_: &File, _: u64) -> io::Result<()> {
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn impossible_sizes_are_refused() {
        let file = tempfile::tempfile().unwrap();
        let refused = reserve(&file, 1 << 62).unwrap_err().kind();
        assert!(
            matches!(refused, io::ErrorKind::FileTooLarge | io::ErrorKind::StorageFull),
            "{refused:?}"
        );
        reserve(&file, 1 << 20).unwrap();
    }
}
