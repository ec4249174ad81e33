//! A lock on a folder, so that two processes do not replace the same files at once.

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

/// Acquires the lock if no other process holds it. Returns `None` also where such locks are not
/// supported.
#[cfg(unix)]
pub(crate) fn try_lock(folder: &Path) -> Option<File> {
    use rustix::fs::{FlockOperation, flock};
    let folder = File::open(folder).ok()?;
    flock(&folder, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(folder)
}

/// Waits until nobody else has locked an open file, and locks it as long as it is open. Where there
/// are no such locks, nothing happens.
#[cfg(unix)]
pub(crate) fn hold(file: &File) {
    use rustix::fs::{FlockOperation, flock};
    // Without locks, nobody can take the folder's either, and then nothing is removed.
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
