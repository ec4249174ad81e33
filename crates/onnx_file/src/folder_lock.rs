//! Locks on folders and files, so that two processes do not replace the same files at once.

use std::fs::File;
use std::path::Path;

/// Acquires the lock, waiting while another process holds it. It is released when the result is
/// dropped. Returns `None` where the operating system or the file system does not support such
/// locks.
pub(crate) fn lock(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, true).then_some(folder)
}

/// Acquires the lock. Returns `None` if another process holds it, and where such locks are not
/// supported.
pub(crate) fn try_lock(folder: &Path) -> Option<File> {
    let folder = File::open(folder).ok()?;
    flock(&folder, false).then_some(folder)
}

/// Locks an open file until it is closed, waiting while another process holds the lock. Does
/// nothing where such locks are not supported.
pub(crate) fn hold(file: &File) {
    // Without locks, the folder cannot be locked either, and no file is removed as abandoned.
    flock(file, true);
}

/// Locks a file, and returns `true` if that succeeds.
#[cfg(unix)]
fn flock(file: &File, waits: bool) -> bool {
    use rustix::fs::FlockOperation::{LockExclusive, NonBlockingLockExclusive};
    let operation = if waits { LockExclusive } else { NonBlockingLockExclusive };
    rustix::fs::flock(file, operation).is_ok()
}

#[cfg(not(unix))]
fn flock(_: &File, _: bool) -> bool {
    false
}
