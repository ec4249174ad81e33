//! Unnamed files for data that is being written, so that a killed process leaves nothing behind.
//!
//! Only Linux supports them, and not on every file system.

use std::fs::File;
use std::io;
use std::path::Path;

/// Creates an unnamed file in `folder`, if that is supported and [`link`] can give it a name.
#[cfg(target_os = "linux")]
pub(crate) fn create(folder: &Path) -> Option<File> {
    use rustix::fs::{Mode, OFlags, open};
    if !Path::new(DESCRIPTORS).is_dir() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    // The same mode as in `File::create`; the umask of the process restricts it.
    let mode = Mode::from_raw_mode(0o666);
    open(folder, flags, mode).ok().map(File::from)
}

/// Gives an unnamed file a name.
#[cfg(target_os = "linux")]
pub(crate) fn link(file: &File, path: &Path) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, linkat};
    use std::os::fd::AsRawFd;
    let descriptor = format!("{DESCRIPTORS}/{}", file.as_raw_fd());
    Ok(linkat(CWD, descriptor, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The folder that lists the open files of this process by descriptor.
#[cfg(target_os = "linux")]
const DESCRIPTORS: &str = "/proc/self/fd";

#[cfg(not(target_os = "linux"))]
pub(crate) fn create(_: &Path) -> Option<File> {
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn link(_: &File, _: &Path) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}
