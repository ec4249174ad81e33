//! Locks on folders and files, so that two processes do not replace the same files at once.

use std::fs::File;
use std::path::Path;

/// Acquires the lock, waiting while another process holds it. It is released when the result is
/// dropped. Returns `None` where the operating system or the file system does not support such
/// locks.
#[cfg(unix)]
pub(crate) fn lock(folder: &Path) -> Option<File> {
    use rustix::fs::{FlockOperation, flock};
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::LockExclusive).ok()?;
    Some(folder)
}

/// Acquires the lock. Returns `None` if another process holds it, and where such locks are not
/// supported.
#[cfg(unix)]
pub(crate) fn try_lock(folder: &Path) -> Option<File> {
    use rustix::fs::{FlockOperation, flock};
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Locks an open file until it is closed, waiting while another process holds the lock. Does
/// nothing where such locks are not supported.
#[cfg(unix)]
pub(crate) fn hold(file: &File) {
    use rustix::fs::{FlockOperation, flock};
    // Without locks, the folder cannot be locked either, and no file is removed as abandoned.
    let _ = flock(file, FlockOperation::LockExclusive);
}

#[cfg(not(unix))]
pub(crate) fn hold(_: &File) {}

#[cfg(not(unix))]
pub(crate) fn try_lock(_: &Path) -> Option<File> {
    None
}

#[cfg(not(unix))]
pub(crate) fn lock(_: &Path) -> Option<File> {
    None
}
