//! Keys out of the columns of a snapshot.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};

use super::{Code, Codes, Encoding, Interner, KeyColumns, canonical_floats, encode_column};
use crate::snapshot::Checked;

impl KeyColumns {
    /// The codes of columns that [`decode`](KeyColumns::decode) has made.
    pub(crate) fn restore(&self, columns: &[ArrayRef], interner: &mut Interner) -> Checked<Codes> {
        for (field, column) in self.fields.iter().zip(columns) {
            if field.data_type() != column.data_type() {
                let (name, given) = (field.name(), column.data_type());
                return Err(format!("key {name:?} is {} and cannot be {given}", field.data_type()));
            }
        }
        let mut codes = Codes::default();
        match (&self.encoding, columns) {
            (Encoding::Unkeyed, _) => codes.codes.push(0),
            (Encoding::Bits | Encoding::Bytes, [column]) => encode_column(column, interner, &mut codes),
            _ => {
                // dictionaries have come out as their values, and those are encoded to the same bytes
                let fields = self.fields.iter().map(|field| SortField::new(field.data_type().clone()));
                let converter = RowConverter::new(fields.collect()).map_err(|error| error.to_string())?;
                let columns: Vec<_> = columns.iter().map(canonical_floats).collect();
                let rows = converter.convert_columns(&columns).map_err(|error| error.to_string())?;
                codes.codes.extend(rows.iter().map(|row| interner.intern(row.data()) as Code));
            }
        }
        Ok(codes)
    }
}
