//! Files in which one column is another, sealed as if they had been written so.

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef};

use super::{Section, lists, record, write};

/// The column at the end of a path of names, replaced; lists are stepped into.
fn replaced(array: &ArrayRef, path: &[&str], with: &ArrayRef) -> ArrayRef {
    let Some((name, rest)) = path.split_first() else { return with.clone() };
    if let Some(of_lists) = array.as_list_opt::<i64>() {
        let values = replaced(of_lists.values(), path, with);
        let lengths = (0..of_lists.len()).map(|row| of_lists.value(row).len());
        return lists(lengths, values).unwrap();
    }
    let columns = array.as_struct().fields().iter().zip(array.as_struct().columns());
    let columns = columns.map(|(field, column)| {
        let column = if field.name() == name { replaced(column, rest, with) } else { column.clone() };
        (field.name().as_str(), column)
    });
    record(columns.collect()).unwrap()
}

/// A whole file of these sections, but for the column at the end of a path into one of them.
pub(crate) fn forged(
    configuration: &str,
    mut sections: Vec<Section<'_>>,
    section: &str,
    path: &[&str],
    with: &ArrayRef,
) -> Vec<u8> {
    for changed in sections.iter_mut().filter(|changed| changed.name == section) {
        let pieces: Vec<ArrayRef> = changed.pieces.by_ref().map(Result::unwrap).collect();
        let all: Vec<&dyn Array> = pieces.iter().map(|piece| piece.as_ref()).collect();
        let all = arrow_select::concat::concat(&all).unwrap();
        changed.pieces = Box::new(std::iter::once(Ok(replaced(&all, path, with))));
    }
    let mut file = Vec::new();
    write(&mut file, configuration, sections).unwrap();
    file
}
