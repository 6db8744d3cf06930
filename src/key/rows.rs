//! Several key columns, or wide ones, as one string of bytes.
//!
//! A row has the codes of its columns side by side, in as many bytes as the type of each needs: narrow and wide values as
//! they are, and for strings the numbers that an interner of the column's own gives them. So all rows are equally long,
//! a few columns make a row as short as a short string, and rows are equal if and only if their keys are. The rows are
//! interned in turn.
//!
//! ```text
//! nulls                                    a bit for each column, in whole bytes
//! narrow values (integers, floats, ...)    their 1, 2, 4 or 8 bytes; zeros for null
//! wide values (decimals, fixed binary)     their bytes; zeros for null
//! strings, binary                          4 bytes: one more than the number; 0 for null
//! ```

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::Decimal128Type;
use arrow_array::{Array, ArrayRef, Decimal128Array, FixedSizeBinaryArray};
use arrow_schema::{DataType, FieldRef};

use super::decode::{bits_to_array, bytes_to_array};
use super::interner::{SHORT, Word};
use super::{Code, Codes, Interner, Source, is_bytes};
use crate::error::Result;

/// What a row is made of.
#[derive(Debug)]
pub(super) struct Layout {
    places: Vec<Place>,
    /// Bytes of a row, and from one row to the next.
    width: usize,
    stride: usize,
}

/// Where a column is in a row.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    width: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Narrow,
    Wide,
    Strings,
}

impl Layout {
    /// For key columns whose values are of these types.
    pub(super) fn new(fields: &[FieldRef]) -> Self {
        let mut width = fields.len().div_ceil(8);
        let mut places = Vec::new();
        for field in fields {
            let (kind, bytes) = match field.data_type() {
                strings if is_bytes(strings) => (Kind::Strings, size_of::<u32>()),
                DataType::Decimal128(..) => (Kind::Wide, size_of::<i128>()),
                DataType::FixedSizeBinary(bytes) => (Kind::Wide, *bytes as usize),
                DataType::Boolean => (Kind::Narrow, 1),
                narrow => (Kind::Narrow, narrow.primitive_width().unwrap_or(size_of::<Code>())),
            };
            places.push(Place { at: width, width: bytes, kind });
            width += bytes;
        }
        let stride = if width <= SHORT { size_of::<Word>() } else { width };
        Layout { places, width, stride }
    }

    /// Which columns have numbers of an interner of their own, and where.
    pub(super) fn strings(&self) -> impl Iterator<Item = Option<usize>> {
        self.places.iter().map(|place| (place.kind == Kind::Strings).then_some(place.at))
    }

    /// The key columns of rows, given their codes.
    pub(super) fn decode(
        &self,
        fields: &[FieldRef],
        codes: &[Code],
        interner: &Interner,
    ) -> Result<Vec<ArrayRef>> {
        let rows: Vec<&[u8]> = codes.iter().map(|&code| interner.get(code as u32)).collect();
        let mut columns = Vec::new();
        for (number, (place, field)) in self.places.iter().zip(fields).enumerate() {
            let nulls: Vec<bool> = rows.iter().map(|row| row[number / 8] >> (number % 8) & 1 == 1).collect();
            let values = || rows.iter().map(|row| &row[place.at..][..place.width]);
            let wide = || values().zip(&nulls).map(|(value, null)| (!null).then_some(value));
            columns.push(match (place.kind, field.data_type()) {
                (Kind::Narrow, narrow) => {
                    bits_to_array(narrow, &values().map(number_of).collect::<Vec<_>>(), Some(&nulls))
                }
                (Kind::Strings, strings) => {
                    let string = |of: u32| Some(interner.of_column(number).get(of.checked_sub(1)?));
                    bytes_to_array(strings, values().map(|value| string(number_of(value) as u32)))
                }
                (Kind::Wide, DataType::FixedSizeBinary(bytes)) => {
                    Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(wide(), *bytes)?)
                }
                (Kind::Wide, decimal) => {
                    let value = |bytes: &[u8]| bytes.first_chunk().map(|&bytes| i128::from_le_bytes(bytes));
                    let values: Decimal128Array = wide().map(|bytes| bytes.and_then(value)).collect();
                    Arc::new(values.with_data_type(decimal.clone()))
                }
            });
        }
        Ok(columns)
    }
}

/// Up to eight bytes as a number.
fn number_of(bytes: &[u8]) -> Code {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | Code::from(byte))
}

/// The keys of one batch.
pub(super) struct Rows {
    layout: Arc<Layout>,
    columns: Vec<Source>,
    /// Room for the codes of a column, and for rows.
    codes: Codes,
    bytes: Vec<u8>,
}

impl Rows {
    /// Of these key columns.
    pub(super) fn new(layout: &Arc<Layout>, columns: &[ArrayRef]) -> Result<Self> {
        let sources = layout.places.iter().zip(columns).map(|(place, column)| match place.kind {
            Kind::Wide => Source::plain(column),
            Kind::Narrow | Kind::Strings => Source::of(column),
        });
        let columns = sources.collect::<Result<_>>()?;
        Ok(Rows { layout: layout.clone(), columns, codes: Codes::default(), bytes: Vec::new() })
    }

    /// The codes of some rows.
    pub(super) fn encode(&mut self, rows: Range<usize>, interner: &mut Interner, out: &mut Vec<Code>) {
        let Rows { layout, columns, codes, bytes } = self;
        bytes.clear();
        bytes.resize(rows.len() * layout.stride, 0);
        for (number, (place, source)) in layout.places.iter().zip(columns).enumerate() {
            let mut mark = |row: usize| bytes[row * layout.stride + number / 8] |= 1 << (number % 8);
            if let (Kind::Wide, Source::Column(column)) = (place.kind, &*source) {
                let column = column.slice(rows.start, rows.len());
                (0..rows.len()).filter(|&row| column.is_null(row)).for_each(mark);
                put_wide(&column, bytes, layout.stride, place.at);
                continue;
            }
            source.encode(rows.clone(), interner.column(number, layout), codes);
            if let Some(nulls) = codes.nulls() {
                (0..rows.len()).filter(|&row| nulls[row]).for_each(&mut mark);
            }
            if place.kind == Kind::Strings {
                let known = |row: usize| codes.nulls().is_none_or(|nulls| !nulls[row]);
                let numbers = (0..rows.len()).map(|row| if known(row) { codes.codes[row] + 1 } else { 0 });
                put::<4>(numbers, bytes, layout.stride, place.at);
                continue;
            }
            let values = codes.codes.iter().copied();
            match place.width {
                1 => put::<1>(values, bytes, layout.stride, place.at),
                2 => put::<2>(values, bytes, layout.stride, place.at),
                4 => put::<4>(values, bytes, layout.stride, place.at),
                _ => put::<8>(values, bytes, layout.stride, place.at),
            }
        }
        if layout.width > SHORT {
            out.extend(bytes.chunks_exact(layout.width).map(|row| Code::from(interner.intern(row))));
            return;
        }
        let word = |bytes: &[u8; _]| u128::from_le_bytes(*bytes) | (layout.width as u128) << (8 * SHORT);
        let words = bytes.as_chunks().0.iter().map(word);
        out.extend(words.map(|word| Code::from(interner.intern_word(word.to_le_bytes()))));
    }
}

/// Puts the lowest bytes of a number into each row.
fn put<const N: usize>(numbers: impl Iterator<Item = Code>, rows: &mut [u8], stride: usize, at: usize) {
    for (number, row) in numbers.zip(rows.chunks_exact_mut(stride)) {
        row[at..at + N].copy_from_slice(&number.to_le_bytes()[..N]);
    }
}

/// Puts the bytes of a wide value into each row that has one.
fn put_wide(column: &ArrayRef, rows: &mut [u8], stride: usize, at: usize) {
    let valid = rows.chunks_exact_mut(stride).enumerate().filter(|&(row, _)| column.is_valid(row));
    match column.as_fixed_size_binary_opt() {
        Some(binary) => valid.for_each(|(row, bytes)| {
            let value = binary.value(row);
            bytes[at..at + value.len()].copy_from_slice(value);
        }),
        None => {
            let decimals = column.as_primitive::<Decimal128Type>();
            valid.for_each(|(row, bytes)| {
                bytes[at..at + 16].copy_from_slice(&decimals.value(row).to_le_bytes())
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use arrow_array::types::Int8Type;
    use arrow_array::{
        BooleanArray, DictionaryArray, Float64Array, Int8Array, Int32Array, Int64Array, RecordBatch,
        StringArray, StringViewArray, TimestampMillisecondArray, UInt16Array,
    };
    use arrow_schema::{Field, Schema};

    use super::*;
    use crate::key::KeyColumns;

    const ROWS: usize = 300;

    /// A column of each kind, of a few values and nulls; which one a row has is up to `pick`.
    fn columns(pick: impl Fn(usize, usize) -> Option<usize>) -> Vec<ArrayRef> {
        fn all<T, A: FromIterator<Option<T>>>(rows: Vec<Option<usize>>, value: impl Fn(usize) -> T) -> A {
            rows.into_iter().map(|row| row.map(&value)).collect()
        }
        let rows = |column: usize| (0..ROWS).map(|row| pick(column, row)).collect::<Vec<_>>();
        let texts =
            ["", "a", "a\0", "fifteen bytes..", "sixteen bytes...", "a string that is longer than a word"];
        let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.5, f64::INFINITY];
        let decimals = |value: usize| [0, 1, -1, i128::MAX / 2, 1 << 64, -(1 << 64)][value];
        let keys = |column: usize| -> Int8Array { all(rows(column), |value| value as i8) };
        let decimal_values: Decimal128Array = (0..6).map(|value| Some(decimals(value))).collect();
        let binary = |value: usize| [value as u8, 0, 255 - value as u8].to_vec();
        vec![
            Arc::new(all::<_, Int32Array>(rows(0), |value| value as i32 - 3)),
            Arc::new(all::<_, StringArray>(rows(1), |value| texts[value])),
            Arc::new(all::<_, Float64Array>(rows(2), |value| floats[value])),
            Arc::new(all::<_, BooleanArray>(rows(3), |value| value % 2 == 0)),
            Arc::new(all::<_, Decimal128Array>(rows(4), decimals).with_precision_and_scale(38, 3).unwrap()),
            Arc::new(DictionaryArray::<Int8Type>::new(keys(5), Arc::new(StringArray::from(texts.to_vec())))),
            Arc::new(DictionaryArray::<Int8Type>::new(keys(6), Arc::new(decimal_values))),
            Arc::new(
                FixedSizeBinaryArray::try_from_sparse_iter_with_size(
                    rows(7).into_iter().map(|row| row.map(binary)),
                    3,
                )
                .unwrap(),
            ),
            Arc::new(all::<_, StringViewArray>(rows(8), |value| texts[value])),
            Arc::new(all::<_, TimestampMillisecondArray>(rows(9), |value| i64::MAX - value as i64)),
            Arc::new(all::<_, UInt16Array>(rows(10), |value| u16::MAX - value as u16)),
            Arc::new(all::<_, Int64Array>(rows(11), |value| i64::MIN + value as i64)),
        ]
    }

    fn key_columns(columns: &[ArrayRef]) -> (KeyColumns, RecordBatch) {
        let field = |(number, column): (usize, &ArrayRef)| {
            Field::new(format!("k{number}"), column.data_type().clone(), true)
        };
        let schema = Arc::new(Schema::new(columns.iter().enumerate().map(field).collect::<Vec<_>>()));
        let keys = KeyColumns::new(&schema, (0..columns.len()).collect()).unwrap();
        (keys, RecordBatch::try_new(schema, columns.to_vec()).unwrap())
    }

    /// What the key of each row means.
    fn texts(columns: &[ArrayRef]) -> Vec<String> {
        let one = |column: &ArrayRef, row: usize| match Source::plain(&column.slice(row, 1)).unwrap() {
            Source::Column(value) if value.is_null(0) => "null".to_string(),
            Source::Column(value) => match value.as_primitive_opt::<arrow_array::types::Float64Type>() {
                Some(float) => format!("{:?}", float.value(0) + 0.0),
                None => format!("{value:?}"),
            },
            _ => panic!("it is plain"),
        };
        let text = |row| columns.iter().map(|column| one(column, row)).collect::<Vec<_>>().join(" ");
        (0..columns[0].len()).map(text).collect()
    }

    /// Rows have the same code if their keys mean the same, and codes mean their keys, in this interner, in another one,
    /// and after others have been forgotten.
    fn check(columns: &[ArrayRef]) {
        let (keys, batch) = key_columns(columns);
        let expected = texts(columns);
        let mut interner = Interner::default();
        let (mut prepared, mut codes) = (keys.prepare(&batch).unwrap(), Codes::default());
        let mut all = vec![];
        for from in (0..ROWS).step_by(70) {
            prepared.encode(from, ROWS.min(from + 70), &mut interner, &mut codes);
            assert!(codes.nulls().is_none(), "no row of several columns is a null");
            all.extend_from_slice(&codes.codes);
        }
        let mut by_text: BTreeMap<&str, Code> = BTreeMap::new();
        for (text, &code) in expected.iter().zip(&all) {
            let next = by_text.len() as Code;
            assert_eq!(*by_text.entry(text).or_insert(next), code, "{text}");
        }
        let decoded =
            |codes: &[Code], interner: &Interner| texts(&keys.decode(codes, None, interner).unwrap());
        assert_eq!(decoded(&all, &interner), expected);
        // others before them, so that numbers differ
        let mut other = Interner::default();
        let mut prepared = keys.prepare(&batch).unwrap();
        prepared.encode(ROWS / 2, ROWS, &mut other, &mut codes);
        let adopted: Vec<Code> = all.iter().map(|&code| other.adopt(&interner, code as u32).into()).collect();
        assert_eq!(decoded(&adopted, &other), expected);
        let mut again = Codes::default();
        prepared.encode(0, ROWS, &mut other, &mut again);
        assert_eq!(again.codes, adopted);
        // every third key is forgotten
        let used: Vec<bool> = (0..interner.len()).map(|number| number % 3 != 0).collect();
        let before = interner.size();
        let renamed = interner.retain(&used);
        let kept = |&&code: &&Code| used[code as usize];
        let rows: Vec<Code> = all.iter().filter(kept).map(|&code| renamed[code as usize].into()).collect();
        let texts = all.iter().zip(&expected).filter(|(code, _)| kept(code)).map(|(_, text)| text.clone());
        assert_eq!(decoded(&rows, &interner), texts.collect::<Vec<_>>());
        assert!(interner.size() <= before);
        assert!(keys.decode(&[], None, &Interner::default()).unwrap().iter().all(|column| column.is_empty()));
    }

    #[test]
    fn rows_are_equal_if_their_keys_are() {
        let mixed = |column: usize, row: usize| {
            let value = (row + 1).wrapping_mul(0x9e37_79b9 + 2 * column) >> 7;
            (value % 7 < 6).then_some(value % 6)
        };
        let all = columns(mixed);
        check(&all);
        for (number, one) in all.iter().enumerate() {
            for other in &all[number + 1..] {
                check(&[one.clone(), other.clone()]);
                check(&[other.clone(), one.clone(), all[0].clone()]);
            }
        }
        // wide ones alone
        check(&all[4..5]);
        check(&all[6..7]);
        check(&all[7..8]);
        // no nulls at all, and nothing else
        check(&columns(|column, row| Some((row / (column + 1)) % 6))[..2]);
        check(&columns(|_, _| None)[..9]);
        // a part of each column
        let parts: Vec<ArrayRef> = columns(mixed).iter().map(|column| column.slice(0, ROWS)).collect();
        check(&parts);
    }

    #[test]
    fn values_of_dictionaries_that_no_row_has_are_forgotten() {
        let many = 70_000;
        let values: ArrayRef =
            Arc::new((0..many).map(|number| Some(format!("v{number}"))).collect::<StringArray>());
        for (distinct, last) in [(1, 0), (many, many - 1)] {
            let of_dictionary = (0..many).map(|row| Some(row % distinct)).collect::<Int32Array>();
            let dictionary = DictionaryArray::new(of_dictionary, values.clone());
            let number = Int64Array::from(vec![7; many as usize]);
            let (keys, batch) = key_columns(&[Arc::new(dictionary), Arc::new(number)]);
            let (mut interner, mut codes) = (Interner::default(), Codes::default());
            keys.prepare(&batch).unwrap().encode(0, many as usize, &mut interner, &mut codes);
            assert_eq!((interner.len(), codes.codes[last as usize]), (distinct as usize, last as Code));
            assert!(interner.wants_retain());
            let before = interner.size();
            let renamed = interner.retain(&vec![true; distinct as usize]);
            assert_eq!(renamed, (0..distinct as u32).collect::<Vec<_>>());
            assert!(!interner.wants_retain(), "all that is left is used");
            assert!(distinct > 1 || interner.size() < before / 1_000);
            let decoded = keys.decode(&[last as Code], None, &interner).unwrap();
            assert_eq!(texts(&decoded), texts(batch.slice(last as usize, 1).columns()));
        }
    }

    #[test]
    fn a_row_is_as_long_as_its_columns() {
        let width = |types: &[DataType]| {
            let fields: Vec<FieldRef> =
                types.iter().map(|t| Arc::new(Field::new("k", t.clone(), true))).collect();
            let layout = Layout::new(&fields);
            (layout.width, layout.stride)
        };
        use DataType::*;
        assert_eq!(width(&[Int32, Utf8]), (1 + 4 + 4, 16));
        assert_eq!(width(&[Boolean, Int16, Utf8View, Int64]), (1 + 1 + 2 + 4 + 8, 16));
        assert_eq!(width(&[Int64, Float64]), (17, 17));
        assert_eq!(width(&[Decimal128(10, 2)]), (17, 17));
        assert_eq!(width(&[FixedSizeBinary(5), FixedSizeBinary(0)]), (6, 16));
        assert_eq!(width(&vec![Boolean; 9]), (2 + 9, 16));
    }
}
