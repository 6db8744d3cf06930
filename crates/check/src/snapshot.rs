//! Snapshots that are not what was written.

use std::ops::Range;

use crc32fast::hash;
use highwater::{Error, SnapshotFault};

use crate::case::Case;
use crate::engine::Engine;

/// How many digits the checksum has.
const DIGITS: usize = 8;

/// Takes a snapshot in the middle of a case, and edits its bytes. A changed file is refused. With a checksum that fits,
/// it may be accepted if an operator can be in such a state, and this operator then goes on without a panic.
pub fn edited_snapshots_are_refused_or_used(case: &Case, edits: &[u8]) {
    let (before, after) = case.ops.split_at(edits.first().map_or(0, |&at| usize::from(at) % case.ops.len()));
    let mut engine = Engine::new(case, 1);
    for op in before {
        if engine.apply(op).is_err() {
            return;
        }
    }
    let snapshot = engine.operator.snapshot().expect("there is a snapshot of every case");
    let restore = |bytes: &[u8]| engine.restored_from(case, bytes);
    if let Some(mut restored) = refused_or_restored(&snapshot, edits.get(1..).unwrap_or_default(), restore) {
        for op in after {
            let _ = restored.apply(op);
        }
    }
}

/// What comes of a snapshot whose bytes are edited: nothing with the old checksum, and with one that fits what `restore`
/// makes of it, if it does.
pub(crate) fn refused_or_restored<O>(
    snapshot: &[u8],
    edits: &[u8],
    restore: impl Fn(&[u8]) -> Result<O, Error>,
) -> Option<O> {
    let mut edited = edit(snapshot, edits);
    let fault = |error| match error {
        Error::Snapshot { fault, .. } => fault,
        other => panic!("not an error of snapshots: {other}"),
    };
    if edited != snapshot {
        let refused = fault(restore(&edited).err().expect("bytes have changed"));
        assert!(matches!(refused, SnapshotFault::Damaged | SnapshotFault::Foreign), "{refused:?}");
    }
    reseal(&mut edited, checksum_in(snapshot));
    restore(&edited).map_err(fault).ok()
}

/// Changes bytes, five at a time: a place, what is done there, and with what.
fn edit(snapshot: &[u8], edits: &[u8]) -> Vec<u8> {
    let mut edited = snapshot.to_vec();
    for &[high, middle, low, what, value] in edits.as_chunks().0 {
        let place = u32::from_be_bytes([0, high, middle, low]) as usize % edited.len();
        let wide = |number: i64| number.to_le_bytes().to_vec();
        let put = match what % 8 {
            0 | 1 => vec![edited[place] ^ (1 << (value % 8))],
            2 => vec![value],
            3 => wide([0, 1, -1, i64::MIN, i64::MAX, 1 << 32, 1 << 20, 64][usize::from(value % 8)]),
            4 => wide(i64::from(value)),
            // from elsewhere in the file
            5 | 6 => {
                let from = (place + 8 * usize::from(value)) % edited.len();
                edited[from..].iter().take(8).copied().collect()
            }
            _ if value == 0 => {
                edited.truncate(place.max(32));
                vec![]
            }
            _ => vec![value; 8],
        };
        // fields of a file are aligned
        let place = if put.len() > 1 { place & !7 } else { place };
        edited.iter_mut().skip(place).zip(put).for_each(|(byte, put)| *byte = put);
    }
    edited
}

/// Where the checksum of a whole file is: with zeros in its place, it is what the bytes give.
fn checksum_in(file: &[u8]) -> Range<usize> {
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    let places = (0..=file.len() - DIGITS).rev().map(|start| start..start + DIGITS);
    let mut places = places.filter(|place| file[place.clone()].iter().all(is_digit));
    let place = places.find(|place| {
        let mut sealed = file.to_vec();
        reseal(&mut sealed, place.clone());
        sealed == file
    });
    place.expect("a snapshot has a checksum")
}

/// Makes the checksum fit the bytes, if its place is still there.
fn reseal(file: &mut [u8], place: Range<usize>) {
    if place.end <= file.len() {
        file[place.clone()].fill(b'0');
        let sum = hash(file);
        file[place].copy_from_slice(format!("{sum:08x}").as_bytes());
    }
}
