//! Keys in a snapshot and out of it.

use arrow_array::ArrayRef;

use super::{Code, Codes, Interner, KeyColumns};
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
        if columns.len() != self.fields.len() {
            return Err(format!("{} key columns, not {}", columns.len(), self.fields.len()));
        }
        for (field, column) in self.fields.iter().zip(columns) {
            if field.data_type() != column.data_type() {
                let (name, given) = (field.name(), column.data_type());
                return Err(format!("key {name:?} is {} and cannot be {given}", field.data_type()));
            }
        }
        let mut codes = Codes::default();
        // dictionaries have come out as their values, and those have the same codes
        let mut source = self.source(columns).map_err(|error| error.to_string())?;
        source.encode(0..saved.len(), interner, &mut codes);
        Ok(codes)
    }
}
