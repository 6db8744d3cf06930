//! A file that takes its name when it is whole, so that nobody ever sees half of it under that name.
//!
//! Where the system can have files without any name, a run that is interrupted or killed leaves nothing behind.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use tempfile::NamedTempFile;

use crate::output::directory_of;

/// How names begin that are there for a moment. A place can have a name as long as names can be, so its own is no part of them.
const HIDDEN: &str = ".highwater.";

/// A file that is being written.
pub(crate) enum Fresh {
    #[cfg(target_os = "linux")]
    Nameless(File),
    /// Beside its place, hidden.
    Hidden(NamedTempFile),
}

impl Fresh {
    /// On the disk of its place, so that to name it is all that is left to do at the end. A place that cannot be is an error now.
    pub(crate) fn for_place(path: &Path) -> io::Result<Self> {
        if let Some(error) =
            path.symlink_metadata().err().filter(|error| error.kind() != io::ErrorKind::NotFound)
        {
            return Err(error);
        }
        #[cfg(target_os = "linux")]
        if let Ok(file) = nameless::create(directory_of(path)) {
            return Ok(Fresh::Nameless(file));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(HIDDEN).suffix(".part");
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // As any new file: what the umask leaves.
            builder.permissions(fs::Permissions::from_mode(0o666));
        }
        builder.tempfile_in(directory_of(path)).map(Fresh::Hidden)
    }

    /// Puts it into its place, and takes away what is there.
    pub(crate) fn persist(self, path: &Path) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Fresh::Nameless(file) => {
                // A name can be given but not be taken from another file: first one that nobody has, then the place's.
                let hidden = path.with_file_name(format!("{HIDDEN}{}.part", std::process::id()));
                drop(fs::remove_file(&hidden));
                nameless::link(&file, &hidden)?;
                fs::rename(&hidden, path).inspect_err(|_| drop(fs::remove_file(&hidden)))
            }
            Fresh::Hidden(file) => file.persist(path).map(drop).map_err(|error| error.error),
        }
    }
}

impl Write for Fresh {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            #[cfg(target_os = "linux")]
            Fresh::Nameless(file) => file.write(bytes),
            Fresh::Hidden(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            #[cfg(target_os = "linux")]
            Fresh::Nameless(file) => file.flush(),
            Fresh::Hidden(file) => file.flush(),
        }
    }
}

#[cfg(target_os = "linux")]
mod nameless {
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;

    use rustix::fs::{AtFlags, CWD, Mode, OFlags};

    use super::{File, Path, io};

    /// Where the system shows an open file as one that has a name.
    fn shown(file: &File) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
    }

    /// An error if the file system has no such files, or if they could not be given a name later.
    pub(super) fn create(directory: &Path) -> io::Result<File> {
        // As any new file: what the umask leaves.
        let mode = Mode::from_raw_mode(0o666);
        let file = File::from(rustix::fs::open(
            directory,
            OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC,
            mode,
        )?);
        shown(&file).metadata().map(|_| file)
    }

    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        Ok(rustix::fs::linkat(CWD, shown(file), CWD, name, AtFlags::SYMLINK_FOLLOW)?)
    }
}
