//! Key columns to codes, and back.
//!
//! A code is a number that stands for a key. One narrow column is its own code; all other keys are byte strings that an
//! [`Interner`] numbers. Whoever maps keys never sees values, and state never sees keys.

mod decode;
mod filter;
mod interner;
mod places;
mod repeats;
mod rows;
mod saved;
mod slots;
mod union;

use std::ops::Range;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{ByteArrayType, Float16Type, Float32Type, Float64Type, Int32Type, Int64Type};
use arrow_array::{
    AnyDictionaryArray, Array, ArrayRef, ArrowPrimitiveType, GenericByteArray, RecordBatch, UInt32Array,
};
use arrow_buffer::{ArrowNativeType, ScalarBuffer};
use arrow_schema::{DataType, Field, FieldRef, Schema};

use decode::{bits_to_array, bytes_to_array};
pub(crate) use interner::Interner;
pub(crate) use places::Places;
pub(crate) use repeats::Repeats;
pub(crate) use slots::{Code, Key, MAX_SLOTS, Slots, hash};
pub(crate) use union::Union;

use rows::{Layout, Rows};

use crate::block::{BLOCK, Block};
use crate::error::{Error, Result};

/// The key columns of an operator.
#[derive(Debug)]
pub(crate) struct KeyColumns {
    columns: Vec<usize>,
    /// Name and output type of each: a dictionary comes out as its values.
    pub(crate) fields: Vec<FieldRef>,
    encoding: Encoding,
}

#[derive(Debug)]
enum Encoding {
    /// No key column: one key.
    Unkeyed,
    /// One column of at most 64 bits: its bits, sign-extended.
    Bits,
    /// One column of strings or binary.
    Bytes,
    /// Several columns, or wide ones.
    Rows(Arc<Layout>),
}

fn value_type(data_type: &DataType) -> &DataType {
    match data_type {
        DataType::Dictionary(_, values) => values,
        other => other,
    }
}

impl KeyColumns {
    pub(crate) fn new(schema: &Schema, columns: Vec<usize>) -> Result<Self> {
        let mut fields: Vec<FieldRef> = Vec::new();
        for &column in &columns {
            let field = schema.field(column);
            let output = value_type(field.data_type());
            if !is_key_type(output) {
                return Err(Error::ColumnType {
                    parameter: "key".into(),
                    column: field.name().clone(),
                    given: field.data_type().to_string(),
                    allowed:
                        "integers, floats, Boolean, strings, binary, Decimal128, dates, times, timestamps, \
                              durations, and dictionaries of these"
                            .into(),
                });
            }
            fields.push(Arc::new(Field::new(field.name(), output.clone(), true)));
        }
        let encoding = match fields.as_slice() {
            [] => Encoding::Unkeyed,
            [field] if is_bytes(field.data_type()) => Encoding::Bytes,
            [field] if is_bits(field.data_type()) => Encoding::Bits,
            fields => Encoding::Rows(Arc::new(Layout::new(fields))),
        };
        Ok(KeyColumns { columns, fields, encoding })
    }

    /// Which columns of the schema they are.
    pub(crate) fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// Whether codes are numbers of an [`Interner`].
    pub(crate) fn interns(&self) -> bool {
        matches!(self.encoding, Encoding::Bytes | Encoding::Rows(_))
    }

    /// Makes the keys of a batch ready to be encoded morsel by morsel.
    pub(crate) fn prepare(&self, batch: &RecordBatch) -> Result<BatchKeys> {
        let columns: Vec<_> = self.columns.iter().map(|&column| batch.column(column).clone()).collect();
        Ok(BatchKeys { source: self.source(&columns)? })
    }

    /// What codes are made of, given the key columns.
    fn source(&self, columns: &[ArrayRef]) -> Result<Source> {
        match (&self.encoding, columns) {
            (Encoding::Rows(layout), columns) => Ok(Source::Rows(Rows::new(layout, columns)?)),
            (Encoding::Bits | Encoding::Bytes, [column]) => Source::of(column),
            _ => Ok(Source::Unkeyed),
        }
    }

    /// The codes of a few rows of a batch.
    pub(crate) fn encode_rows(
        &self,
        batch: &RecordBatch,
        rows: &[u32],
        interner: &mut Interner,
    ) -> Result<Codes> {
        let taken = arrow_select::take::take_record_batch(batch, &UInt32Array::from(rows.to_vec()))?;
        let mut codes = Codes::default();
        self.prepare(&taken)?.encode(0, rows.len(), interner, &mut codes);
        Ok(codes)
    }

    /// The key columns of slots, given their codes.
    pub(crate) fn decode(
        &self,
        codes: &[Code],
        nulls: Option<&[bool]>,
        interner: &Interner,
    ) -> Result<Vec<ArrayRef>> {
        match &self.encoding {
            Encoding::Unkeyed => Ok(vec![]),
            Encoding::Rows(layout) => layout.decode(&self.fields, codes, interner),
            Encoding::Bits => Ok(vec![bits_to_array(self.fields[0].data_type(), codes, nulls)]),
            Encoding::Bytes => {
                let strings = codes
                    .iter()
                    .enumerate()
                    .map(|(i, &code)| (!nulls.is_some_and(|n| n[i])).then(|| interner.get(code as u32)));
                Ok(vec![bytes_to_array(self.fields[0].data_type(), strings)])
            }
        }
    }

    /// A key as errors show it: ` key (tenant=acme)`.
    pub(crate) fn describe(&self, columns: &[ArrayRef], row: usize) -> String {
        if columns.is_empty() {
            return String::new();
        }
        let shown = self.fields.iter().zip(columns).map(|(field, column)| {
            let value = column.slice(row, 1);
            format!("{}={}", field.name(), display(&value))
        });
        format!(" key ({})", shown.collect::<Vec<_>>().join(", "))
    }
}

/// One value, without a formatting library: Arrow's debug form of a one-row array holds it on its second line.
fn display(one: &ArrayRef) -> String {
    let text = format!("{one:?}");
    text.lines().nth(2).unwrap_or("null").trim().trim_end_matches(',').to_string()
}

/// The keys of one batch.
pub(crate) struct BatchKeys {
    source: Source,
}

enum Source {
    Unkeyed,
    Column(ArrayRef),
    /// Signed integers without nulls need no encoding.
    Int32(ScalarBuffer<i32>),
    Int64(ScalarBuffer<i64>),
    Dictionary {
        column: ArrayRef,
        /// What is known of the dictionary's values; found when the first row is encoded.
        values: Option<Arc<Dictionary>>,
    },
    Rows(Rows),
}

impl Source {
    /// A column that is narrow or of strings, or a dictionary of such.
    fn of(column: &ArrayRef) -> Result<Self> {
        if let Some(dictionary) = column.as_any_dictionary_opt() {
            // one much longer than the batch costs more to encode than the rows; one without values has nothing but nulls
            let values = dictionary.values().len();
            return match values == 0 || values > 4 * column.len() {
                true => Source::plain(column),
                false => Ok(Source::Dictionary { column: column.clone(), values: None }),
            };
        }
        let nulls = column.null_count() > 0;
        Ok(match column.data_type() {
            DataType::Int32 if !nulls => Source::Int32(column.as_primitive::<Int32Type>().values().clone()),
            DataType::Int64 if !nulls => Source::Int64(column.as_primitive::<Int64Type>().values().clone()),
            _ => Source::Column(column.clone()),
        })
    }

    /// A column, with a dictionary's values in the place of its keys.
    fn plain(column: &ArrayRef) -> Result<Self> {
        Ok(Source::Column(match column.as_any_dictionary_opt() {
            Some(dictionary) => arrow_select::take::take(dictionary.values(), dictionary.keys(), None)?,
            None => column.clone(),
        }))
    }

    /// Finds the codes of the values of a dictionary. If they are their places in it, its keys need no encoding either.
    fn look_into_dictionary(&mut self, interner: &mut Interner) {
        let Source::Dictionary { column, values: values @ None } = self else { return };
        let dictionary = column.as_any_dictionary();
        let found = interner.dictionary(dictionary.values());
        match dictionary.keys().as_primitive_opt::<Int32Type>() {
            Some(keys) if found.in_order && keys.null_count() == 0 => {
                *self = Source::Int32(keys.values().clone());
            }
            _ => *values = Some(found),
        }
    }

    /// Encodes some rows.
    fn encode(&mut self, rows: Range<usize>, interner: &mut Interner, out: &mut Codes) {
        out.codes.clear();
        out.nulls.clear();
        out.any_null = false;
        self.look_into_dictionary(interner);
        match self {
            Source::Unkeyed => out.codes.resize(rows.len(), 0),
            Source::Column(column) => encode_column(&column.slice(rows.start, rows.len()), interner, out),
            Source::Int32(values) => out.codes.extend(values[rows].iter().map(|&value| value.code())),
            Source::Int64(values) => out.codes.extend(values[rows].iter().map(|&value| value.code())),
            Source::Rows(keys) => keys.encode(rows, interner, &mut out.codes),
            Source::Dictionary { column, values } => {
                let values = values.as_ref().expect("it has been looked into");
                let part = column.slice(rows.start, rows.len());
                translate(part.as_any_dictionary(), &values.codes, out);
            }
        }
    }
}

/// The keys of a morsel, by row of the morsel.
pub(crate) enum Keys<'a> {
    /// All the same.
    One,
    /// Codes that are still what they were in the column.
    Int32(&'a [i32]),
    Int64(&'a [i64]),
    Codes(&'a Codes),
}

impl Keys<'_> {
    /// The rows of each shard. Equal keys are in the same one.
    pub(crate) fn shards(&self, rows: usize, shards: usize) -> Vec<Vec<Block>> {
        if shards == 1 {
            return vec![Block::cover(0..rows)];
        }
        let code = |row: usize| match self {
            Keys::One => 0,
            Keys::Int32(keys) => keys[row].code(),
            Keys::Int64(keys) => keys[row].code(),
            Keys::Codes(codes) => codes.codes[row],
        };
        let mut blocks: Vec<Vec<Block>> = vec![Vec::new(); shards];
        for start in (0..rows).step_by(BLOCK) {
            for row in start..rows.min(start + BLOCK) {
                let mine = &mut blocks[shard_of(code(row), shards)];
                let bit = 1 << (row - start);
                match mine.last_mut() {
                    Some(block) if block.start == start => block.rows |= bit,
                    _ => mine.push(Block { start, rows: bit }),
                }
            }
        }
        blocks
    }
}

/// The shard of a key: its hash, scaled.
pub(crate) fn shard_of(code: Code, shards: usize) -> usize {
    ((u128::from(hash(code)) * shards as u128) >> 64) as usize
}

/// Codes of a morsel, by row of the morsel.
#[derive(Debug, Default)]
pub(crate) struct Codes {
    pub(crate) codes: Vec<Code>,
    nulls: Vec<bool>,
    any_null: bool,
}

impl Codes {
    /// One row's code, and whether it has the null key.
    pub(crate) fn get(&self, row: usize) -> (Code, bool) {
        (self.codes[row], self.any_null && self.nulls[row])
    }

    /// Which rows have the null key, if any has.
    pub(crate) fn nulls(&self) -> Option<&[bool]> {
        self.any_null.then_some(&self.nulls)
    }
}

impl BatchKeys {
    /// The keys of rows `from..to`; `codes` is room for those that have to be encoded.
    pub(crate) fn morsel<'a>(
        &'a mut self,
        Range { start: from, end: to }: Range<usize>,
        interner: &mut Interner,
        codes: &'a mut Codes,
    ) -> Keys<'a> {
        self.source.look_into_dictionary(interner);
        if matches!(self.source, Source::Column(_) | Source::Dictionary { .. } | Source::Rows(_)) {
            self.encode(from, to, interner, codes);
        }
        match &self.source {
            Source::Unkeyed => Keys::One,
            Source::Int32(values) => Keys::Int32(&values[from..to]),
            Source::Int64(values) => Keys::Int64(&values[from..to]),
            _ => Keys::Codes(codes),
        }
    }

    /// Encodes rows `from..to`.
    pub(crate) fn encode(&mut self, from: usize, to: usize, interner: &mut Interner, out: &mut Codes) {
        self.source.encode(from..to, interner, out);
    }
}

/// What is known of the values of a dictionary.
#[derive(Debug)]
struct Dictionary {
    values: ArrayRef,
    codes: Codes,
    /// Whether the code of each is its place: so it is of the first dictionary that comes, and of all that only add to it.
    in_order: bool,
}

impl Interner {
    /// Encodes the values of a dictionary, unless they are those of the last one: batches of one source often share them.
    fn dictionary(&mut self, values: &ArrayRef) -> Arc<Dictionary> {
        if let Some(known) = self.known.as_ref().filter(|known| Arc::ptr_eq(&known.values, values)) {
            return known.clone();
        }
        let mut codes = Codes::default();
        encode_column(values, self, &mut codes);
        let in_order = !codes.any_null && (0..).zip(&codes.codes).all(|(place, &code)| place == code);
        let dictionary = Arc::new(Dictionary { values: values.clone(), codes, in_order });
        self.known = Some(dictionary.clone());
        dictionary
    }
}

/// The codes of a dictionary array, out of those of its values, of which there are some.
fn translate(dictionary: &dyn AnyDictionaryArray, values: &Codes, out: &mut Codes) {
    out.codes.extend(dictionary.normalized_keys().into_iter().map(|key| values.codes[key]));
    let Some(nulls) = dictionary.logical_nulls().filter(|nulls| nulls.null_count() > 0) else { return };
    out.any_null = true;
    out.nulls.extend(nulls.iter().map(|valid| !valid));
    // whatever lies under a null must not look like a key
    out.codes.iter_mut().zip(&out.nulls).filter(|(_, null)| **null).for_each(|(code, _)| *code = 0);
}

/// Encodes a whole array of a narrow or a byte-string type.
fn encode_column(column: &ArrayRef, interner: &mut Interner, out: &mut Codes) {
    if let Some(nulls) = column.nulls().filter(|nulls| nulls.null_count() > 0) {
        out.nulls.extend(nulls.iter().map(|valid| !valid));
        out.any_null = true;
    }
    let nulls = column.nulls();
    let codes = &mut out.codes;
    match column.data_type() {
        DataType::Utf8 => intern_all(column.as_string::<i32>(), interner, codes),
        DataType::LargeUtf8 => intern_all(column.as_string::<i64>(), interner, codes),
        DataType::Utf8View => {
            intern_each(column.as_string_view().iter().map(|s| s.map(str::as_bytes)), interner, codes)
        }
        DataType::Binary => intern_all(column.as_binary::<i32>(), interner, codes),
        DataType::LargeBinary => intern_all(column.as_binary::<i64>(), interner, codes),
        DataType::BinaryView => intern_each(column.as_binary_view().iter(), interner, codes),
        DataType::Boolean => codes.extend(column.as_boolean().values().iter().map(u64::from)),
        DataType::Float16 => codes.extend(column.as_primitive::<Float16Type>().values().iter().map(|v| {
            let v = if v.is_nan() { half_nan() } else { *v };
            if v.to_f32() == 0.0 { 0 } else { v.to_bits() as Code }
        })),
        DataType::Float32 => codes.extend(
            column.as_primitive::<Float32Type>().values().iter().map(|&v| canonical32(v).to_bits() as Code),
        ),
        DataType::Float64 => codes.extend(
            column.as_primitive::<Float64Type>().values().iter().map(|&v| canonical64(v).to_bits() as Code),
        ),
        _ => encode_integers(column, codes),
    }
    if let Some(nulls) = nulls {
        // whatever lies under a null must not look like a key
        codes.iter_mut().zip(nulls.iter()).filter(|(_, valid)| !valid).for_each(|(code, _)| *code = 0);
    }
}

/// Integers and everything that is stored as one, sign-extended.
fn encode_integers(column: &ArrayRef, codes: &mut Vec<Code>) {
    let data = column.to_data();
    let buffer = &data.buffers()[0];
    let (offset, len) = (data.offset(), data.len());
    fn extend<T: ArrowNativeType>(
        buffer: &arrow_buffer::Buffer,
        offset: usize,
        len: usize,
        codes: &mut Vec<Code>,
        widen: impl Fn(T) -> Code,
    ) {
        codes.extend(ScalarBuffer::<T>::new(buffer.clone(), offset, len).iter().map(|&v| widen(v)));
    }
    match column.data_type() {
        DataType::Int8 => extend(buffer, offset, len, codes, |v: i8| v as i64 as u64),
        DataType::Int16 => extend(buffer, offset, len, codes, |v: i16| v as i64 as u64),
        DataType::UInt8 => extend(buffer, offset, len, codes, |v: u8| v as u64),
        DataType::UInt16 => extend(buffer, offset, len, codes, |v: u16| v as u64),
        DataType::UInt32 => extend(buffer, offset, len, codes, |v: u32| v as u64),
        DataType::Int32 | DataType::Date32 | DataType::Time32(_) => {
            extend(buffer, offset, len, codes, |v: i32| v as i64 as u64)
        }
        _ => extend(buffer, offset, len, codes, |v: i64| v as u64),
    }
}

/// Strings that lie one behind the other.
fn intern_all<T: ByteArrayType>(
    strings: &GenericByteArray<T>,
    interner: &mut Interner,
    codes: &mut Vec<Code>,
) {
    if strings.null_count() > 0 {
        return intern_each(strings.iter().map(|string| string.map(AsRef::as_ref)), interner, codes);
    }
    let bytes = strings.value_data();
    let ranges = strings.value_offsets().windows(2).map(|ends| ends[0].as_usize()..ends[1].as_usize());
    codes.extend(ranges.map(|range| Code::from(interner.intern_within(bytes, range))));
}

fn intern_each<'a>(
    strings: impl Iterator<Item = Option<&'a [u8]>>,
    interner: &mut Interner,
    codes: &mut Vec<Code>,
) {
    codes.extend(strings.map(|string| string.map_or(0, |string| interner.intern(string) as Code)));
}

/// NaN as a key is one key, and so is zero (SEMANTICS rule 27).
fn canonical64(value: f64) -> f64 {
    if value.is_nan() { f64::NAN } else { value + 0.0 }
}

fn canonical32(value: f32) -> f32 {
    if value.is_nan() { f32::NAN } else { value + 0.0 }
}

fn half_nan() -> <Float16Type as ArrowPrimitiveType>::Native {
    <Float16Type as ArrowPrimitiveType>::Native::NAN
}

fn is_bytes(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(data_type, Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView)
}

fn is_bits(data_type: &DataType) -> bool {
    use DataType::*;
    matches!(
        data_type,
        Boolean
            | Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Duration(_)
            | Float16
            | Float32
            | Float64
    ) || data_type.is_integer()
}

fn is_key_type(data_type: &DataType) -> bool {
    is_bytes(data_type)
        || is_bits(data_type)
        || matches!(data_type, DataType::Decimal128(..) | DataType::FixedSizeBinary(_))
}

#[cfg(test)]
mod tests {
    use arrow_array::{DictionaryArray, Int8Array, Int32Array, Int64Array, StringArray};
    use arrow_buffer::NullBuffer;

    use super::*;

    /// What the keys of a column stand for: the strings of their codes, morsel by morsel.
    fn keys_of(column: ArrayRef, interner: &mut Interner) -> (Vec<Option<String>>, bool) {
        let schema = Schema::new(vec![Field::new("key", column.data_type().clone(), true)]);
        let columns = KeyColumns::new(&schema, vec![0]).unwrap();
        let rows = column.len();
        let batch = RecordBatch::try_new(Arc::new(schema), vec![column]).unwrap();
        let mut keys = columns.prepare(&batch).unwrap();
        let (mut codes, mut all, mut nulls, mut as_they_are) = (Codes::default(), vec![], vec![], false);
        for from in (0..rows).step_by(2) {
            let morsel = from..rows.min(from + 2);
            match keys.morsel(morsel.clone(), interner, &mut codes) {
                Keys::Int32(keys) => {
                    as_they_are = true;
                    all.extend(keys.iter().map(|key| key.code()));
                    nulls.extend(morsel.map(|_| false));
                }
                Keys::Codes(codes) => {
                    all.extend(&codes.codes);
                    nulls.extend(morsel.clone().map(|row| codes.get(row - morsel.start).1));
                }
                Keys::One | Keys::Int64(_) => panic!("a dictionary has other keys"),
            }
        }
        // keys are dealt out to shards by their codes alone
        assert!(all.iter().zip(&nulls).all(|(&code, &null)| !null || code == 0), "all nulls have one code");
        let decoded = columns.decode(&all, Some(&nulls), interner).unwrap().remove(0);
        let text = |row| (!decoded.is_null(row)).then(|| format!("{:?}", decoded.slice(row, 1)));
        ((0..rows).map(text).collect(), as_they_are)
    }

    #[test]
    fn dictionaries_mean_their_values_whatever_came_before() {
        let values = |texts: &[&str]| Arc::new(StringArray::from(texts.to_vec())) as ArrayRef;
        let some = |keys: &[i32], values: &ArrayRef| {
            Arc::new(DictionaryArray::new(Int32Array::from(keys.to_vec()), values.clone())) as ArrayRef
        };
        let ab = values(&["a", "b"]);
        let interner = &mut Interner::default();
        let check = |column: ArrayRef, expected_as_they_are: bool, interner: &mut Interner| {
            let plain = arrow_select::take::take(
                column.as_any_dictionary().values(),
                column.as_any_dictionary().keys(),
                None,
            );
            let plain = plain.unwrap();
            let text = |row| (!plain.is_null(row)).then(|| format!("{:?}", plain.slice(row, 1)));
            let expected: Vec<_> = (0..plain.len()).map(text).collect();
            assert_eq!(keys_of(column, interner), (expected, expected_as_they_are));
        };
        // the first one, the same values again, and values that only add to it
        check(some(&[1, 0, 1], &ab), true, interner);
        check(some(&[0, 0], &ab), true, interner);
        check(some(&[2, 1, 0], &values(&["a", "b", "c"])), true, interner);
        check(some(&[1, 0, 1], &ab).slice(1, 2), true, interner);
        // another order, a value twice, a null among the values
        check(some(&[1, 0, 1], &values(&["b", "a"])), false, interner);
        check(some(&[1, 0, 1], &values(&["a", "a"])), false, interner);
        let with_null = Arc::new(StringArray::from(vec![Some("a"), None])) as ArrayRef;
        check(some(&[1, 0, 1], &with_null), false, interner);
        // nulls among the keys, and keys of another width
        let nulls = NullBuffer::from(vec![true, false, true, false]);
        let nulls = Int32Array::new(vec![1, 1, 0, 0].into(), Some(nulls));
        check(Arc::new(DictionaryArray::new(nulls, ab.clone())), false, interner);
        check(Arc::new(DictionaryArray::new(Int8Array::from(vec![1, 0, 1]), ab.clone())), false, interner);
        // the same values after they were forgotten: numbered anew, in the order in which they come then
        interner.retain(&[false; 3]);
        check(some(&[1, 0, 1], &ab), true, interner);
        interner.retain(&[false; 2]);
        check(some(&[1, 0, 1], &values(&["b", "a"])), true, interner);
        check(some(&[1, 0, 1], &ab), false, interner);
        // numbers are their own codes, so only those that count up from zero are in order
        let numbers = |values: Vec<i64>| Arc::new(Int64Array::from(values)) as ArrayRef;
        check(some(&[1, 0, 1], &numbers(vec![0, 1])), true, interner);
        check(some(&[1, 0, 1], &numbers(vec![1, 0])), false, interner);
        check(some(&[1, 0, 1], &numbers(vec![0, -1])), false, interner);
    }
}
