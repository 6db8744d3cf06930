//! Keys in a snapshot and out of it.

use arrow_array::ArrayRef;
use arrow_row::{RowConverter, SortField};

use super::{Code, Codes, Encoding, Interner, KeyColumns, canonical_floats, encode_column};
use crate::snapshot::{Checked, Record, record};

impl KeyColumns {
    /// The column `key`: a struct of the key columns. None if there are none.
    pub(crate) fn save(
        &self,
        codes: &[Code],
        nulls: &[bool],
        interner: &Interner,
    ) -> Checked<Option<(&'static str, ArrayRef)>> {
        if self.fields.is_empty() {
            return Ok(None);
        }
        let nulls = nulls.iter().any(|&null| null).then_some(nulls);
        let columns = self.decode(codes, nulls, interner).map_err(|error| error.to_string())?;
        let names = self.fields.iter().map(|field| field.name().as_str());
        Ok(Some(("key", record(names.zip(columns).collect())?)))
    }

    /// The codes of a column that [`save`](KeyColumns::save) has made.
    pub(crate) fn restore(&self, saved: &Record<'_>, interner: &mut Interner) -> Checked<Codes> {
        let columns = match self.fields.is_empty() {
            true => &[],
            false => Record::of(saved.column("key")?)?.columns(),
        };
        for (field, column) in self.fields.iter().zip(columns) {
            if field.data_type() != column.data_type() {
                let (name, given) = (field.name(), column.data_type());
                return Err(format!("key {name:?} is {} and cannot be {given}", field.data_type()));
            }
        }
        let mut codes = Codes::default();
        match (&self.encoding, columns) {
            (Encoding::Unkeyed, _) => codes.codes.resize(saved.len(), 0),
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
