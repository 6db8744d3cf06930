use std::path::PathBuf;

use arrow_schema::ArrowError;

/// Why a stream could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A setting outside of what is allowed.
    #[error("{flag}: {given} is not allowed; allowed: {allowed}")]
    Invalid {
        /// The flag of the command line that sets it.
        flag: &'static str,
        /// The value that was given.
        given: String,
        /// What would have been accepted.
        allowed: String,
    },
    /// A file could not be created, written or closed.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file, `-` for standard output.
        path: PathBuf,
        /// What went wrong.
        source: ArrowError,
    },
    /// Columns that do not fit their schema: a defect of this module.
    #[error("cannot build a batch: {0}")]
    Batch(#[from] ArrowError),
}

impl Error {
    pub(crate) fn invalid(flag: &'static str, given: impl ToString, allowed: impl ToString) -> Self {
        Error::Invalid { flag, given: given.to_string(), allowed: allowed.to_string() }
    }
}
