//! Everything that an operator holds, as one file that any Arrow reader opens.
//!
//! A snapshot is an Arrow IPC file. Each column is a section: a list of structs whose fields say what they are. Every row
//! of the file brings more of one section, and a section is all its lists, one behind the other. The schema's metadata
//! names the format, its version, and how the operator was built; a checksum of the whole file stands in the footer. See
//! `docs/snapshot.md` for the sections of each operator.
//!
//! ```text
//! ARROW1 | schema | input | partitions | windows | slices | slices | ... | footer with checksum | ARROW1
//! ```
//!
//! Who adds state to an operator gives it a [`Section`] of its own, or columns in one that there is.

mod layout;
mod reader;
mod record;
mod writer;

#[cfg(test)]
pub(crate) mod forged;

use arrow_array::{Array, ArrayRef};

pub(crate) use reader::{File, Pieces};
pub(crate) use record::{Checked, Record, each_list, lists, record};
pub(crate) use writer::write;

/// Keys of the schema's metadata.
const FORMAT: &str = "highwater.format";
const VERSION: &str = "highwater.version";
const CONFIGURATION: &str = "highwater.configuration";
/// The key of the footer's metadata.
const CHECKSUM: &str = "highwater.checksum";

const FORMAT_NAME: &str = "highwater snapshot";
/// Counted up with every change that older readers would not understand.
const VERSION_NUMBER: u32 = 1;
/// The checksum while the file is being summed up: as many hexadecimal digits as a CRC-32 has.
const NO_CHECKSUM: &str = "00000000";

/// A part of a snapshot: structs, in pieces so that no more than one has to be in memory.
pub(crate) struct Section<'a> {
    pub(crate) name: &'static str,
    /// No structs, but their type.
    pub(crate) empty: ArrayRef,
    pub(crate) pieces: Box<dyn Iterator<Item = Checked<ArrayRef>> + 'a>,
}

impl Section<'_> {
    /// A small one.
    pub(crate) fn whole(name: &'static str, rows: ArrayRef) -> Self {
        Section { name, empty: rows.slice(0, 0), pieces: Box::new(std::iter::once(Ok(rows))) }
    }
}

/// The first line in which two descriptions differ; what is done with the rows comes before how they come.
pub(crate) fn difference(snapshot: &str, here: &str) -> Option<String> {
    let process =
        |lines: &str| lines.lines().find_map(|line| line.strip_prefix("process: ").map(str::to_string));
    if let (Some(taken), Some(built)) = (process(snapshot), process(here))
        && taken != built
    {
        return Some(format!("process is {built} here, but was {taken} when the snapshot was taken"));
    }
    let (mut snapshot, mut here) = (snapshot.lines(), here.lines());
    loop {
        let (taken, built) = (snapshot.next(), here.next());
        if taken == built {
            taken?;
            continue;
        }
        let (taken, built) = (taken.unwrap_or("nothing more"), built.unwrap_or("nothing more"));
        let parameters = taken.split_once(": ").zip(built.split_once(": "));
        return Some(match parameters {
            Some(((name, taken), (other, built))) if name == other => {
                format!("{name} is {built} here, but was {taken} when the snapshot was taken")
            }
            _ => format!("\"{built}\" here, but \"{taken}\" when the snapshot was taken"),
        });
    }
}

/// The page for users, whose example is compiled here.
#[cfg(doctest)]
#[doc = include_str!("../../docs/snapshot.md")]
struct Page;
